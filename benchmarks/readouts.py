"""What a kernel says about the material, read in several ways; all of them in the unit of b.

    row integral    ∫K₁(x, y) dy / ∫K(x, y) dy         diagonal    K₁(x, x) / K(x, x)
    stiffness       A = K⁺:  A(x, x) / A₁(x, x)        stencil     A(x, y) / A₁(x, y) over the neighbours y of x

K₁, A₁ are those of the medium b = 1. K⁺ is an inverse that leaves out what noise hides. The inferred field and the
field of the nearest law need no such comparison.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from nipde.discretisation.links import links_of
from nipde.errors import KernelError
from nipde.estimators.inverse.adjoint import permeability_of
from nipde.grid import Grid
from nipde.kernels.base import Kernel
from nipde.physics.darcy import Darcy

Field = Float[ndarray, "*space"]

#: Singular values of K below this share of the largest are left out of its inverse.
HIDDEN = 1e-4


def inferred(kernel: Kernel) -> Field:
    """The coefficient that a prior with a law has inferred."""
    if kernel.coefficient is None:
        raise KernelError(expected="a kernel with a coefficient", got=type(kernel).__name__, remedy="use nearest_law")
    return kernel.coefficient.detach().double().cpu().numpy()


def nearest_law(kernel: Kernel) -> Field:
    """The permeability of Darcy's law whose kernel is nearest: the paper's inversion."""
    return permeability_of(kernel)[0].double().cpu().numpy()


def row_integral(kernel: Kernel) -> Field:
    """The paper's interaction strength, over that of the medium b = 1."""
    grid = kernel.grid
    found = kernel.row_integral()[0].detach().double().cpu().numpy()
    return _over(_unit(grid).solve(np.ones((1, *grid.shape)))[0], found)


def diagonal(kernel: Kernel) -> Field:
    """What a point feels of itself, over that of the medium b = 1."""
    grid = kernel.grid
    own = np.diagonal(_unit(grid).green()).reshape(grid.shape)
    return _over(own, kernel.diagonal()[0].detach().double().cpu().numpy())


def stiffness(kernel: Kernel) -> Field:
    """What it takes to move one point alone, over that of the medium b = 1."""
    grid = kernel.grid
    around = np.zeros(grid.size)
    links = links_of(grid)
    for end in (links.first, links.second):
        np.add.at(around, end, links.area / links.distance)
    return _spread_out(grid, np.diagonal(_inverse(kernel)) / around[grid.unknown.reshape(-1)])


def stencil(kernel: Kernel) -> Field:
    """How strongly neighbours are coupled, over that of the medium b = 1; the mean over the neighbours of a node."""
    grid, links, free = kernel.grid, links_of(kernel.grid), kernel.grid.unknown.reshape(-1)
    number = np.cumsum(free) - 1
    inside = free[links.first] & free[links.second]
    first, second = number[links.first[inside]], number[links.second[inside]]
    coupling = -_inverse(kernel)[first, second] / (links.area / links.distance)[inside]
    total, count = np.zeros(free.sum()), np.zeros(free.sum())
    for end in (first, second):
        np.add.at(total, end, coupling)
        np.add.at(count, end, 1)
    return _spread_out(grid, total / count)


READOUTS: dict[str, Callable[[Kernel], Field]] = {
    "inferred field": inferred,
    "nearest law": nearest_law,
    "stencil": stencil,
    "stiffness": stiffness,
    "diagonal": diagonal,
    "row integral": row_integral,
}


def _unit(grid: Grid) -> Darcy:
    return Darcy(grid, np.ones(grid.shape))


def _inverse(kernel: Kernel) -> Float[ndarray, "free free"]:
    """K⁺ on free nodes, symmetric."""
    free = kernel.grid.unknown.reshape(-1)
    values = kernel.dense().detach().double().cpu().numpy()[np.ix_(free, free)]
    sizes, vectors = np.linalg.eigh((values + values.T) / 2)
    kept = sizes > HIDDEN * sizes[-1]
    return (vectors[:, kept] / sizes[kept]) @ vectors[:, kept].T


def _spread_out(grid: Grid, values: Float[ndarray, " free"]) -> Field:
    """A field of free nodes; Dirichlet nodes, of which nothing is known, take the nearest value inside."""
    field = np.zeros(grid.shape)
    field[grid.unknown] = values
    widths = [(1, 1) if axis.boundary.essential else (0, 0) for axis in grid.axes]
    return np.pad(field[grid.inner], widths, mode="edge")


def _over(unit: ndarray, found: ndarray) -> ndarray:
    """Ratio; where the found value is not positive there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(found > 0, unit / found, np.nan)
