"""Closed-form truths: a coefficient, a solution that vanishes on the boundary, and the load that makes it one."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from nipde.grid import Grid


@dataclass(frozen=True)
class Truth:
    """Nodal fields of one exactly solved system; `velocity` is zero where the law has none."""

    coefficient: Float[np.ndarray, "*space"]
    solution: Float[np.ndarray, "*space"]
    load: Float[np.ndarray, "*space"]
    velocity: Float[np.ndarray, "axis *space"]


def smooth_diffusion(grid: Grid) -> Truth:
    """-∇·(b∇p) = g with b = 2 + Π sin(2πx_a + a), p = Π sin((a+1)πx_a) on the unit box, a = 0, 1, 2."""
    return _truth(grid, speed=0.0)


def smooth_transport(grid: Grid, *, speed: float) -> Truth:
    """The same with ∇·(v p) added; v_a = speed·cos(πx_a)·(1, 2, 3)_a, neither constant nor free of divergence."""
    return _truth(grid, speed=speed)


def slab_green(grid: Grid, *, source: int, jump: float, left: float, right: float) -> Float[np.ndarray, " node"]:
    """1D response to a unit load at node `source` of a bar that changes from b=left to b=right at x=jump.

    Piecewise linear: the resistance passed, r(x) = ∫₀ˣ dx/b, gives p = r(min)·(R - r(max))/R with R = r(length).
    """
    (axis,) = grid.axes

    def resistance(x: np.ndarray | float) -> np.ndarray:
        return np.minimum(x, jump) / left + np.maximum(np.asarray(x) - jump, 0.0) / right

    x = axis.coordinates
    here, there, total = resistance(x), resistance(x[source]), resistance(axis.length)
    return np.minimum(here, there) * (total - np.maximum(here, there)) / total


def observed_orders(errors: Callable[[Grid], float], grids: list[Grid]) -> list[float]:
    """log(e_coarse/e_fine)/log(h_coarse/h_fine) of every neighbouring pair of grids."""
    measured = [(grid.spacing[0], errors(grid)) for grid in grids]
    return [
        float(np.log(coarse / fine) / np.log(h_coarse / h_fine))
        for (h_coarse, coarse), (h_fine, fine) in pairwise(measured)
    ]


def _truth(grid: Grid, *, speed: float) -> Truth:
    x = np.stack(grid.coordinates)
    place = np.arange(grid.dimension).reshape(-1, *(1,) * grid.dimension)
    waves = np.pi * (place + 1)

    factors, slopes = np.sin(2 * np.pi * x + place), 2 * np.pi * np.cos(2 * np.pi * x + place)
    coefficient, coefficient_gradient = 2 + np.prod(factors, axis=0), _gradient(factors, slopes)
    factors, slopes = np.sin(waves * x), waves * np.cos(waves * x)
    solution, gradient = np.prod(factors, axis=0), _gradient(factors, slopes)
    laplacian = -np.sum(waves**2, axis=0) * solution

    velocity = speed * (place + 1) * np.cos(np.pi * x)
    divergence = np.sum(-speed * (place + 1) * np.pi * np.sin(np.pi * x), axis=0)
    diffusion = -(np.sum(coefficient_gradient * gradient, axis=0) + coefficient * laplacian)
    transport = np.sum(velocity * gradient, axis=0) + divergence * solution
    return Truth(coefficient, solution, diffusion + transport, velocity)


def _gradient(factors: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Gradient of the product of one factor per axis."""
    return np.stack(
        [
            np.prod(np.concatenate([factors[:a], slopes[a : a + 1], factors[a + 1 :]]), axis=0)
            for a in range(len(factors))
        ]
    )
