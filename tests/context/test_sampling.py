"""Draws are a function of (seed, step, place) and of nothing else; every system and pair has the same chance."""

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.stats import chi2

from nipde.context.sampling import Draw, Sampler, places_of, shared_choice
from nipde.errors import PairsError

SAMPLER = Sampler(systems=7, pairs=12, context=5, queries=3, seed=4)
BATCH = range(8)


def equal(one: Draw, other: Draw) -> bool:
    return all(np.array_equal(getattr(one, part.name), getattr(other, part.name)) for part in fields(Draw))


def joined(*draws: Draw) -> Draw:
    return Draw(*(np.concatenate([getattr(draw, part.name) for draw in draws]) for part in fields(Draw)))


def unlikely(counts) -> float:
    """Chance of counts this uneven if all of them are expected to be equal."""
    counts = np.asarray(counts)
    expected = counts.sum() / len(counts)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def test_a_draw_is_the_same_whenever_it_is_asked_for():
    forward = [SAMPLER.draw(step, BATCH) for step in range(6)]
    backward = [replace(SAMPLER).draw(step, BATCH) for step in reversed(range(6))]
    assert all(equal(one, other) for one, other in zip(forward, reversed(backward), strict=True))
    assert equal(SAMPLER.one_each(range(7)), replace(SAMPLER).one_each(range(7)))


