"""The classical estimators on Darcy flow at 21², d = 50: the baselines of every learned one.

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

from benchmarks.darcy_systems import green_kernels, pairs_of, systems
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.system import System
from nipde.discretisation.links import Harmonic
from nipde.estimators.base import Estimator
from nipde.estimators.registry import factory
from nipde.estimators.regression.empirical_bayes import EmpiricalBayes
from nipde.estimators.regression.training_span import TrainingSpan
from nipde.evaluation.evaluate import permeability_in
from nipde.evaluation.metrics import kernel_error, material_error, phase_accuracy, relative_errors
from nipde.kernels.base import Kernel
from nipde.kernels.dense import DenseKernel

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
            result = [_errors(estimator, system, level=level, number=number) for number, system in enumerate(made)]
            rows.append({
                "estimator": name,
                "noise": level,
                **{what: float(np.mean([one[what] for one in result])) for what in result[0]},
                "spread": {what: float(np.std([one[what] for one in result])) for what in result[0]},
            })  # fmt: skip
    return {"nodes": NODES, "context": CONTEXT, "queries": QUERIES, "training": training, "tests": tests, "rows": rows}


def _estimators(train: list[System]) -> dict[str, Estimator]:
    known, kernels = pairs_of(train), green_kernels(train)
    few = min(FEW, len(train) // 2)
    return {
        "minimum norm": factory("minimum-norm")(),
        "ridge, GCV": factory("ridge")(),
        "training span": TrainingSpan.fit(known, kernels),
        "empirical Bayes": EmpiricalBayes.fit(known, kernels),
        f"empirical Bayes, {few} training systems": EmpiricalBayes.fit(*_first(known, kernels, few)),
        "equation error": factory("equation-error")(),
        "adjoint Gauss-Newton, Tikhonov": factory("adjoint")(),
        "adjoint Gauss-Newton, total variation": factory("adjoint-tv")(),
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
    grid, truth, hidden = system.grid, green_kernels([system]).dense()[0], system.hidden[0]
    result = permeability_in(kernel, face_mean=Harmonic())
    return {
        "in_context": float(relative_errors(grid, kernel @ context.loads, context.responses).mean()),
        "held_out": float(relative_errors(grid, kernel @ queries.loads, queries.responses).mean()),
        "kernel": float(kernel_error(grid, kernel.dense(), truth)),
        "microstructure": float(material_error(grid, result, hidden)),
        "phase_accuracy": float(phase_accuracy(grid, result, hidden)),
        "phase_accuracy_inside": float(phase_accuracy(grid, result, hidden, where=grid.unknown)),
        "seconds": seconds,
    }
