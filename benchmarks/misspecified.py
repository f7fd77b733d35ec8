"""Eighteen ways in which a measurement differs from what is said of it: errors of readings, of loads, and of the law.

Systems are those of the row `two phases`: two-phase materials, 50 pairs, 1 % noise. Queries have the loads that are
said and the true law, without errors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.ndimage import gaussian_filter, shift
from scipy.sparse.linalg import splu

from nipde.data.finer_mesh import extrapolated
from nipde.data.plan import Plan
from nipde.data.recipe import streams
from nipde.data.reference import MATERIALS, ReferenceDarcyRecipe, load_functions
from nipde.estimators.inverse.nuisance import NuisanceKind
from nipde.physics.finite_elements import FiniteElements

Fields = np.ndarray
#: Standard deviation of the noise that is stated, as a share of the responses.
NOISE = 0.01


@dataclass(frozen=True, eq=False)
class Specimen:
    """Pairs without noise, context first, at the nodes of the data; the material in the cells of the mesh."""

    loads: Fields
    responses: Fields
    fine: Fields
    grid: Any


def specimen(number: int, seed: int, *, pairs: int, case: str) -> Specimen:
    """A system whose law is that of the case."""
    contrast, family = {"contrast 100": (100.0, "two-phase"), "three phases": (4.0, "three-phase")}.get(
        case, (4.0, "two-phase")
    )
    recipe = ReferenceDarcyRecipe(pairs=pairs, contrast=contrast)
    system_seed = Plan(recipe, number + 1, seed).system_seed(number)
    rng = streams(system_seed)[0]
    fine = MATERIALS[family](rng, recipe.mesh, contrast).astype(np.float64)
    responses = extrapolated(*(_responses(recipe, fine, system_seed, case, elements) for elements in (1, 2)))
    loads = load_functions(recipe.loads, streams(system_seed)[1], recipe.grid, pairs)
    return Specimen(loads, responses, fine, recipe.grid)


ANISOTROPY = {"anisotropy 1.1": 1.1, "anisotropy 1.5": 1.5}


def _responses(recipe: ReferenceDarcyRecipe, fine: Fields, seed: np.uint64, case: str, elements: int) -> Fields:
    """At the nodes of the data, by so many finite elements along every axis of a cell."""
    mesh = recipe.mesh.refine(elements)
    law = FiniteElements(mesh, np.kron(fine, np.ones((elements, elements))), ANISOTROPY.get(case, 1.0))
    loads = load_functions(recipe.loads, streams(seed)[1], mesh, recipe.pairs)
    return mesh.restrict(_solved(law, loads, case), to=recipe.grid)


def _solved(law: FiniteElements, loads: Fields, case: str) -> Fields:
    """Responses on the mesh of a law; the loads that act may be others than those that are said."""
    mesh = law.grid
    moments = law.moments(loads).reshape(len(loads), -1).T
    matrix, free, given = law.stiffness, mesh.unknown.copy(), np.zeros(mesh.size)
    if case == "reaction":
        matrix = matrix + 12.0 * law.mass
    if case == "drift":
        matrix = matrix + 6.0 * _along_x(mesh)
    if case == "a free side":
        free[0, 1:-1] = True
    free = np.flatnonzero(free.ravel())
    factor = splu(sparse.csc_array(matrix[free][:, free]))
    if case == "a side at 5 %":
        usual = factor.solve(moments[free])
        side = np.zeros(mesh.shape)
        side[-1] = 0.05 * np.sqrt(np.mean(usual**2))
        given = side.ravel()
    right = moments - (matrix @ given)[:, None]
    responses = np.tile(given[:, None], (1, len(loads)))
    responses[free] = factor.solve(right[free])
    return responses.T.reshape(loads.shape)


def _along_x(mesh: Any) -> sparse.csc_array:
    """∫ N ∂N/∂x, for a drift along x."""
    across, along = mesh.axes
    slope = sparse.diags_array([-0.5, 0.5], offsets=[-1, 1], shape=(across.nodes, across.nodes))
    mass = sparse.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(along.nodes, along.nodes))
    return sparse.csc_array(sparse.kron(slope, along.spacing / 6 * mass))


@dataclass(frozen=True)
class Experiment:
    """What is handed to an estimator: stated loads, readings at inner nodes, and the stated deviation."""

    loads: Fields
    readings: Fields
    noise: float


def measured(one: Specimen, case: str, rng: np.random.Generator, *, pairs: int) -> Experiment:
    """Readings of the first pairs with the errors of the case."""
    loads, responses = one.loads[:pairs], one.responses[:pairs]
    size = float(np.sqrt(np.mean(responses[:, one.grid.unknown] ** 2)))
    noise = NOISE * size * rng.standard_normal(responses.shape)
    error, stated = ERRORS.get(case, _nothing), NOISE * size
    if case.startswith("noise stated"):
        stated /= {"noise stated 5 times too low": 5.0, "noise stated twice too low": 2.0}[case]
    return Experiment(*error(loads, responses, noise, rng), stated)


Error = Callable[[Fields, Fields, Fields, np.random.Generator], tuple[Fields, Fields]]


def _nothing(loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator) -> tuple[Fields, Fields]:
    return loads, responses + noise


def _correlated(loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator) -> tuple[Fields, Fields]:
    smooth = gaussian_filter(noise, (0, 1.5, 1.5), mode="wrap")
    return loads, responses + smooth * (noise.std() / smooth.std())


def _multiplicative(loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator) -> tuple[Fields, Fields]:
    return loads, responses * (1 + noise / np.sqrt(np.mean(responses**2)))


def _gains(
    loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator, *, common: bool
) -> tuple[Fields, Fields]:
    """Of the load that acts, over the one that is said."""
    gains = np.full(len(loads), 1.02) if common else 1 + 0.02 * rng.standard_normal(len(loads))
    return loads, gains[:, None, None] * responses + noise


def _shifted(loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator) -> tuple[Fields, Fields]:
    return shift(loads, (0, 0.25, 0), order=5, mode="nearest"), responses + noise


def _outliers(loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator) -> tuple[Fields, Fields]:
    off = np.where(rng.random(noise.shape) < 0.01, 10.0, 1.0)
    return loads, responses + off * noise


def _offsets(loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator) -> tuple[Fields, Fields]:
    sizes = 0.02 * np.sqrt(np.mean(responses**2)) * rng.standard_normal(len(loads))
    return loads, responses + sizes[:, None, None] + noise


def _moved_sensors(loads: Fields, responses: Fields, noise: Fields, rng: np.random.Generator) -> tuple[Fields, Fields]:
    return loads, shift(responses, (0, 0.1, 0.05), order=5, mode="nearest") + noise


ERRORS: dict[str, Error] = {
    "correlated noise": _correlated, "multiplicative noise": _multiplicative,
    "load gains of 2 %": partial(_gains, common=False), "common gain of 2 %": partial(_gains, common=True),
    "loads off by a quarter cell": _shifted, "outliers": _outliers, "offsets": _offsets,
    "sensors off by a tenth of a cell": _moved_sensors,
}  # fmt: skip
CASES = (
    *ERRORS, "noise stated 5 times too low", "noise stated twice too low", *ANISOTROPY, "reaction", "drift",
    "contrast 100", "three phases", "a free side", "a side at 5 %",
)  # fmt: skip
#: Which errors an estimator can be told of, and how.
NUISANCES: dict[str, tuple[NuisanceKind, ...]] = {
    "load gains of 2 %": ("gain",), "offsets": ("offset",), "outliers": ("outliers",),
}  # fmt: skip
