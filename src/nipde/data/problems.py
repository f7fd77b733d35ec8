"""The problems nipde can generate: flow through rock and transport in a stirred medium here, solids in `mechanics`."""

from abc import abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from nipde.data.mechanics import MechanicalMnistRecipe, TissueRecipe
from nipde.data.recipe import Recipe, option, streams
from nipde.data.system import Quantities, Quantity, System
from nipde.errors import ArchiveError
from nipde.grid import Grid
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.darcy import Darcy
from nipde.physics.faces import Arithmetic, Harmonic
from nipde.physics.random_fields import GaussianField, TwoPhase

FACE_MEANS = {"harmonic": Harmonic(), "arithmetic": Arithmetic()}


@dataclass(frozen=True)
class UnitSquare(Recipe):
    """A scalar balance law on the unit square."""

    @cached_property
    def grid(self) -> Grid:
        """The unit square, clamped on all sides."""
        return Grid.uniform(self.nodes)

    @property
    def diagnostic_names(self) -> tuple[str, ...]:
        """The solver's relative residual."""
        return ("residual",)


@dataclass(frozen=True)
class RandomLoads(UnitSquare):
    """Scalar loads from Gaussian fields of unit root mean square, their smoothness one for all systems."""

    load_alpha: float | tuple[float, ...] = option(
        1.0, "smoothness of the loads; a list such as [1,2,4] draws one per load"
    )

    def draw_loads(self, rng: np.random.Generator) -> Float[np.ndarray, "pair component *space"]:
        """One Gaussian field per pair, each of its own smoothness."""
        choices = np.atleast_1d(np.asarray(self.load_alpha, dtype=float))
        if len(choices) == 1:
            return GaussianField(float(choices[0]), rms=1.0).sample(self.grid, rng=rng, count=self.pairs)[:, None]
        alphas = rng.choice(choices, size=self.pairs)
        loads = np.empty((self.pairs, *self.grid.shape))
        for alpha in np.unique(choices):
            chosen = alphas == alpha
            law = GaussianField(float(alpha), rms=1.0)
            loads[chosen] = law.sample(self.grid, rng=rng, count=int(chosen.sum()))
        return loads[:, None]


@dataclass(frozen=True)
class DarcyFlow(UnitSquare):
    """-∇·(b∇p) = g on the unit square, p = 0 on its sides, however b and g are drawn."""

    @property
    @abstractmethod
    def face_mean(self) -> Literal["harmonic", "arithmetic"]:
        """Mean of the permeability between two nodes."""

    @property
    def quantities(self) -> Quantities:
        """Source, pressure, permeability; dimensionless."""
        return Quantities(load=Quantity("source"), response=Quantity("pressure"), hidden=Quantity("permeability"))

    def specimen(
        self,
        permeability: Float[np.ndarray, "component *space"],
        *,
        loads: Float[np.ndarray, "pair component *space"],
        seed: np.uint64,
        parameters: tuple[float, ...],
    ) -> System:
        """Solve for all loads; the permeability is rounded before, so that the stored one is the one solved with."""
        rounded = permeability.astype(self.precision)
        law = Darcy(self.grid, rounded[0].astype(np.float64), FACE_MEANS[self.face_mean])
        pressures, residual = law.checked_solve(loads[:, 0])
        return System(
            grid=self.grid,
            loads=loads,
            responses=pressures[:, None],
            hidden=rounded,
            seed=np.asarray(seed),
            parameters=dict(zip(self.parameter_names, map(np.asarray, parameters), strict=True)),
            diagnostics={"residual": residual},
        )


