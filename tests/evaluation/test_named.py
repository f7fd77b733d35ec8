import numpy as np
import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.data.problems import AdvectionRecipe
from nipde.errors import ArchiveError, PairsError
from nipde.estimators.inverse.equation_error import EquationError
from nipde.estimators.registry import FITTED, SCALAR, SOLIDS, names
from nipde.estimators.regression.training_span import TrainingSpan
from nipde.evaluation.evaluate import evaluate
from nipde.evaluation.named import named
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel
from nipde.physics.bodies import NeoHookean
from nipde.physics.darcy import Darcy


def test_every_name_is_an_estimator(own):
    system = own[9]
    pairs = Pairs.from_arrays(system.loads, system.responses, grid=own.grid)
    for name in (*SCALAR, *FITTED):
        assert named(name, own)(pairs).linear


def test_every_name_of_a_solid_is_an_estimator():
    grid = Grid.uniform(6)
    loads = np.random.default_rng(0).standard_normal((6, 2, *grid.shape))
    pairs = Pairs.from_arrays(loads, NeoHookean(grid, np.full((5, 5), 5000.0)).solve(loads), grid=grid)
    for name in SOLIDS:
        answers = named(name, None)(pairs) @ pairs.loads
        assert float((answers - pairs.responses).norm().detach() / pairs.responses.norm()) < 0.1


def test_an_unknown_name_is_answered_with_the_known_ones(own):
    with pytest.raises(PairsError) as error:
        named("telepathy", own)
    assert all(name in error.value.expected for name in names())


def test_fitted_estimators_have_seen_the_training_systems_and_their_true_kernels(own):
    train = own.read(own.indices("train"))
    kernels = torch.stack([torch.tensor(Darcy(own.grid, hidden[0]).green()) for hidden in train.hidden])
    pairs = Pairs.from_arrays(train.loads, train.responses, grid=own.grid)
    assert torch.equal(named("training-span", own).mean, TrainingSpan.fit(pairs, DenseKernel(own.grid, kernels)).mean)


def test_fitted_estimators_may_learn_elsewhere(archives):
    here, there = named("training-span", archives["own"]), named("training-span", archives["arithmetic"])
    elsewhere = named("training-span", archives["own"], training=archives["arithmetic"])
    assert torch.equal(elsewhere.mean, there.mean)
    assert not torch.equal(here.mean, there.mean)


@pytest.mark.parametrize("name", FITTED)
def test_without_true_kernels_nothing_is_learned(archives, name, monkeypatch):
    monkeypatch.setattr(AdvectionRecipe, "law_of", lambda recipe, hidden: None)
    with pytest.raises(ArchiveError) as error:
        named(name, archives["advection"])
    assert error.value.got == "0 of advection"


def test_the_law_is_known_with_its_face_mean(archives):
    archive = archives["arithmetic"]
    known, mistaken = (
        evaluate(estimator, archive, context=10, systems=1)
        for estimator in (named("equation-error", archive), EquationError())
    )
    assert known.kernel.mean < 1e-6 < 1e-3 < mistaken.kernel.mean
