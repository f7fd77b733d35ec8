"""Equilibrium at the interior nodes of a plane body, linear in the coefficients of its cells.

    Σ_cells Σ_j θ_cj ∫ P_j(∇u_i) ∇N_a dx = ∫ b_i N_a dx      for every pair i, node a and component

Four cells meet at a node, so the normal equations are banded; they are sums over pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import LinAlgError, solveh_banded

from nipde.physics.quadrilaterals import Quadrilaterals

#: Pairs whose stresses are held in memory together.
PAIRS = 20

#: Vectors at the nodes.
Fields = Float[np.ndarray, "pair 2 x y"]
Stresses = Callable[[Float[np.ndarray, "pair cell point 2 2"]], Float[np.ndarray, "term pair cell point 2 2"]]


@dataclass(frozen=True, eq=False)
class EquilibriumGap:
    """Normal equations node by node: Gram matrices of the columns of the four cells around, and right-hand sides."""

    gram: Float[np.ndarray, "node column column"]
    right: Float[np.ndarray, "node column"]
    #: Which coefficient every column is.
    places: Int[np.ndarray, "node column"]
    cells: tuple[int, int]
    terms: int

    @classmethod
    def of(cls, mesh: Quadrilaterals, stresses: Stresses, *, loads: Fields, responses: Fields) -> Self:
        """All pairs; `stresses` gives those of all terms for a coefficient of 1."""
        forces = mesh.nodal_forces(loads).reshape(len(loads), *mesh.shape, 2)[:, 1:-1, 1:-1]
        gram, right, terms = np.zeros(()), np.zeros(()), 0
        for first in range(0, len(loads), PAIRS):
            block = slice(first, first + PAIRS)
            columns, terms = _columns(mesh, stresses, responses[block])
            target = np.moveaxis(forces[block], 0, 2).reshape(len(columns), -1, 1)
            gram = gram + columns.mT @ columns
            right = right + (columns.mT @ target)[..., 0]
        return cls(gram, right, _places(mesh.cells, terms), mesh.cells, terms)

    @cached_property
    def homogeneous(self) -> Float[np.ndarray, " term"]:
        """The best coefficients of a homogeneous body, its matrix (the first two terms) of positive stiffness."""
        gram = self.gram.reshape(-1, 4, self.terms, 4, self.terms).sum((0, 1, 3))
        right = self.right.reshape(-1, 4, self.terms).sum((0, 1))
        best = np.linalg.lstsq(gram, right, rcond=1e-12)[0]
        return np.concatenate([np.maximum(best[:2], 1e-3 * np.abs(best[:2]).max()), best[2:]])

    def solve(
        self, towards: Float[np.ndarray, " term"], *, pull: float | Float[np.ndarray, " term"]
    ) -> Float[np.ndarray, "cell term"]:
        """Least squares, drawn `towards` given values with a share `pull` of every coefficient's own weight."""
        towards = np.tile(towards, (self.cells[0] * self.cells[1], 1))
        total, width = towards.size, (self.cells[1] + 2) * self.terms
        around = (self.places[:, :, None], self.places[:, None])
        rows, columns = (np.broadcast_to(places, self.gram.shape).reshape(-1) for places in around)
        lower = rows >= columns
        slots = (rows - columns)[lower] * total + columns[lower]
        band = np.bincount(slots, self.gram.reshape(-1)[lower], width * total).reshape(width, total)
        own = band[0].reshape(-1, self.terms)
        weight = (pull * np.maximum(own, 1e-9 * own.mean(0))).reshape(-1)
        right = np.bincount(self.places.reshape(-1), self.right.reshape(-1), total) + weight * towards.reshape(-1)
        band[0] += weight
        try:
            return solveh_banded(band, right, lower=True).reshape(-1, self.terms)
        except LinAlgError:
            return towards


def term_forces(
    mesh: Quadrilaterals, stresses: Stresses, responses: Fields
) -> Float[np.ndarray, "pair element local term 2"]:
    """∫ P_j(∇u_i) ∇N_a dx of every element and term."""
    nodal = np.moveaxis(responses.reshape(len(responses), 2, -1), 1, 2)
    gradient = np.einsum("ieac,qak->ieqck", nodal[:, mesh.elements], mesh.gradients)
    pushing = mesh.gradients * mesh.weights[:, None, None]
    return np.einsum("jieqck,qak->ieajc", stresses(gradient), pushing, optimize=True)


def _columns(
    mesh: Quadrilaterals, stresses: Stresses, responses: Fields
) -> tuple[Float[np.ndarray, "node equation column"], int]:
    """Forces of the terms of the four cells around every interior node."""
    forces = term_forces(mesh, stresses, responses)
    terms = forces.shape[3]
    forces = forces.reshape(len(responses), *mesh.cells, 4, terms, 2)
    ends = (slice(None, -1), slice(1, None))
    around = [forces[:, x, y, 3 - number] for number, (x, y) in enumerate((x, y) for x in ends for y in ends)]
    stacked = np.stack(around, 3)  # pair, x, y, cell, term, component
    return stacked.transpose(1, 2, 0, 5, 3, 4).reshape(-1, len(responses) * 2, 4 * terms), terms


def _places(cells: tuple[int, int], terms: int) -> Int[np.ndarray, "node column"]:
    """Numbers of the coefficients around every interior node, term fastest, then y."""
    numbers = np.arange(cells[0] * cells[1]).reshape(cells)
    ends = (slice(None, -1), slice(1, None))
    around = np.stack([numbers[x, y] for x in ends for y in ends], -1).reshape(-1, 4)
    return (around[:, :, None] * terms + np.arange(terms)).reshape(len(around), -1)
