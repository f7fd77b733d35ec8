"""The classical estimators on Darcy flow at 21², d = 50: the yardstick of every learned one.

Test systems are in no training set, and the held-out loads are in no context. Noise is white, on the context's
responses, with a standard deviation of 1 % of their root mean square; truth and queries are clean. Errors are means
over functions and systems of relative L² norms. Microstructure: the permeability itself where an estimator finds one,
else the one whose kernel matches the estimated kernel best (`permeability_of`); corner nodes, which no stencil reads,
do not count. Phase accuracy: share of nodes on the right side of the geometric mean of the two phases.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nipde.benchmarks.darcy_systems import green_kernels, pairs_of, systems
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.system import System
from nipde.estimators.adjoint import AdjointGaussNewton
from nipde.estimators.base import Estimator
from nipde.estimators.empirical_bayes import EmpiricalBayes
from nipde.estimators.equation_error import EquationError
from nipde.estimators.inversion.regularisers import TotalVariation
from nipde.estimators.kernel_match import permeability_of
from nipde.estimators.minimum_norm import MinimumNorm
from nipde.estimators.ridge import Ridge
from nipde.estimators.training_span import TrainingSpan
from nipde.grid import Grid
from nipde.kernels.base import Kernel
from nipde.kernels.dense import DenseKernel
from nipde.kernels.law import LawKernel

SEED = 2026
NODES, CONTEXT, QUERIES = 21, 50, 50
TRAINING, TESTS = 1000, 100
#: The paper trains on 90 systems.
FEW = 90
NOISE = (0.0, 0.01)


def measure(*, quick: bool) -> dict[str, Any]:
    """Every estimator, without and with noise."""
    training, tests = (40, 3) if quick else (TRAINING, TESTS)
    estimators = _estimators(systems(range(training), nodes=NODES, pairs=CONTEXT, seed=SEED))
    # Indices far from the training systems': never the same seed.
    made = systems(range(10**6, 10**6 + tests), nodes=NODES, pairs=CONTEXT + QUERIES, seed=SEED)
    rows = []
    for level in NOISE:
        for name, estimator in estimators.items():
            found = [_errors(estimator, system, level=level, number=number) for number, system in enumerate(made)]
            rows.append({
                "estimator": name,
                "noise": level,
                **{what: float(np.mean([one[what] for one in found])) for what in found[0]},
                "spread": {what: float(np.std([one[what] for one in found])) for what in found[0]},
            })  # fmt: skip
    return {"nodes": NODES, "context": CONTEXT, "queries": QUERIES, "training": training, "tests": tests, "rows": rows}


def _estimators(train: list[System]) -> dict[str, Estimator]:
    known, kernels = pairs_of(train), green_kernels(train)
    few = min(FEW, len(train) // 2)
    return {
        "minimum norm": MinimumNorm(),
        "ridge, GCV": Ridge(),
        "training span": TrainingSpan.fit(known, kernels),
        "empirical Bayes": EmpiricalBayes.fit(known, kernels),
        f"empirical Bayes, {few} training systems": EmpiricalBayes.fit(*_first(known, kernels, few)),
        "equation error": EquationError(),
        "adjoint Gauss-Newton, Tikhonov": AdjointGaussNewton(),
        "adjoint Gauss-Newton, total variation": AdjointGaussNewton(regulariser=TotalVariation()),
    }


def _first(pairs: Pairs, kernels: DenseKernel, count: int) -> tuple[Pairs, DenseKernel]:
    some = replace(pairs, loads=pairs.loads[:count], responses=pairs.responses[:count])
    return some, DenseKernel(kernels.grid, kernels.values[:count])


@torch.no_grad()
def _errors(estimator: Estimator, system: System, *, level: float, number: int) -> dict[str, float]:
    every = pairs_of([system])
    every = replace(every, loads=every.loads[0], responses=every.responses[0])
    context, queries = every.take(slice(0, CONTEXT)), every.take(slice(CONTEXT, None))
    start = time.process_time()
    kernel = estimator(with_white_noise(context, share=level, seed=SEED + number))
    seconds = time.process_time() - start
    if not isinstance(kernel, Kernel):
        raise TypeError(f"{estimator} returns no kernel")
    grid, truth = system.grid, green_kernels([system]).dense()[0]
    permeability = kernel.laws[0].permeability if isinstance(kernel, LawKernel) else permeability_of(kernel)[0]
    return {
        "in_context": _relative(grid, kernel @ context.loads, context.responses),
        "held_out": _relative(grid, kernel @ queries.loads, queries.responses),
        "kernel": _kernel_error(grid, kernel.dense(), truth),
        **_microstructure(grid, np.asarray(permeability), system.hidden[0]),
        "seconds": seconds,
    }


def _relative(grid: Grid, found: Tensor, truth: Tensor) -> float:
    return float((grid.norm(found - truth) / grid.norm(truth)).mean())


def _kernel_error(grid: Grid, found: Tensor, truth: Tensor) -> float:
    weights = torch.tensor(grid.weights.reshape(-1)).sqrt()
    both = weights[:, None] * weights
    return float(((found - truth) * both).norm() / (truth * both).norm())


def _microstructure(grid: Grid, found: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    counted = ~grid.corners
    inside = grid.unknown
    border = np.sqrt(truth.min() * truth.max())
    error = grid.norm(found - truth, mask=counted) / grid.norm(truth, mask=counted)
    right = (found > border) == (truth > border)
    return {
        "microstructure": float(error),
        "phase_accuracy": float(right[counted].mean()),
        "phase_accuracy_inside": float(right[inside].mean()),
    }
