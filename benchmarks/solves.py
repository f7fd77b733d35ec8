"""Elliptic solves by multigrid: steps to a residual of 1e-6, time by grid, contrast and medium, beside other solvers.

One load of 1 on the unit square or cube with Dirichlet sides, in double precision, processor time of one thread. Media:
two phases from a thresholded Gaussian field, and a checkerboard of tenths of the box, whose squares fit no coarse grid.
`cycle_over_products`: time of one cycle over that of the products with stencils in it, done again alone. Every case is
kept when it is finished: a second call goes on.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from scipy.sparse.linalg import splu
from torch import Tensor

from benchmarks.finished_rows import finished, write_result
from benchmarks.timing import exponent, seconds
from nipde.discretisation.conjugate_gradients import conjugate_gradients, rounding
from nipde.discretisation.multigrid import MultigridSolver, VCycle
from nipde.discretisation.operator import EllipticOperator
from nipde.errors import SolverError
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.spectral.transform import transform

SEED = 2026
#: Nodes per axis by dimension, and the last ones at which other solvers are run, too.
SIDES = {2: (41, 81, 161, 321, 641, 1025, 2049), 3: (17, 33, 65, 129)}
BESIDE = {2: 161, 3: 17}
MEDIA = (("two phases", 4.0), ("two phases", 1000.0), ("checkerboard", 1000.0))
RESIDUAL, STEPS = 1e-6, 100
FOLDER = Path("runs/solves")


def measure(*, quick: bool) -> dict[str, Any]:
    """All cases, and how their times grow; if quick, two grids of each kind and what was finished before."""
    torch.set_num_threads(1)
    rows = []
    for dimension, sides in SIDES.items():
        for nodes in sides:
            for medium, contrast in MEDIA:
                name = f"{nodes}-{dimension}d-{medium.replace(' ', '-')}-{contrast:g}"
                if name not in finished(FOLDER, {}) and not (quick and nodes > sides[1]):
                    write_result(FOLDER / name, _case(dimension, nodes, medium, contrast))
                if name in (done := finished(FOLDER, {})):
                    rows.append(done[name])
    return {"residual": RESIDUAL, "rows": rows, "exponents": _exponents(rows)}


def _case(dimension: int, nodes: int, medium: str, contrast: float) -> dict[str, Any]:
    """One grid and medium."""
    grid = Grid.uniform(nodes, dimension=dimension)
    operator = EllipticOperator.of(grid, _log_coefficient(grid, medium, contrast), None, -1.0)
    right = operator.links.volume * operator.links.is_unknown
    solvers: list[MultigridSolver] = []
    setup = min(seconds(lambda: solvers.append(MultigridSolver(grid, operator.conductances))) for _ in range(2))
    solver = solvers[-1]
    steps: list[int] = []
    solved = seconds(lambda: steps.append(_steps(solver, right)))
    row = {"dimension": dimension, "nodes": nodes, "medium": medium, "contrast": contrast, "steps": steps[0],
           "setup": setup, "seconds": setup + solved,
           "cycle_over_products": _cycle_over_products(solver.cycle)}  # fmt: skip
    if nodes <= BESIDE[dimension]:
        row |= {"spectral": _spectral(operator, right), "splu": _direct(grid, operator, right)}
    return row


def _log_coefficient(grid: Grid, medium: str, contrast: float) -> Float[Tensor, "1 *space"]:
    if medium == "checkerboard":
        squares = sum(np.floor(10 * place) for place in grid.coordinates)
        high = squares % 2 == 0
    else:
        high = GaussianField(2.0).sample(grid, rng=np.random.default_rng(SEED), count=1)[0] > 0
    return torch.tensor(np.where(high, np.log(contrast), 0.0))[None]


def _steps(solver: MultigridSolver, moments: Float[Tensor, "*space"]) -> int:
    """Steps until the residual itself, not its energy, is small."""
    residual = moments[None, None][solver.inner] * solver.scale
    first = float((residual / solver.scale).norm())
    direction = scaled = solver.cycle(residual)
    energy = (residual * scaled).sum()
    for step in range(1, STEPS + 1):
        image = solver.product(direction)
        residual = residual - energy / (direction * image).sum() * image
        if float((residual / solver.scale).norm()) <= RESIDUAL * first:
            return step
        scaled = solver.cycle(residual)
        before, energy = energy, (residual * scaled).sum()
        direction = scaled + energy / before * direction
    return STEPS


def _cycle_over_products(cycle: VCycle) -> float:
    """A cycle has 2 × degree products on every level."""
    generator = torch.Generator().manual_seed(SEED)
    fields = [torch.randn(1, 1, *interpolation.shape, generator=generator) for _, interpolation in cycle.levels]

    def products() -> None:
        for (smoother, _), field in zip(cycle.levels, fields, strict=True):
            for _ in range(2 * smoother.degree):
                smoother.product(field)

    rounds = range(3)
    return min(seconds(lambda: cycle(fields[0])) for _ in rounds) / min(seconds(products) for _ in rounds)


def _spectral(operator: EllipticOperator, moments: Float[Tensor, "*space"]) -> dict[str, Any] | None:
    """Conjugate gradients preconditioned with s Φ λ⁻¹ Φᵀ s, s = b^(-1/2), to the tolerance of single precision.

    None where 500 steps are not enough.
    """
    links, waves, calls = operator.links, transform(operator.grid), [0]
    scale = operator.scale.unsqueeze(1) * links.is_unknown

    def preconditioner(residual: Tensor) -> Tensor:
        calls[0] += 1
        return waves.synthesis(waves.analysis(residual / links.volume * scale) / links.eigenvalues) * scale

    def solve() -> Tensor:
        return conjugate_gradients(
            operator, moments[None, None], preconditioner=preconditioner, axes=tuple(range(2, 2 + links.dimension)),
            tolerance=rounding(torch.float32),
        )  # fmt: skip

    try:
        taken = seconds(solve)
    except SolverError:
        return None
    return {"steps": calls[0], "seconds": taken}


def _direct(grid: Grid, operator: EllipticOperator, moments: Float[Tensor, "*space"]) -> dict[str, Any]:
    """SuperLU of the same matrix."""
    ends = [torch.stack(operator.links.numbers(axis)) for axis in range(grid.dimension)]
    first, second = torch.cat(ends, 1).numpy()
    conductances = torch.cat([c.flatten() for c in operator.conductances]).numpy()
    number = np.arange(len(first))
    signs, places = np.repeat([1.0, -1.0], len(first)), (np.tile(number, 2), np.concatenate([first, second]))
    difference = sparse.csr_array((signs, places), shape=(len(first), grid.size))
    unknown = grid.unknown.reshape(-1)
    matrix = (difference.T @ sparse.diags_array(conductances) @ difference).tocsc()[:, unknown][unknown]
    right = moments.numpy().reshape(-1)[unknown]
    return {"seconds": seconds(lambda: splu(matrix).solve(right))}


def _exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of time against nodes."""
    found = []
    for dimension in SIDES:
        for medium, contrast in MEDIA:
            own = [row for row in rows if (row["dimension"], row["medium"], row["contrast"])
                   == (dimension, medium, contrast)]  # fmt: skip
            sizes, times = [row["nodes"] ** dimension for row in own], [row["seconds"] for row in own]
            found.append({"dimension": dimension, "medium": medium, "contrast": contrast,
                          "seconds": exponent(sizes, times)})  # fmt: skip
    return found
