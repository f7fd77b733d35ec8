"""What a step's samples share is drawn from (seed, step); the rest is as if there were nothing to share."""

import copy
from dataclasses import replace
from itertools import islice

import pytest
import torch

from nipde.context.symmetry import symmetries, transformed
from nipde.data.system import Quantity
from nipde.errors import PairsError, ShapeError, TrainingError
from nipde.training.feed import Feed, Source, training_source
from nipde.training.processes import Group

BATCH = range(4)


def fields_of(batch):
    return batch.context.loads, batch.context.responses, batch.loads, batch.responses


def equal(one, other) -> bool:
    return all(torch.equal(*both) for both in zip(fields_of(one), fields_of(other), strict=True))


@pytest.fixture
def everything(small):
    """A recipe that draws all there is to draw."""
    return small(
        "conditioned", context=(8, 3, 5), noise=(0.0, 0.05, 0.1), symmetries=True, queries=2, orders=5, parts=2,
    )  # fmt: skip


def test_of_one_archive_without_choices_it_is_the_source(own, small):
    recipe = small(noise=0.1, load_noise=0.2, queries=2)
    feed, (source, sampler) = Feed.of(recipe, [own], Group()), training_source(recipe, own, Group())
    for step, batch in enumerate(islice(feed.batches(0), 5)):
        assert equal(batch, source.batch(sampler.draw(step, BATCH), noise=0.1, load_noise=0.2))


def test_every_step_has_its_share_of_noise_and_its_number_of_pairs(own, everything):
    recipe = replace(everything, symmetries=False, parts=1)
    feed, clean = (Feed.of(each, [own], Group()) for each in (recipe, replace(recipe, noise=0.0)))
    seen = []
    for step in range(60):
        noisy, exact = feed.batch(step, BATCH), clean.batch(step, BATCH)
        assert torch.equal(noisy.loads, exact.loads)
        rms = exact.context.responses.square().flatten(1).mean(1).sqrt()
        shares = torch.as_tensor(noisy.context.noise) / rms
        assert float(shares.max() - shares.min()) < 1e-6  # all samples alike
        seen.append((round(float(shares.mean()), 3), noisy.context.count))
    assert {share for share, _ in seen} == {0.0, 0.05, 0.1}
    assert {count for _, count in seen} == {8, 3, 5}
    assert len(set(seen)) == 9  # one says nothing about the other


def test_every_step_is_turned_by_one_symmetry(own, small):
    recipe = small(queries=2, noise=0.1)
    still, turning = (Feed.of(each, [own], Group()) for each in (recipe, replace(recipe, symmetries=True)))
    seen, turns = [], symmetries(own.grid)
    for step in range(60):
        before, after = still.batch(step, BATCH), turning.batch(step, BATCH)
        (place,) = [
            place for place, turn in enumerate(turns)
            if all(torch.equal(transformed(one, turn, own.grid), other)
                   for one, other in zip(fields_of(before), fields_of(after), strict=True))
        ]  # fmt: skip
        seen.append(place)
    assert set(seen) == set(range(8))


def test_every_step_draws_from_one_archive(archives, everything):
    names = ("own", "finer", "shared")
    feed = Feed.of(everything, [archives[name] for name in names], Group())
    alone = {archives[name].digest: Feed.of(everything, [archives[name]], Group()) for name in names}
    seen = []
    for step in range(60):
        archive = feed.archive(step)
        assert equal(feed.batch(step, BATCH), alone[archive.digest].batch(step, BATCH))
        seen.append(archive.digest)
    assert set(seen) == set(alone)


@pytest.mark.parametrize("names", [["own"], ["own", "finer"]])
def test_processes_and_parts_draw_together_what_one_draws_alone(archives, everything, names):
    several = [archives[name] for name in names]
    alone = Feed.of(replace(everything, parts=1), several, Group()).batches(7)
    shares = [Feed.of(everything, several, Group(rank, 2)).batches(7) for rank in range(2)]
    for whole in islice(alone, 8):
        parts = [next(share) for share in shares for _ in range(2)]
        for place, field in enumerate(fields_of(whole)):
            assert torch.equal(torch.cat([fields_of(part)[place] for part in parts]), field)


def test_a_feed_begins_anywhere_and_depends_on_the_seed(archives, everything):
    several = [archives["own"], archives["finer"]]
    feed = Feed.of(replace(everything, parts=1), several, Group())
    early, late = list(islice(feed.batches(0), 6)), list(islice(feed.batches(4), 2))
    assert all(equal(*both) for both in zip(early[4:], late, strict=True))
    other = Feed.of(replace(everything, seed=1), several, Group())
    assert [feed.archive(step).digest for step in range(30)] != [other.archive(step).digest for step in range(30)]


def test_what_is_read_on_the_way_is_the_same(archives, everything, monkeypatch):
    several = [archives["own"], archives["finer"]]
    held = Feed.of(everything, several, Group())
    monkeypatch.setattr(Source.__init__, "__kwdefaults__", {**Source.__init__.__kwdefaults__, "held_bytes": 0})
    read = Feed.of(everything, several, Group())
    assert all(source.held is None for source, _ in read.sources)
    for one, other in islice(zip(held.batches(0), read.batches(0), strict=True), 12):
        assert equal(one, other)


def test_paper_models_learn_on_one_grid(archives, small):
    with pytest.raises(TrainingError) as error:
        Feed.of(small(), [archives["own"], archives["finer"]], Group())
    assert "11" in error.value.got
    Feed.of(small(), [archives["own"], archives["other"]], Group())


def test_fields_that_cannot_be_turned_are_refused_before_the_first_step(own, small):
    odd = copy.copy(own)
    odd.quantities = replace(own.quantities, response=Quantity("field", components=("a", "b", "c")))
    with pytest.raises(ShapeError) as error:
        Feed.of(small(symmetries=True), [odd], Group())
    assert error.value.got == 3


def test_the_largest_context_must_fit_beside_the_queries(archives, small):
    recipe = small("conditioned", context=(8, 13), queries=3)
    for names in (["own"], ["finer", "own"]):
        with pytest.raises(PairsError) as error:
            Feed.of(recipe, [archives[name] for name in names], Group())
        assert error.value.got == 13
    Feed.of(recipe, [archives["finer"]], Group())
