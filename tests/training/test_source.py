"""Batches hold what the archive holds, whether systems stay in memory or are read on the way."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch

from nipde.context.sampling import Draw, Sampler
from nipde.context.symmetry import symmetries, transformed
from nipde.errors import TrainingError
from nipde.training.feed import Source, stream, training_source
from nipde.training.processes import Group

SAMPLER = Sampler(systems=8, pairs=14, context=5, queries=3, seed=2)


def draws(sampler=SAMPLER, count=6):
    return [sampler.draw(step, range(4)) for step in range(count)]


def streamed(source, wanted, **noise):
    """A batch per draw, made ahead where systems are read on the way."""
    return stream((partial(source.batch, draw, **noise) for draw in wanted), ahead=source.held is None)


def fields_of(batch):
    return batch.context.loads, batch.context.responses, batch.loads, batch.responses


@pytest.mark.parametrize("held_bytes", [2**30, 0])
def test_batches_are_what_the_archive_holds(own, held_bytes):
    source = Source(own, "train", dtype=torch.float64, held_bytes=held_bytes)
    assert (source.held is None) == (not held_bytes)
    for draw in draws():
        batch = source.batch(draw)
        assert batch.systems.tolist() == own.indices("train")[draw.systems].tolist()
        for place, system in enumerate(batch.systems):
            whole = own[int(system)]
            for found, stored, pairs in zip(
                fields_of(batch), (whole.loads, whole.responses) * 2,
                [draw.contexts[place]] * 2 + [draw.queries[place]] * 2, strict=True,
            ):  # fmt: skip
                assert np.array_equal(found[place].numpy(), stored[pairs])
        assert batch.context.grid == own.grid


@pytest.mark.parametrize("part", ["train", "validation"])
def test_systems_are_counted_within_their_part(shared, part):
    source = Source(shared, part)
    assert source.systems.tolist() == shared.indices(part).tolist()
    assert Source(shared, part, limit=2).systems.tolist() == shared.indices(part)[:2].tolist()


@pytest.mark.parametrize("noise", [{}, {"noise": 0.1, "load_noise": 0.2}])
def test_reading_on_the_way_changes_no_bit(own, noise):
    held, read = (Source(own, "train", held_bytes=size) for size in (2**30, 0))
    assert held.held is not None
    assert read.held is None
    streams = [list(streamed(source, iter(draws()), **noise)) for source in (held, read)]
    assert len(streams[0]) == len(streams[1]) == 6
    for one, other in zip(*streams, strict=True):
        assert np.array_equal(one.systems, other.systems)
        assert all(torch.equal(*both) for both in zip(fields_of(one), fields_of(other), strict=True))
        assert one.loads.dtype == torch.float32


def test_a_stream_reads_one_batch_ahead_and_may_be_left(own):
    source, asked = Source(own, "train", held_bytes=0), []

    def counted():
        for draw in draws(count=100):
            asked.append(draw)
            yield draw

    batches = streamed(source, counted())
    assert len(list(islice(batches, 3))) == 3
    assert len(asked) == 4
    batches.close()
    assert len(asked) == 4
    assert list(streamed(source, iter([]))) == []


def test_errors_of_reading_ahead_reach_the_reader(own, monkeypatch):
    source = Source(own, "train", held_bytes=0)
    batches = streamed(source, iter(draws()))
    next(batches)

    def fail(*words, **more):
        raise OSError("the disk is gone")

    monkeypatch.setattr(type(own), "read", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        list(batches)


def test_without_queries_the_context_is_asked_for_and_stays_clean(own):
    source = Source(own, "train")
    (draw,) = draws(Sampler(8, 14, 5, seed=2), 1)
    batch = source.batch(draw, noise=0.1, load_noise=0.1)
    clean = source.batch(draw)
    assert torch.equal(batch.loads, clean.context.loads)
    assert torch.equal(batch.responses, clean.context.responses)
    for noisy, exact in zip(fields_of(batch)[:2], fields_of(clean)[:2], strict=True):
        errors = ((noisy - exact).flatten(1).std(1) / exact.flatten(1).square().mean(1).sqrt()).tolist()
        assert errors == pytest.approx([0.1] * 4, rel=0.1)
    again = source.batch(Draw(draw.systems[2:3], draw.contexts[2:3], draw.queries[2:3], draw.seeds[2:3]), noise=0.1)
    assert torch.equal(again.context.responses[0], batch.context.responses[2])


@pytest.mark.parametrize("noise", [{}, {"noise": 0.1}, {"load_noise": 0.1}])
def test_contexts_know_how_noisy_their_responses_are(own, noise):
    source = Source(own, "train")
    for draw in draws():
        batch, clean = source.batch(draw, **noise), source.batch(draw)
        level = noise.get("noise", 0.0) * clean.context.responses.square().flatten(1).mean(1).sqrt()
        assert torch.equal(torch.as_tensor(batch.context.noise).expand(4), level)
        assert clean.context.noise == 0.0


def test_a_batch_is_turned_as_a_whole(own):
    batch = Source(own, "train").batch(draws()[0], noise=0.1)
    for turn in symmetries(own.grid):
        seen = batch.transformed(turn)
        for found, field in zip(fields_of(seen), fields_of(batch), strict=True):
            assert torch.equal(found, transformed(field, turn, own.grid))
        assert torch.equal(seen.context.noise, batch.context.noise)
        assert seen.systems.tolist() == batch.systems.tolist()


def test_sources_share_the_memory(own):
    size = sum(field.numel() * 4 for field in Source(own, "train").held)
    assert Source(own, "train", held_bytes=size).held is not None
    assert Source(own, "train", held_bytes=2 * size, sharing=2).held is not None
    assert Source(own, "train", held_bytes=2 * size - 1, sharing=2).held is None


def test_training_knows_training_systems_and_training_loads_only(shared, small):
    source, sampler = training_source(small(), shared, Group())
    known = set(shared.load_indices("train").tolist())
    assert set(source.pairs.tolist()) == known
    assert len(known) < shared.plan.recipe.pairs
    assert (sampler.systems, sampler.pairs) == (8, len(known))
    loads = torch.tensor(shared[0].loads)
    for step in range(20):
        batch = source.batch(sampler.draw(step, range(4)))
        assert set(batch.systems.tolist()) <= set(shared.indices("train").tolist())
        for load in (*batch.context.loads.flatten(0, 1), *batch.loads.flatten(0, 1)):
            (place,) = [place for place, other in enumerate(loads) if torch.equal(load, other)]
            assert place in known


def test_options_of_a_recipe_reach_the_draws(own, small):
    recipe = small(queries=3, orders=2, seed=9, precision="float64")
    source, sampler = training_source(recipe, own, Group())
    assert sampler == Sampler(8, 14, 8, queries=3, orders=2, seed=9)
    assert source.batch(sampler.draw(0, range(4))).loads.shape == (4, 3, 1, 9, 9)
    assert source.dtype == torch.float64


def test_a_part_without_systems_is_refused(own, monkeypatch):
    monkeypatch.setattr(type(own), "indices", lambda self, part: np.arange(0))
    with pytest.raises(TrainingError) as error:
        Source(own, "train")
    assert error.value.expected == "at least one"
