"""What does a change of viewpoint do to an estimator's kernel?

For a linear law the pairs (F Q, U Q) describe the same system for every invertible Q, and turning or mirroring the
square turns the kernel with it. The table gives the relative change of the answers to a unit load at every node, which
for a kernel is the change of all its columns; the largest over several draws. Networks have their initial weights.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.darcy_systems import green_kernels, pairs_of, systems
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.estimators.base import Estimator
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.inverse.adjoint import AdjointGaussNewton
from nipde.estimators.inverse.equation_error import EquationError
from nipde.estimators.paper.afno import AFNO
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.estimators.regression.empirical_bayes import EmpiricalBayes
from nipde.estimators.regression.ridge import MinimumNorm, Ridge
from nipde.estimators.regression.training_span import TrainingSpan
from nipde.kernels.base import Predictor

SEED = 3
NODES, PAIRS, TRAINING = 11, 20, 200


def measure(*, quick: bool) -> dict[str, Any]:
    """Every estimator on noisy Darcy pairs at 11², d = 20."""
    train = systems(range(20 if quick else TRAINING), nodes=NODES, pairs=2 * PAIRS, seed=SEED)
    (one,) = systems([10_000], nodes=NODES, pairs=PAIRS, seed=SEED)
    exact = pairs_of([one])
    exact = replace(exact, loads=exact.loads[0], responses=exact.responses[0])
    noisy = with_white_noise(exact, share=0.01, seed=SEED)
    draws = 2 if quick else 5
    return {
        "nodes": NODES,
        "pairs": PAIRS,
        "draws": draws,
        "noise": 0.01,
        "rows": [
            {"estimator": name, **_changes(estimator, exact, noisy, draws)}
            for name, estimator in _estimators(exact, train).items()
        ],
    }


def _estimators(pairs: Pairs, train: Any) -> dict[str, Estimator]:
    known, kernels = pairs_of(train), green_kernels(train)
    torch.manual_seed(SEED)
    sizes: dict[str, Any] = {"pairs": PAIRS, "channels": 16, "layers": 2}
    return {
        "minimum norm": MinimumNorm(),
        "ridge, GCV": Ridge(),
        "training span": TrainingSpan.fit(known, kernels),
        "empirical Bayes": EmpiricalBayes.fit(known, kernels),
        "equation error": EquationError(),
        "adjoint Gauss-Newton": AdjointGaussNewton(),
        "NIPS": NIPS(pairs.grid, **sizes).double(),
        "NIPS-mlp": NIPSMLP(pairs.grid, **sizes).double(),
        "NAO": NAO(pairs.grid, **sizes).double(),
        "AFNO": AFNO(pairs.grid, pairs=PAIRS, layers=2).double(),
        "Conditioned NIPS, elliptic": ConditionedNIPS(dimension=2).double(),
        "Conditioned NIPS, gated": ConditionedNIPS(dimension=2, prior="gated").double(),
    }


@torch.no_grad()
def _changes(estimator: Estimator, exact: Pairs, noisy: Pairs, draws: int) -> dict[str, float]:
    rng = np.random.default_rng(SEED)
    before = _numbers(estimator(noisy), noisy)

    def most(pairs: Pairs, reference: Tensor, mixing: Callable[[], np.ndarray]) -> float:
        return max(
            _gap(_numbers(estimator(pairs.mixed(torch.tensor(mixing()))), pairs), reference) for _ in range(draws)
        )

    def orthogonal() -> np.ndarray:
        return np.linalg.qr(rng.standard_normal((PAIRS, PAIRS)))[0]

    def invertible() -> np.ndarray:
        return orthogonal() @ np.diag(np.geomspace(1, 10, PAIRS)) @ orthogonal()

    return {
        "permutation": most(noisy, before, lambda: np.eye(PAIRS)[rng.permutation(PAIRS)]),
        "orthogonal": most(noisy, before, orthogonal),
        "invertible": most(noisy, before, invertible),
        "invertible_exact_data": most(
            replace(exact, noise=0.0), _numbers(estimator(replace(exact, noise=0.0)), exact), invertible
        ),
        "square": max(_gap(_turned_back(estimator, noisy, turns, mirrored), before) for turns, mirrored in _SQUARE),
    }


#: Quarter turns and mirror images: the eight symmetries of the square.
_SQUARE = list(product(range(4), (False, True)))


def _turn(field: Tensor, turns: int, mirrored: bool) -> Tensor:
    field = torch.rot90(field, turns, dims=(-2, -1))
    return field.flip(-1) if mirrored else field


def _turned_back(estimator: Estimator, pairs: Pairs, turns: int, mirrored: bool) -> Tensor:
    """The kernel of the turned system, seen from the old side: its answers to turned loads, turned back."""
    turned = replace(
        pairs, loads=_turn(pairs.loads, turns, mirrored), responses=_turn(pairs.responses, turns, mirrored)
    )
    answers = estimator(turned).predict(_turn(_probes(pairs), turns, mirrored))
    answers = answers.flip(-1) if mirrored else answers
    return torch.rot90(answers, -turns, dims=(-2, -1))


def _numbers(predictor: Predictor, pairs: Pairs) -> Tensor:
    """Answers to a load at every node."""
    return predictor.predict(_probes(pairs))


def _probes(pairs: Pairs) -> Tensor:
    """Unit loads, one node each, as densities: what they give is the kernel, column by column."""
    size = pairs.grid.size
    density = 1 / torch.tensor(pairs.grid.weights.reshape(-1)).sqrt()
    return torch.diag(density).reshape(size, 1, *pairs.grid.shape).to(pairs.loads)


def _gap(result: Tensor, reference: Tensor) -> float:
    return float((result - reference).norm() / reference.norm())
