"""The laws `nipde generate` knows by name: those of nipde, and those of installed packages.

A package adds one by an entry point of the group `nipde.problems`, its name that of the recipe:

    [project.entry-points."nipde.problems"]
    mylaw = "mypackage.mylaw:MyRecipe"
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from typing import Any, ClassVar, get_type_hints

import numpy as np
from numpy.random import Generator

from nipde.data.checked_json import conforms
from nipde.data.conduction_3d import Conduction3DRecipe
from nipde.data.darcy import DarcyRecipe, MixedDarcyRecipe
from nipde.data.mechanics import MechanicalMnistRecipe, TissueRecipe
from nipde.data.recipe import HiddenField, RandomLoads, Recipe, option
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.data.shapes import ShapedDarcyRecipe
from nipde.data.system import Quantities, Quantity
from nipde.errors import ArchiveError, meant
from nipde.grid import Grid
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.random_fields import GaussianField


@dataclass(frozen=True)
class AdvectionRecipe(RandomLoads):
    """-Δu + ∇·(v u) = f on the unit square, u = 0 on its sides, v the curl of a random stream function."""

    problem: ClassVar[str] = "advection"
    parameter_names: ClassVar[tuple[str, ...]] = ("peak_speed",)

    field_alpha: float = option(4.0, "smoothness of the stream function")
    speed: float = option(20.0, "largest speed; each system draws its own peak from half of it to all of it")

    @property
    def quantities(self) -> Quantities:
        """Source, concentration, velocity; dimensionless, diffusivity 1."""
        velocity = Quantity("velocity", components=("x", "y"))
        return Quantities(load=Quantity("source"), response=Quantity("concentration"), hidden=velocity)

    def draw_hidden(self, rng: Generator, seed: np.uint64) -> tuple[HiddenField, tuple[float]]:
        """A velocity field and its peak speed, taken on a grid that resolves every wave: resolution changes nothing."""
        peak = self.speed * rng.uniform(0.5, 1.0)
        law = GaussianField(self.field_alpha)
        coefficients = law.coefficients(self.grid, rng=rng, count=1)

        def curl(grid: Grid) -> HiddenField:
            along_x, along_y = (law.synthesise(grid, coefficients, derivative=axis) for axis in (0, 1))
            return np.concatenate([along_y, -along_x])

        fastest = np.max(np.linalg.norm(curl(law.resolving_grid()), axis=0))
        return peak * (curl(self.grid) / fastest), (peak,)

    def law_of(self, hidden: HiddenField) -> AdvectionDiffusion:
        """Diffusivity 1."""
        return AdvectionDiffusion(self.grid, np.ones(self.grid.shape), hidden.astype(np.float64))


GROUP = "nipde.problems"
#: Those of nipde.
PROBLEMS: dict[str, type[Recipe]] = {
    recipe.problem: recipe
    for recipe in (
        DarcyRecipe,
        MixedDarcyRecipe,
        ReferenceDarcyRecipe,
        ShapedDarcyRecipe,
        Conduction3DRecipe,
        AdvectionRecipe,
        MechanicalMnistRecipe,
        TissueRecipe,
    )
}


def problem_names() -> list[str]:
    """All names, those of nipde first; nothing of other packages is imported."""
    return list(dict.fromkeys([*PROBLEMS, *Recipe.kinds, *(entry.name for entry in entry_points(group=GROUP))]))


def problem(name: str) -> type[Recipe]:
    """The recipe of a name; of other packages only this one is imported."""
    if isinstance(name, str) and name not in Recipe.kinds:
        for entry in entry_points(group=GROUP, name=name):
            entry.load()
    if not isinstance(name, str) or name not in Recipe.kinds:
        otherwise = f"import the module that defines it, or install the package whose entry point {GROUP} names it"
        names = problem_names()
        remedy = meant(str(name), names, otherwise=otherwise)
        raise ArchiveError(expected=f"a problem among {', '.join(names)}", got=repr(name), remedy=remedy)
    return Recipe.kinds[name]


def described() -> Iterator[tuple[str, str]]:
    """Every name with one line of help; a package that cannot be imported is named with its error."""
    for name in problem_names():
        try:
            text = (problem(name).__doc__ or "").partition("\n")[0]
        except Exception as error:
            text = f"cannot be loaded: {error}"
        yield name, text


def recipe_from_dict(record: dict[str, Any]) -> Recipe:
    """Rebuild any recipe from its JSON form, whoever wrote it; an ArchiveError where no recipe comes of it."""
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in record.items()}
    recipe = problem(values.pop("problem", None))
    unknown = values.keys() - {field.name for field in fields(recipe)}
    if unknown:
        raise ArchiveError(expected=f"options of {recipe.__name__}", got=sorted(unknown), remedy="use a newer nipde")
    kinds = get_type_hints(recipe)
    for name, value in values.items():
        if not conforms(value, kinds[name]):
            raise ArchiveError(f"{name} of {recipe.__name__}", expected=kinds[name], got=value, remedy="mend it")
    try:
        made = recipe(**values)
        made.grid  # noqa: B018  (one that cannot be built is refused here)
    except ArchiveError:
        raise
    except Exception as error:  # of a recipe of anyone's
        raise ArchiveError(f"{recipe.__name__} cannot be built", got=error, remedy="mend its options") from error
    return made
