"""Estimators and their kernels on a device apart from the processor: no mix, the same answers, and known waits."""

from copy import deepcopy

import pytest
import torch

import nipde
from nipde.estimators.registry import FITTED, METHODS, MODELS, SOLIDS, factory
from nipde.evaluation.named import named
from tests.golden.answers import _advection, _archive, _cube, _noisy, _smooth_loads, _tissue
from tests.simulated_device import device, waits, watched
from tests.waits import BY_SCIPY, LISTED

#: Their fits take seconds.
SLOW = {"elastic-adjoint", "conditioned-elastic", "mmnist-gated", "output-error"}


def marked(names):
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


def measured(name):
    """Pairs of one system and of a batch of two would wait alike: one."""
    if name in SOLIDS or name in ("mmnist-gated", "tissue-gated"):
        return _tissue(5)
    if name.endswith("-darcy"):
        return _smooth_loads()
    if name == "conduction-3d":
        pairs, loads = _cube()
    else:
        pairs, loads = _advection() if name.startswith("advection") else _noisy(9)
    return pairs.take(range(8)), loads[:2]


def answers(predictor, loads):
    """All that a kernel has to say."""
    found = {"responses": predictor.predict(loads)}
    if predictor.coefficient is not None:
        found["coefficient"] = predictor.coefficient
    if predictor.bands is not None:
        found["low"], found["high"] = predictor.band(loads, level=0.9)
    if getattr(predictor, "posterior", None) is not None:
        found["deviation"], found["identifiable"] = predictor.posterior.deviation(), predictor.posterior.identifiable()
    if predictor.linear:
        found |= {
            "transposed": predictor.T.predict(loads),
            "dense": predictor.dense(),
            "sums": predictor.row_integral(),
        }
    return found


def check(estimator, name):
    """The answers are those of the processor; gives the places where it waited for the device."""
    pairs, loads = measured(name)
    with torch.no_grad():
        expected = answers(estimator(pairs), loads)
        moved = deepcopy(estimator).to(device()) if isinstance(estimator, torch.nn.Module) else estimator
        own, queries = pairs.to(device=device()), loads.to(device())
        with watched() as seen:
            got = answers(moved(own), queries)
    for what, value in expected.items():
        assert (got[what].device, got[what].dtype) == (device(), value.dtype), what
        torch.testing.assert_close(got[what].held, value, rtol=1e-9, atol=1e-9 * float(value.abs().max()))
    return waits(seen)


@pytest.mark.parametrize("name", marked(nipde.weights.names()))
def test_weights(name):
    assert check(nipde.load(name).double(), name) <= LISTED


@pytest.mark.parametrize("kind", sorted(MODELS.keys() - {"conditioned"}))
def test_models_of_the_paper_wait_once(kind):
    torch.manual_seed(0)
    model = nipde.training.ModelRecipe(kind, layers=2, channels=6).build(nipde.Grid.uniform(9), pairs=8)
    assert check(model.double(), kind) == {"context/scaling.py:Scaling.of"}


@pytest.fixture(scope="module")
def trained_on(tmp_path_factory):
    return _archive(tmp_path_factory.mktemp("archives") / "darcy")


@pytest.mark.parametrize("name", marked(METHODS))
def test_methods(name, trained_on):
    estimator = named(name, trained_on) if name in FITTED else factory(name)()
    known = LISTED | (BY_SCIPY if name not in ("minimum-norm", "ridge", *FITTED) else set())
    assert check(estimator, name) <= known


@pytest.mark.slow
@pytest.mark.parametrize("name", ["darcy", "darcy-two-phase-gated", "advection"])
def test_gaps_and_unknown_noise(name):
    pairs, _ = measured(name)
    mask = torch.rand(pairs.responses.shape, generator=torch.Generator().manual_seed(0)) > 0.1
    gappy = nipde.Pairs(pairs.grid, pairs.loads, pairs.responses, mask)
    model = nipde.load(name).double()
    with torch.no_grad():
        expected = model(gappy).predict(pairs.loads)
        with watched() as seen:
            got = deepcopy(model).to(device())(gappy.to(device=device())).predict(pairs.loads.to(device()))
    torch.testing.assert_close(got.held, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))
    assert waits(seen) <= LISTED


def test_solves_that_iterate_ask_after_every_step(monkeypatch):
    """On grids beyond the dense inverse."""
    monkeypatch.setattr("nipde.discretisation.operator.DENSE_UNKNOWNS", 8)
    model, (pairs, loads) = nipde.load("darcy").double().to(device()), _noisy(9)
    with torch.no_grad(), watched() as seen:
        model(pairs.to(device=device())).predict(loads.to(device()))
    assert "discretisation/conjugate_gradients.py:_small" in waits(seen)
