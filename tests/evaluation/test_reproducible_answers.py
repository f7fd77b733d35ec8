"""In double precision answers depend on neither the order of the pairs, nor threads, nor what else is in the batch.

The paper's models (nips, nips-mlp, nao, afno) have weights for the place of every pair: they depend on the order.
"""

from dataclasses import replace

import pytest
import torch

import nipde
from nipde.estimators.registry import FITTED, METHODS, MODELS, SOLIDS, factory
from nipde.evaluation.named import named
from tests.golden.answers import _advection, _archive, _cube, _noisy, _smooth_loads, _tissue

AGREE = 1e-10
#: Their Gauss-Newton steps take seconds.
SLOW = {"elastic-adjoint", "conditioned-elastic", "output-error"}
METHOD_NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in METHODS]


@pytest.fixture(scope="module")
def trained_on(tmp_path_factory):
    return _archive(tmp_path_factory.mktemp("archives") / "darcy")


def measured(name):
    """Pairs and new loads of a law that suits the estimator."""
    if name in SOLIDS or name in ("mmnist-gated", "tissue-gated"):
        return _tissue()
    if name == "conduction-3d":
        return _cube()
    if name.endswith("-darcy"):
        return _smooth_loads()
    return _advection() if name.startswith("advection") else _noisy(9 if name in (*FITTED, "output-error") else 13)


def apart(one, other):
    return float((one - other).abs().max() / other.abs().max())


def answers(predictor, loads):
    """Responses and, where it has one, the coefficient."""
    coefficient = predictor.coefficient
    return [predictor.predict(loads), *([] if coefficient is None else [coefficient])]


@torch.no_grad()
def check(estimator, name, *, ordered=False):
    pairs, loads = measured(name)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        kernel = estimator(pairs)
        expected = answers(kernel, loads)
        torch.set_num_threads(2)
        threads = answers(estimator(pairs), loads)
    finally:
        torch.set_num_threads(before)
    order = torch.randperm(pairs.count, generator=torch.Generator().manual_seed(0)).tolist()
    permuted = expected if ordered else answers(estimator(pairs.take(order)), loads)
    other = (pairs.loads.flip(-1), pairs.responses.flip(-1))
    two = replace(pairs, **{
        name: torch.stack([field, mirrored])
        for name, field, mirrored in zip(("loads", "responses"), (pairs.loads, pairs.responses), other, strict=True)
    })  # fmt: skip
    batch = [value[0] for value in answers(estimator(two), torch.stack([loads, loads]))]
    single = [torch.cat([kernel.predict(load[None]) for load in loads]), *expected[1:]]
    for what, got in {"threads": threads, "order": permuted, "batch": batch, "single": single}.items():
        for one, value in zip(got, expected, strict=True):
            assert apart(one, value) < AGREE, what


@pytest.mark.parametrize("name", nipde.weights.names())
def test_of_shipped_weights(name):
    check(nipde.load(name).double(), name, ordered=name.endswith("-darcy"))


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_of_methods(name, trained_on):
    estimator = named(name, trained_on) if name in FITTED else factory(name)()
    if name == "output-error":  # at its own size every estimate takes 80 seconds of the processor, and six are made
        estimator = replace(estimator, material=8, solver=16)
    check(estimator, name)


@pytest.mark.parametrize("kind", sorted(MODELS.keys() - {"conditioned"}))
def test_of_the_papers_models_but_for_the_order(kind):
    torch.manual_seed(0)
    model = nipde.training.ModelRecipe(kind, layers=2, channels=6).build(nipde.Grid.uniform(13), pairs=20)
    check(model.double(), kind, ordered=True)
