"""Shipped weights and baselines on Darcy data of an independent discretisation, at 21² with 50 pairs.

The material is constant on each of 160² cells; bilinear finite elements on these cells (scikit-fem) solve it, and loads
and responses are restricted to the 21² nodes. The estimators assume finite volumes on the 21² nodes, so no row shares
its discretisation with its data. Coverage: share of the true responses at interior nodes within bands of 90 %.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg as solvers
import skfem
import torch
from jaxtyping import Float
from skfem.models import mass

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.estimators.base import Estimator
from nipde.estimators.inverse.adjoint import AdjointGaussNewton
from nipde.estimators.inverse.regularisers import TotalVariation
from nipde.estimators.regression.ridge import Ridge
from nipde.evaluation.metrics import relative_errors
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.weights import load

SEED = 77031
GRID, REFINE = Grid.uniform(21), 8
FINE = GRID.refine(REFINE)
CONTEXT, QUERIES, SYSTEMS, LEVEL = 50, 20, 50, 0.9
#: Smoothness α of the loads and their highest half wave: rough as in `darcy-literal`, of long waves only, and smooth.
LOADS = ((1.0, 20), (1.0, 8), (4.0, 20))
NOISE = (0.0, 0.01)
FAMILIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "two-phase": TwoPhase(12.0, 3.0),
    "log-normal": lambda field: 6.0 * np.exp(0.7 * field / field.std()),
}
WEIGHTS = ("darcy", "darcy-two-phase", "darcy-two-phase-gated", "darcy-reference-gated")
BASELINES: dict[str, Estimator] = {
    "ridge, GCV": Ridge(),
    "adjoint Gauss-Newton, total variation": AdjointGaussNewton(regulariser=TotalVariation()),
}


@dataclass(frozen=True)
class Specimen:
    """Exact pairs on the coarse nodes: context first, then held-out loads."""

    loads: Float[np.ndarray, "pair *space"]
    responses: Float[np.ndarray, "pair *space"]


def measure(*, quick: bool) -> dict[str, Any]:
    """Every estimator on every family, kind of loads and noise."""
    count = 2 if quick else SYSTEMS
    estimators: dict[str, Estimator] = {**BASELINES, **{name: load(name) for name in WEIGHTS}}
    rows = []
    for family in FAMILIES:
        for alpha, waves in LOADS[: 1 if quick else None]:
            made = [specimen(family, alpha, waves, number) for number in range(count)]
            for noise in NOISE:
                for name, estimator in estimators.items():
                    errors = [_errors(estimator, one, noise, number) for number, one in enumerate(made)]
                    means = {what: float(np.mean([one[what] for one in errors])) for what in errors[0]}
                    rows.append({"family": family, "load_alpha": alpha, "load_waves": waves, "noise": noise,
                                 "estimator": name, **means})  # fmt: skip
    return {"nodes": GRID.shape[0], "cells": FINE.axes[0].intervals, "context": CONTEXT, "queries": QUERIES,
            "systems": count, "level": LEVEL, "rows": rows}  # fmt: skip


def specimen(family: str, alpha: float, waves: int, number: int) -> Specimen:
    """One material under random loads, solved on the fine elements."""
    rng = np.random.default_rng((SEED, list(FAMILIES).index(family), int(10 * alpha), number))
    field = GaussianField(4.0).sample(FINE, rng=rng, count=1)[0]
    centres = (field[1:, 1:] + field[1:, :-1] + field[:-1, 1:] + field[:-1, :-1]) / 4
    loads = GaussianField(alpha, waves=waves, rms=1.0).sample(FINE, rng=rng, count=CONTEXT + QUERIES)
    responses = solve(FAMILIES[family](centres), loads)
    return Specimen(FINE.restrict(loads, to=GRID), FINE.restrict(responses, to=GRID))


def solve(
    coefficient: Float[np.ndarray, "cell_x cell_y"], loads: Float[np.ndarray, "pair x y"]
) -> Float[np.ndarray, "pair x y"]:
    """-∇·(b∇u) = f, u = 0 on the sides, by bilinear elements with b constant on each."""
    nodes = loads.shape[-1]
    mesh = skfem.MeshQuad.init_tensor(*(np.linspace(0, 1, nodes),) * 2)
    basis = skfem.Basis(mesh, skfem.ElementQuad1())
    column, row = (np.floor(mesh.p[axis][mesh.t].mean(0) * (nodes - 1)).astype(int) for axis in (0, 1))

    @skfem.BilinearForm  # type: ignore[untyped-decorator]
    def stiffness(u: Any, v: Any, w: Any) -> Any:
        return w.b * (u.grad[0] * v.grad[0] + u.grad[1] * v.grad[1])

    values = np.broadcast_to(coefficient[column, row][:, None], basis.dx.shape)
    matrix, moments = stiffness.assemble(basis, b=values), mass.assemble(basis)
    place = np.round(basis.doflocs * (nodes - 1)).astype(int)
    inner = basis.complement_dofs(basis.get_dofs())
    solution = np.zeros((basis.N, len(loads)))
    right = (moments @ loads[:, place[0], place[1]].T)[inner]
    solution[inner] = solvers.splu(matrix[inner][:, inner].tocsc()).solve(right)
    responses = np.zeros_like(loads)
    responses[:, place[0], place[1]] = solution.T
    return responses


@torch.no_grad()
def _errors(estimator: Estimator, one: Specimen, noise: float, number: int) -> dict[str, float]:
    pairs = Pairs.from_arrays(one.loads, one.responses, grid=GRID)
    queries = pairs.take(slice(CONTEXT, None))
    kernel = estimator(with_white_noise(pairs.take(slice(CONTEXT)), share=noise, seed=SEED + number))
    predicted = kernel.predict(queries.loads)
    errors = {"held_out": float(relative_errors(GRID, predicted.double(), queries.responses).mean())}
    if kernel.outlier_test is not None:
        low, high = kernel.band(queries.loads, level=LEVEL)
        inside = ((low <= queries.responses) & (queries.responses <= high))[..., torch.tensor(GRID.unknown)]
        errors["coverage"] = float(inside.double().mean())
        errors["outliers"] = float(kernel.outlier_test.is_outlier)
    return errors
