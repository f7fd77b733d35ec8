"""Is the trusted side right? Orders of convergence, symmetry, conservation, residuals."""

from typing import Any

import numpy as np

from nipde.boundary import Dirichlet, Neumann
from nipde.data.darcy import DarcyRecipe
from nipde.data.problems import AdvectionRecipe
from nipde.discretisation.links import Arithmetic, FaceMean, Harmonic, links_of
from nipde.grid import Axis, Grid
from nipde.physics.advection import AdvectionDiffusion, asymmetry
from nipde.physics.darcy import Darcy
from tests.oracles.manufactured import observed_orders, slab_green, smooth_diffusion, smooth_transport

SEED = 2026
GRIDS = (11, 21, 41, 81, 161)
SPEED = 5.0


def measure(*, quick: bool) -> dict[str, Any]:
    """All figures of the physics table."""
    systems = 5 if quick else 100
    darcy = [DarcyRecipe().build(SEED + index) for index in range(systems)]
    swirls = [AdvectionRecipe().build(SEED + index) for index in range(systems)]
    matrices = [Darcy(one.grid, one.hidden[0].astype(float)).matrix for one in darcy]
    stirred = [AdvectionDiffusion(one.grid, np.ones(one.grid.shape), one.hidden.astype(float)) for one in swirls]
    asymmetries = [asymmetry(law.green()) for law in stirred[:20]]
    coarsest = smooth_transport(Grid.uniform(GRIDS[0]), speed=SPEED)
    return {
        "grids": list(GRIDS),
        "darcy_orders_harmonic": _darcy_orders(Harmonic()),
        "darcy_orders_arithmetic": _darcy_orders(Arithmetic()),
        "advection_orders": _advection_orders(),
        "advection_peclet_coarsest": AdvectionDiffusion(
            Grid.uniform(GRIDS[0]), coarsest.coefficient, coarsest.velocity
        ).peclet,
        "systems": systems,
        "pairs": darcy[0].pairs,
        "darcy_largest_asymmetry_of_matrix": max(float(abs(matrix - matrix.T).max()) for matrix in matrices),
        "darcy_smallest_eigenvalue": min(float(np.linalg.eigvalsh(m.toarray()).min()) for m in matrices),
        "darcy_flux_jump": _flux_jump(),
        "darcy_slab_error": _slab_error(),
        "darcy_largest_residual": max(float(one.diagnostics["residual"].max()) for one in darcy),
        "advection_largest_residual": max(float(one.diagnostics["residual"].max()) for one in swirls),
        "advection_largest_peclet": max(law.peclet for law in stirred),
        "advection_green_asymmetry": {"systems": len(asymmetries), "least": min(asymmetries), "most": max(asymmetries)},
        "million_nodes": None if quick else _million_nodes(),
    }


def _darcy_orders(mean: FaceMean) -> list[float]:
    def error(grid: Grid) -> float:
        truth = smooth_diffusion(grid)
        return float(grid.norm(Darcy(grid, truth.coefficient, mean).solve(truth.load) - truth.solution))

    return observed_orders(error, [Grid.uniform(nodes) for nodes in GRIDS])


def _advection_orders() -> list[float]:
    def error(grid: Grid) -> float:
        truth = smooth_transport(grid, speed=SPEED)
        law = AdvectionDiffusion(grid, truth.coefficient, truth.velocity)
        return float(grid.norm(law.solve(truth.load) - truth.solution))

    return observed_orders(error, [Grid.uniform(nodes) for nodes in GRIDS])


def _flux_jump() -> float:
    """Largest relative change of the flow along x across a 12/3 jump in a slab fed left of it and insulated in y."""
    grid = Grid((Axis(41, 1.0, Dirichlet()), Axis(9, 1.0, Neumann())))
    x, _ = grid.coordinates
    load = np.where(np.isclose(x, grid.axes[0].coordinates[5]), 1.0, 0.0)
    law = Darcy(grid, np.where(x < 0.5125, 12.0, 3.0))
    links = links_of(grid)
    along = links.axis == 0
    flow = law.flow(law.solve(load))[along].reshape(40, 9) / links.area[along].reshape(40, 9)
    beyond = flow[6:]
    return float(np.max(np.abs(beyond - beyond[:1])) / np.max(np.abs(beyond)))


def _slab_error() -> float:
    """Largest nodal error against the closed-form response of a 12/3 bar, relative to its peak."""
    grid = Grid.uniform(41, dimension=1)
    (x,) = grid.coordinates
    exact = slab_green(grid, source=5, jump=0.5125, left=12.0, right=3.0)
    green = Darcy(grid, np.where(x < 0.5125, 12.0, 3.0)).green()[:, 5]
    return float(np.max(np.abs(green - exact)) / np.max(exact))


def _million_nodes() -> dict[str, float]:
    grid = Grid.uniform(1024)
    truth = smooth_diffusion(grid)
    law = Darcy(grid, truth.coefficient)
    response = law.solve(truth.load)
    return {
        "nodes": grid.size,
        "residual": float(law.residual(truth.load, response)),
        "relative_error": float(grid.norm(response - truth.solution) / grid.norm(truth.solution)),
    }
