"""Validation asks for loads outside the context, of systems outside training, and always for the same ones."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.errors import NonFiniteError, PairsError, TrainingError
from nipde.evaluation.metrics import relative_errors
from nipde.training import callbacks
from nipde.training.callbacks import Validated, Validator, mean_of
from nipde.training.feed import Source
from nipde.training.processes import Group
from nipde.training.task import Task, task_of


class Heard(torch.nn.Module):
    """Keeps every batch; every answer is wrong by the number of its system."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = []

    def forward(self, batch):
        self.batches.append(batch)
        return torch.as_tensor(batch.systems)[:, None] * torch.ones(batch.loads.shape[:2])


def overlap(batch) -> bool:
    """Whether a load that is asked for stands in the context of its system."""
    contexts, queries = batch.context.loads.flatten(2), batch.loads.flatten(2)
    return bool((contexts[:, :, None] == queries[:, None]).all(-1).any())


@pytest.mark.parametrize("name", ["own", "shared"])
def test_held_out_loads_are_never_in_the_context(archives, small, name):
    heard = Heard()
    Validator(small(), archives[name], Group())(heard)
    held_out, in_context = heard.batches
    assert not overlap(held_out)
    assert overlap(in_context)
    assert torch.equal(in_context.loads, in_context.context.loads)
    assert torch.equal(held_out.context.loads, in_context.context.loads)
    for batch in heard.batches:
        assert batch.systems.tolist() == archives[name].indices("validation").tolist()
    assert held_out.loads.shape[1] == (8 if name == "shared" else 14 - 8)


def test_shared_loads_are_asked_for_only_if_no_training_sees_them(shared, small):
    heard = Heard()
    Validator(small(), shared, Group())(heard)
    loads = torch.tensor(shared[0].loads)
    held_out, _ = heard.batches
    parts = {part: set(shared.load_indices(part).tolist()) for part in ("train", "validation")}
    for fields, part in ((held_out.loads, "validation"), (held_out.context.loads, "train")):
        for load in fields.flatten(0, 1):
            (place,) = [place for place, other in enumerate(loads) if torch.equal(load, other)]
            assert place in parts[part]


def test_there_are_not_too_many_queries(shared, own, small, monkeypatch):
    monkeypatch.setattr(callbacks, "QUERIES", 3)
    for archive in (shared, own):
        assert Validator(small(), archive, Group()).draw.queries.shape == (4, 3)


def test_errors_are_means_over_systems_however_many_are_taken_together(own, small, monkeypatch):
    found = []
    for together in (1, 3, 10):
        monkeypatch.setattr(callbacks, "TOGETHER", together)
        found.append(Validator(small(), own, Group())(Heard()))
    truth = float(own.indices("validation").mean())
    assert [one.held_out for one in found] == pytest.approx([truth] * 3)
    assert [one.in_context for one in found] == pytest.approx([truth] * 3)
    assert Validator(small(validation_systems=2), own, Group())(Heard()).held_out == pytest.approx(truth - 1)


@pytest.mark.parametrize("name", ["own", "shared"])
def test_figures_are_those_of_the_network_on_its_systems(archives, small, name):
    recipe, archive = small("nips", precision="float64"), archives[name]
    task, validator = task_of(recipe, archive), Validator(recipe, archive, Group())
    found, errors = validator(task), []
    source = Source(archive, "validation", pairs=validator.source.pairs, dtype=torch.float64)
    for place in range(4):
        draw = validator.draw
        batch = source.batch(
            replace(draw, systems=draw.systems[[place]], contexts=draw.contexts[[place]], queries=draw.queries[[place]])
        )
        answers = task.model(batch.context) @ batch.loads
        errors.append(float(relative_errors(archive.grid, answers, batch.responses).mean().detach()))
    assert found.held_out == pytest.approx(np.mean(errors), rel=1e-12)
    assert found.in_context != pytest.approx(found.held_out, rel=1e-3)


def test_it_looks_at_the_same_every_time_and_leaves_no_trace(own, small):
    recipe = small(noise=0.1, load_noise=0.1)
    task, validator = task_of(recipe, own), Validator(recipe, own, Group())
    assert validator(task) == validator(task) == Validator(recipe, own, Group())(task)
    assert all(parameter.grad is None for parameter in task.parameters())
    other = Validator(replace(recipe, seed=1), own, Group())
    assert not np.array_equal(other.draw.contexts, validator.draw.contexts)
    assert validator(task) != Validator(small(), own, Group())(task)  # the noise is there


def test_of_lists_it_takes_the_first_and_nothing_is_turned(own, small):
    heard = [Heard(), Heard()]
    Validator(small("conditioned", context=(8, 3), noise=(0.1, 0.0), symmetries=True), own, Group())(heard[0])
    Validator(small(noise=0.1), own, Group())(heard[1])
    for one, other in zip(*(each.batches for each in heard), strict=True):
        assert torch.equal(one.context.responses, other.context.responses)
        assert torch.equal(one.loads, other.loads)


def test_archives_have_equal_weight():
    assert mean_of([Validated(0.1, 0.3)]) == Validated(0.1, 0.3)
    assert mean_of([Validated(0.2, 0.3), Validated(0.4, 0.7)]) == Validated(pytest.approx(0.3), pytest.approx(0.5))


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_processes_share_the_systems_and_find_the_same(shared, small, ranks, monkeypatch):
    recipe = small(precision="float64", noise=0.05)
    task = task_of(recipe, shared)
    alone = Validator(recipe, shared, Group())(task)
    sums = []
    monkeypatch.setattr(Group, "sum", lambda self, *values: (sums.append(values), list(values))[1])
    for rank in range(ranks):
        Validator(recipe, shared, Group(rank, ranks))(task)
    assert len(sums) == ranks
    np.testing.assert_allclose(np.sum(sums, axis=0), [alone.held_out, alone.in_context], rtol=1e-12)


def test_a_validation_without_queries_is_refused(own, shared, small):
    with pytest.raises(TrainingError) as error:
        Validator(small(context=14), own, Group())
    assert error.value.got == 14
    with pytest.raises(PairsError) as error:
        Validator(small(context=15), shared, Group())
    assert error.value.got == 15
    assert Validator(small(context=14), shared, Group()).draw.queries.shape == (4, 8)


def test_an_error_that_is_no_number_is_not_passed_over(own, small, spoil):
    spoil(10)
    assert 10 in own.indices("validation")
    validator = Validator(small(), own, Group())
    with pytest.raises(NonFiniteError) as error:
        validator(task_of(small(), own))
    assert "[10]" in error.value.got


def test_a_task_is_drawn_from_the_seed_in_its_precision(own, small):
    one, same, other = (task_of(small("nao", seed=seed, precision="float64"), own) for seed in (3, 3, 4))
    assert isinstance(one, Task)
    for name, value in one.state_dict().items():
        assert value.dtype == torch.float64
        assert torch.equal(value, same.state_dict()[name])
    assert any(not torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())