@pytest.mark.parametrize("orders", [None, 3])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_processes_draw_together_what_one_draws_alone(ranks, orders):
    sampler = replace(SAMPLER, orders=orders)
    alone = sampler.draw(17, BATCH)
    shares = [sampler.draw(17, places_of(len(BATCH), rank=rank, ranks=ranks)) for rank in range(ranks)]
    assert equal(joined(*shares), alone)
    assert {share.contexts.shape for share in shares} == {(8 // ranks, 5)}


def test_one_each_does_not_depend_on_which_systems_are_asked_for():
    every = SAMPLER.one_each(range(7))
    assert every.systems.tolist() == list(range(7))
    assert equal(joined(SAMPLER.one_each(range(3)), SAMPLER.one_each(range(3, 7))), every)
    assert not np.array_equal(SAMPLER.one_each(range(7), round=1).contexts, every.contexts)


def test_steps_places_and_seeds_draw_something_else():
    draws = [SAMPLER.draw(step, BATCH) for step in range(40)]
    draws += [replace(SAMPLER, seed=seed).draw(0, BATCH) for seed in (5, 6)]
    together = joined(*draws)
    # 336 samples of 12!/4! contexts with queries, and of 2**62 seeds: two equal ones would be no accident.
    assert len({tuple(row) for row in np.hstack([together.contexts, together.queries])}) == len(together.systems)
    assert len(set(together.seeds.tolist())) == len(together.systems)
    assert together.seeds.min() >= 0


def test_contexts_and_queries_are_distinct_pairs_within_range():
    for sampler in (SAMPLER, replace(SAMPLER, orders=2), replace(SAMPLER, context=9), replace(SAMPLER, queries=0)):
        for draw in (*(sampler.draw(step, BATCH) for step in range(20)), sampler.one_each(range(7))):
            pairs = np.hstack([draw.contexts, draw.queries])
            assert pairs.shape == (len(draw.systems), sampler.context + sampler.queries)
            assert all(len(set(row)) == len(row) for row in pairs)
            assert 0 <= pairs.min() <= pairs.max() < sampler.pairs
            assert 0 <= draw.systems.min() <= draw.systems.max() < sampler.systems


def test_systems_pairs_and_places_come_up_equally_often():
    found = joined(*(SAMPLER.draw(step, range(30)) for step in range(100)))
    assert unlikely(np.bincount(found.systems, minlength=7)) > 1e-4
    # A pair is first of the context, or first of the queries, once in twelve times; and by system as well.
    for first in (found.contexts[:, 0], found.queries[:, 0]):
        assert unlikely(np.bincount(first, minlength=12)) > 1e-4
        assert unlikely(np.bincount(12 * found.systems + first, minlength=84)) > 1e-4
    every = np.bincount(found.contexts.ravel(), minlength=12)
    assert abs(every / len(found.systems) - 5 / 12).max() < 0.05


@pytest.mark.parametrize("orders", [1, 3])
def test_a_number_of_orders_bounds_the_contexts_of_a_system(orders):
    sampler = replace(SAMPLER, orders=orders)
    early, late = (joined(*(sampler.draw(step, range(30)) for step in steps)) for steps in (range(20), range(80, 100)))
    for system in range(7):
        seen = [
            {tuple(row) for row in np.column_stack([draw.contexts, draw.queries, draw.seeds])[draw.systems == system]}
            for draw in (early, late)
        ]
        assert len(seen[0]) == orders
        assert seen[0] == seen[1]
    assert len({tuple(row) for row in early.contexts}) == 7 * orders  # systems do not share their orders
    assert unlikely(np.bincount(early.systems, minlength=7)) > 1e-4
    assert not equal(sampler.draw(0, BATCH), replace(sampler, seed=5).draw(0, BATCH))


# What a whole step shares

SEVERAL = replace(SAMPLER, context=(5, 2, 9))
KINDS = ("context", "noise", "symmetry", "archive")


@pytest.mark.parametrize("orders", [None, 3])
def test_all_samples_of_a_step_have_as_many_pairs_on_every_process(orders):
    sampler, seen = replace(SEVERAL, orders=orders), []
    for step in range(300):
        alone = sampler.draw(step, BATCH)
        shares = [sampler.draw(step, places_of(len(BATCH), rank=rank, ranks=4)) for rank in range(4)]
        assert equal(joined(*shares), alone)
        seen.append(alone.contexts.shape[1])
        # Everything else is as if there were no choice: the context is the beginning of the same order.
        single = replace(sampler, context=seen[-1]).draw(step, BATCH)
        assert equal(alone, single)
    assert unlikely([seen.count(count) for count in (5, 2, 9)]) > 1e-4
    assert len(seen) == sum(seen.count(count) for count in (5, 2, 9))


def test_one_number_of_pairs_in_a_list_is_that_number():
    listed = replace(SAMPLER, context=(5,))
    assert all(equal(listed.draw(step, BATCH), SAMPLER.draw(step, BATCH)) for step in range(10))


def test_where_there_are_no_steps_the_first_number_of_pairs_counts():
    assert equal(SEVERAL.one_each(range(7)), SAMPLER.one_each(range(7)))


def test_a_choice_depends_on_what_seed_and_step_only():
    def choices(what, seed=4, among=5):
        return [shared_choice(what, among=among, seed=seed, step=step) for step in range(500)]

    drawn = [*(choices(what) for what in KINDS), choices("context", seed=5)]
    assert drawn[0] == choices("context")
    for each in drawn:
        assert unlikely(np.bincount(each, minlength=5)) > 1e-4
    for place, one in enumerate(drawn):
        for other in drawn[place + 1 :]:  # equal once in five times: they know nothing of each other
            assert abs(np.mean(np.equal(one, other)) - 0.2) < 0.08
    assert set(choices("noise", among=1)) == {0}


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"context": (5, 10, 2)}, 10), ({"context": (5, 0)}, 0), ({"context": ()}, "none"), ({"context": 10}, 10),
        ({"context": 0}, 0), ({"queries": -1}, -1), ({"systems": 0}, (0, None)), ({"orders": 0}, (7, 0)),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(options, got):
    with pytest.raises(PairsError) as error:
        replace(SAMPLER, **options)
    assert error.value.got == got


def test_a_batch_that_does_not_divide_is_refused():
    with pytest.raises(PairsError) as error:
        places_of(8, rank=0, ranks=3)
    assert error.value.got == 8


def test_shares_cover_the_batch():
    assert [place for rank in range(3) for place in places_of(12, rank=rank, ranks=3)] == list(range(12))