@dataclass(frozen=True)
class DarcyRecipe(RandomLoads, DarcyFlow):
    """-∇·(b∇p) = g on the unit square, p = 0 on its sides, b of two phases cut from a Gaussian field."""

    problem: ClassVar[str] = "darcy"

    field_alpha: float = option(4.0, "smoothness of the field that the phases are cut from")
    phases: tuple[float, float] = option((12.0, 3.0), "permeability where that field is negative, and elsewhere")
    face_mean: Literal["harmonic", "arithmetic"] = option("harmonic", "mean of the permeability between two nodes")

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The two permeabilities, and how much of the square has the first."""
        return ("permeability_negative", "permeability_positive", "fraction_negative")

    def solve(
        self, rng: np.random.Generator, loads: Float[np.ndarray, "pair component *space"], seed: np.uint64
    ) -> System:
        """One specimen, all loads."""
        grid, material = self.grid, TwoPhase(*self.phases)
        field = GaussianField(self.field_alpha).sample(grid, rng=rng, count=1)
        fraction = grid.weights[field[0] < 0].sum() / grid.volume
        parameters = (material.negative, material.positive, fraction)
        return self.specimen(material(field), loads=loads, seed=seed, parameters=parameters)


@dataclass(frozen=True)
class MixedDarcyRecipe(DarcyFlow):
    """-∇·(b∇p) = g as in darcy, each system with its own kind of rock, contrast, and smoothness of rock and loads."""

    problem: ClassVar[str] = "darcy-mixed"

    # Two phases: b = level · contrast^±½, by the sign of a Gaussian field ξ. Log-normal: b = level · contrast^±s with
    # s = ξ / (its 95 % quantile - its 5 % quantile). Draws are uniform in the ranges, that of log(contrast) too.
    log_normal_share: float = option(1 / 3, "probability of smooth log-normal rock; the rest has two phases")
    contrasts: tuple[float, float] = option(
        (1.5, 30.0), "range of the ratio of the two phases, or of the 0.95 to the 0.05 quantile of log-normal rock"
    )
    level: float = option(6.0, "geometric mean of the two phases, or of log-normal rock over the square")
    field_alphas: tuple[float, float] = option((3.0, 5.0), "range of the smoothness of the field behind the rock")
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

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """What was drawn, 0 or 1 for `log_normal` and `rising` (b with the field); area share of a negative field."""
        return ("log_normal", "contrast", "rising", "field_alpha", "field_tau", "load_alpha", "fraction_negative")

    def draw_loads(self, rng: np.random.Generator) -> Float[np.ndarray, "pair component *space"]:
        """One Gaussian field per pair, all of one smoothness."""
        return GaussianField(self._load_alpha(rng), rms=1.0).sample(self.grid, rng=rng, count=self.pairs)[:, None]

    def solve(
        self, rng: np.random.Generator, loads: Float[np.ndarray, "pair component *space"], seed: np.uint64
    ) -> System:
        """One specimen, all loads, which must be those of the seed: their smoothness is read from its stream."""
        log_normal = rng.random() < self.log_normal_share
        low, high = self.contrasts
        contrast = low * (high / low) ** rng.random()
        rising = rng.random() < 0.5
        law = GaussianField(rng.uniform(*self.field_alphas), rng.uniform(*self.field_taus))
        coefficients = law.coefficients(self.grid, rng=rng, count=1)
        field = law.synthesise(self.grid, coefficients)
        exponent = field / _quantile_range(law, coefficients) if log_normal else np.where(field < 0, -0.5, 0.5)
        permeability = self.level * contrast ** (exponent if rising else -exponent)
        fraction = self.grid.weights[field[0] < 0].sum() / self.grid.volume
        load_alpha = self._load_alpha(streams(seed)[1])
        parameters = (float(log_normal), contrast, float(rising), law.alpha, law.tau, load_alpha, fraction)
        return self.specimen(permeability, loads=loads, seed=seed, parameters=parameters)

    def _load_alpha(self, rng: np.random.Generator) -> float:
        return rng.uniform(*self.load_alphas)


@dataclass(frozen=True)
class AdvectionRecipe(RandomLoads):
    """-Δu + ∇·(v u) = f on the unit square, u = 0 on its sides, v the swirl of a random stream function."""

    problem: ClassVar[str] = "advection"

    field_alpha: float = option(4.0, "smoothness of the stream function")
    speed: float = option(20.0, "largest speed; each system draws its own peak from half of it to all of it")

    @property
    def quantities(self) -> Quantities:
        """Source, concentration, velocity; dimensionless, diffusivity 1."""
        return Quantities(
            load=Quantity("source"),
            response=Quantity("concentration"),
            hidden=Quantity("velocity", components=("x", "y")),
        )

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The drawn peak speed."""
        return ("peak_speed",)

    def solve(
        self, rng: np.random.Generator, loads: Float[np.ndarray, "pair component *space"], seed: np.uint64
    ) -> System:
        """One medium, all loads."""
        grid, peak = self.grid, self.speed * rng.uniform(0.5, 1.0)
        velocity = (peak * self._unit_swirl(rng)).astype(self.precision)
        law = AdvectionDiffusion(grid, np.ones(grid.shape), velocity.astype(np.float64))
        concentrations, residual = law.checked_solve(loads[:, 0])
        return System(
            grid=grid,
            loads=loads,
            responses=concentrations[:, None],
            hidden=velocity,
            seed=np.asarray(seed),
            parameters={"peak_speed": np.asarray(peak)},
            diagnostics={"residual": residual},
        )

    def _unit_swirl(self, rng: np.random.Generator) -> Float[np.ndarray, "component *space"]:
        """(∂ψ/∂y, -∂ψ/∂x) with peak speed 1, the peak taken on one fixed fine grid: resolution changes nothing."""
        law = GaussianField(self.field_alpha)
        coefficients = law.coefficients(self.grid, rng=rng, count=1)

        def swirl(grid: Grid) -> np.ndarray:
            return np.concatenate(
                [
                    law.synthesise(grid, coefficients, derivative=1),
                    -law.synthesise(grid, coefficients, derivative=0),
                ]
            )

        return swirl(self.grid) / np.max(np.linalg.norm(swirl(_fine(law)), axis=0))


#: All of them, by the name a person types.
PROBLEMS: dict[str, type[Recipe]] = {
    recipe.problem: recipe
    for recipe in (DarcyRecipe, MixedDarcyRecipe, AdvectionRecipe, MechanicalMnistRecipe, TissueRecipe)
}


def recipe_from_dict(record: dict[str, Any]) -> Recipe:
    """Rebuild any recipe from its JSON form."""
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in record.items()}
    problem = values.pop("problem")
    if problem not in Recipe.kinds:
        for brought in entry_points(group="nipde.recipes", name=problem):
            brought.load()
    if problem not in Recipe.kinds:
        raise ArchiveError(
            expected=f"a problem among {sorted(Recipe.kinds)}", got=repr(problem),
            remedy="import the module that defines it, or install the package whose entry point nipde.recipes names it",
        )  # fmt: skip
    recipe = Recipe.kinds[problem]
    unknown = values.keys() - {field.name for field in fields(recipe)}
    if unknown:
        raise ArchiveError(expected=f"options of {recipe.__name__}", got=sorted(unknown), remedy="use a newer nipde")
    return recipe(**values)


def _quantile_range(law: GaussianField, coefficients: Float[np.ndarray, "1 *mode"]) -> float:
    """From the 5 % to the 95 % quantile of a field's values on one fixed fine grid: resolution changes nothing."""
    low, high = np.quantile(law.synthesise(_fine(law), coefficients), (0.05, 0.95))
    return float(high - low)


def _fine(law: GaussianField) -> Grid:
    """A grid that resolves every wave of a law on the unit square."""
    return Grid.uniform(4 * law.waves + 1)
