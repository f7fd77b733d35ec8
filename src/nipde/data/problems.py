"""The problems nipde can generate: Darcy flow through two-phase rock, and transport in a stirred medium."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from nipde.data.recipe import Recipe, option
from nipde.data.system import Quantities, Quantity, System
from nipde.errors import ArchiveError
from nipde.grid import Grid
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.darcy import Darcy
from nipde.physics.faces import Arithmetic, Harmonic
from nipde.physics.random_fields import GaussianField, TwoPhase

FACE_MEANS = {"harmonic": Harmonic(), "arithmetic": Arithmetic()}


@dataclass(frozen=True)
class RandomLoads(Recipe):
    """Scalar loads on the unit square, from Gaussian fields of unit root mean square."""

    load_alpha: float | tuple[float, ...] = option(
        1.0, "smoothness of the loads; a list such as [1,2,4] draws one per load"
    )

    @cached_property
    def grid(self) -> Grid:
        """The unit square, clamped on all sides."""
        return Grid.uniform(self.nodes)

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

    @property
    def diagnostic_names(self) -> tuple[str, ...]:
        """The solver's relative residual."""
        return ("residual",)


@dataclass(frozen=True)
class DarcyRecipe(RandomLoads):
    """-∇·(b∇p) = g on the unit square, p = 0 on its sides, b of two phases cut from a Gaussian field."""

    problem: ClassVar[str] = "darcy"

    field_alpha: float = option(4.0, "smoothness of the field that the phases are cut from")
    phases: tuple[float, float] = option((12.0, 3.0), "permeability where that field is negative, and elsewhere")
    face_mean: Literal["harmonic", "arithmetic"] = option("harmonic", "mean of the permeability between two nodes")

    @property
    def quantities(self) -> Quantities:
        """Source, pressure, permeability; dimensionless."""
        return Quantities(load=Quantity("source"), response=Quantity("pressure"), hidden=Quantity("permeability"))

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
        permeability = material(field).astype(self.precision)
        law = Darcy(grid, permeability[0].astype(np.float64), FACE_MEANS[self.face_mean])
        pressures, residual = law.checked_solve(loads[:, 0])
        fraction = grid.weights[field[0] < 0].sum() / grid.volume
        values = (material.negative, material.positive, fraction)
        return System(
            grid=grid,
            loads=loads,
            responses=pressures[:, None],
            hidden=permeability,
            seed=np.asarray(seed),
            parameters=dict(zip(self.parameter_names, map(np.asarray, values), strict=True)),
            diagnostics={"residual": residual},
        )


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

        fine = Grid.uniform(4 * law.waves + 1)
        return swirl(self.grid) / np.max(np.linalg.norm(swirl(fine), axis=0))


def recipe_from_dict(record: dict[str, Any]) -> Recipe:
    """Rebuild any recipe from its JSON form."""
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in record.items()}
    problem = values.pop("problem")
    if problem not in Recipe.kinds:
        raise ArchiveError(
            expected=f"a problem among {sorted(Recipe.kinds)}", got=repr(problem), remedy="use a newer nipde"
        )
    recipe = Recipe.kinds[problem]
    unknown = values.keys() - {field.name for field in fields(recipe)}
    if unknown:
        raise ArchiveError(expected=f"options of {recipe.__name__}", got=sorted(unknown), remedy="use a newer nipde")
    return recipe(**values)
