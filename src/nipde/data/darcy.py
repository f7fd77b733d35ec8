"""Darcy flow -∇·(b∇p) = g on the unit square with random permeabilities b and sources g."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from nipde.data.recipe import HiddenField, LinearRecipe, Loads, RandomLoads, option, streams
from nipde.data.system import Quantities, Quantity
from nipde.discretisation.links import Arithmetic, Harmonic
from nipde.errors import ArchiveError
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

FACE_MEANS = {"harmonic": Harmonic(), "arithmetic": Arithmetic()}


@dataclass(frozen=True)
class DarcyFlow(LinearRecipe):
    """-∇·(b∇p) = g on the unit square, p = 0 on its sides, however b and g are drawn."""

    @property
    @abstractmethod
    def face_mean(self) -> Literal["harmonic", "arithmetic"]:
        """Mean of the permeability between two nodes."""

    @property
    def quantities(self) -> Quantities:
        """Source, pressure, permeability; dimensionless."""
        return Quantities(load=Quantity("source"), response=Quantity("pressure"), hidden=Quantity("permeability"))

    def law_of(self, hidden: HiddenField) -> Darcy:
        """Darcy's law with the recipe's face mean."""
        return Darcy(self.grid, hidden[0].astype(np.float64), FACE_MEANS[self.face_mean])

    def negative_share(self, field: Float[np.ndarray, "*space"]) -> float:
        """Share of the area where a field is negative."""
        return self.grid.weights[field < 0].sum() / self.grid.volume


@dataclass(frozen=True)
class DarcyRecipe(RandomLoads, DarcyFlow):
    """-∇·(b∇p) = g on the unit square, p = 0 on its sides, b of two phases cut from a Gaussian field."""

    problem: ClassVar[str] = "darcy"
    #: The two permeabilities, and the area share of the first.
    parameter_names: ClassVar[tuple[str, ...]] = ("permeability_negative", "permeability_positive", "fraction_negative")

    field_alpha: float = option(4.0, "smoothness of the field that the phases are cut from")
    phases: tuple[float, float] = option((12.0, 3.0), "permeability where that field is negative, and elsewhere")
    face_mean: Literal["harmonic", "arithmetic"] = option("harmonic", "mean of the permeability between two nodes")

    def draw_hidden(self, rng: Generator, seed: np.uint64) -> tuple[HiddenField, tuple[float, ...]]:
        """Two phases."""
        material, field = TwoPhase(*self.phases), GaussianField(self.field_alpha).sample(self.grid, rng=rng, count=1)
        return material(field), (material.negative, material.positive, self.negative_share(field[0]))


@dataclass(frozen=True)
class MixedDarcyRecipe(DarcyFlow):
    """-∇·(b∇p) = g as in darcy; kind of material, contrast, and smoothness of b and g differ between systems."""

    problem: ClassVar[str] = "darcy-mixed"
    #: `log_normal` and `rising` (b with the field) are 0 or 1; the last is the area share of a negative field.
    parameter_names: ClassVar[tuple[str, ...]] = (
        "log_normal", "contrast", "rising", "field_alpha", "field_tau", "load_alpha", "fraction_negative",
    )  # fmt: skip

    # Two phases: b = level · contrast^±½, by the sign of a Gaussian field ξ. Log-normal: b = level · contrast^±s with
    # s = ξ / (its 95 % quantile - its 5 % quantile). Draws are uniform in the ranges, that of log(contrast) too.
    log_normal_share: float = option(1 / 3, "probability of a smooth log-normal material; the rest has two phases")
    contrasts: tuple[float, float] = option(
        (1.5, 30.0), "range of the ratio of the two phases, or of the 0.95 to the 0.05 quantile if log-normal"
    )
    level: float = option(6.0, "geometric mean of the two phases, or of a log-normal material over the square")
    field_alphas: tuple[float, float] = option((3.0, 5.0), "range of the smoothness of the field behind the material")
    field_taus: tuple[float, float] = option((4.0, 7.0), "range of the inverse correlation length of that field")
    load_alphas: tuple[float, float] = option((1.0, 4.0), "range of the smoothness of loads; one value per system")
    face_mean: Literal["harmonic", "arithmetic"] = option("harmonic", "mean of the permeability between two nodes")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared_loads:
            raise ArchiveError(
                expected="loads of each system's own, as their smoothness is", got="shared loads",
                remedy="leave shared_loads off, or use darcy",
            )  # fmt: skip
        if not (0 <= self.log_normal_share <= 1 and 0 < self.level < np.inf):
            raise ArchiveError(
                expected="a log_normal_share from 0 to 1 and a level > 0",
                got=(self.log_normal_share, self.level), remedy="choose others",
            )  # fmt: skip
        for name, least in (("contrasts", 1.0), ("field_alphas", 0.0), ("field_taus", 0.0), ("load_alphas", 0.0)):
            low, high = getattr(self, name)
            if not (0 < low <= high < np.inf and least <= low):
                bound = ">= 1" if least else "> 0"
                raise ArchiveError(
                    expected=f"{name} {bound}, the smaller first", got=(low, high), remedy="give the ends of a range"
                )

    def draw_loads(self, rng: Generator) -> Loads:
        """One Gaussian field per pair, all of one smoothness."""
        return GaussianField(self._load_alpha(rng), rms=1.0).sample(self.grid, rng=rng, count=self.pairs)[:, None]

    def draw_hidden(self, rng: Generator, seed: np.uint64) -> tuple[HiddenField, tuple[float, ...]]:
        """One material; the smoothness of the loads, a parameter too, is read from their stream of the seed."""
        log_normal = rng.random() < self.log_normal_share
        low, high = self.contrasts
        contrast = low * (high / low) ** rng.random()
        rising = rng.random() < 0.5
        law = GaussianField(rng.uniform(*self.field_alphas), rng.uniform(*self.field_taus))
        coefficients = law.coefficients(self.grid, rng=rng, count=1)
        field = law.synthesise(self.grid, coefficients)
        if log_normal:  # quantiles on one fixed grid: resolution changes nothing
            least, most = np.quantile(law.synthesise(law.resolving_grid(), coefficients), (0.05, 0.95))
            exponent = field / float(most - least)
        else:
            exponent = np.where(field < 0, -0.5, 0.5)
        permeability = self.level * contrast ** (exponent if rising else -exponent)
        load_alpha = self._load_alpha(streams(seed)[1])
        drawn = (float(log_normal), contrast, float(rising), law.alpha, law.tau, load_alpha)
        return permeability, (*drawn, self.negative_share(field[0]))

    def _load_alpha(self, rng: Generator) -> float:
        return rng.uniform(*self.load_alphas)
