import numpy as np
import pytest

from nipde.errors import ArchiveError, PairsError
from nipde.evaluation.protocol import choose


def test_own_loads_are_divided_into_context_and_queries(own):
    draw = choose(own, part="test", context=5)
    assert draw.systems.tolist() == own.indices("test").tolist() == [6, 7, 8, 9]
    assert draw.contexts.shape == (4, 5)
    assert draw.queries.shape == (4, 9)
    for context, queries in zip(draw.contexts, draw.queries, strict=True):
        assert sorted([*context, *queries]) == list(range(14))
    assert not np.array_equal(draw.contexts[0], draw.contexts[1])  # every system is drawn for itself


def test_the_seed_decides_and_other_systems_do_not_matter(own):
    draw, other = (choose(own, part="test", context=5, seed=seed) for seed in (0, 1))
    few = choose(own, part="test", context=5, systems=2)
    assert np.array_equal(few.contexts, draw.contexts[:2])
    assert np.array_equal(few.seeds, draw.seeds[:2])
    assert not np.array_equal(draw.contexts, other.contexts)
    assert not np.array_equal(draw.seeds, other.seeds)


def test_shared_loads_of_the_test_part_are_never_those_of_training(shared):
    test = shared.load_indices("test").tolist()
    draw = choose(shared, part="test", context=5, loads="test")
    for context, queries in zip(draw.contexts, draw.queries, strict=True):
        assert sorted([*context, *queries]) == test
    validation = choose(shared, part="validation", context=1, loads="validation")
    assert sorted([*validation.contexts[0], *validation.queries[0]]) == shared.load_indices("validation").tolist()


def test_the_papers_protocol_takes_contexts_of_training_loads(shared):
    draw = choose(shared, part="test", context=10, loads="train")
    assert all(sorted(context) == shared.load_indices("train").tolist() for context in draw.contexts)
    assert all(queries.tolist() == shared.load_indices("test").tolist() for queries in draw.queries)
    few = choose(shared, part="test", context=4, loads="train")
    assert set(few.contexts.flat) <= set(shared.load_indices("train").tolist())
    assert few.queries.shape == (4, 8)


@pytest.mark.parametrize(
    ("kind", "options", "error", "said"),
    [
        ("own", {"context": 14}, PairsError, r"1 of 14 pairs, .* got 14 in the context, 0 left .*: take fewer"),
        ("own", {"context": 0}, PairsError, "got 0 in the context"),
        ("shared", {"context": 8}, PairsError, r"1 of 8 test loads.*, got 8 .*: take fewer pairs, or loads=train"),
        ("shared", {"context": 11, "loads": "train"}, PairsError, r"1 of 10 train loads.*got 11 .*: take fewer pairs$"),
        ("shared", {"context": 5, "loads": "all"}, PairsError, "loads among train, validation, test, got 'all'"),
        ("own", {"context": 5, "systems": 0}, ArchiveError, "expected at least one test system, got 0 of 4"),
        ("own", {"context": 5, "part": "exam"}, ArchiveError, "expected a part among .*, got 'exam'"),
    ],
)  # fmt: skip
def test_too_few_pairs_are_explained(archives, kind, options, error, said):
    with pytest.raises(error, match=said):
        choose(archives[kind], **{"part": "test", **options})
