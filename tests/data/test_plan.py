import json

import numpy as np
import pytest

from nipde.data.darcy import DarcyRecipe
from nipde.data.plan import Plan, indices_of, split_ranges
from nipde.errors import ArchiveError


def test_shards_cover_every_system_once():
    for systems in (1, 7, 100, 2000):
        plan = Plan(DarcyRecipe(), systems=systems)
        covered = [system for shard in range(plan.shards) for system in plan.systems_of(shard)]
        assert covered == list(range(systems))


def test_shards_of_a_million_systems_stay_of_moderate_size():
    plan = Plan(DarcyRecipe(), systems=1_000_000)
    size = plan.systems_per_shard * 2 * 100 * 441 * 4
    assert size <= 32 * 2**20
    assert plan.shards < 20_000
    assert len(json.dumps(plan.splits)) < 300  # the split does not grow with the systems


def test_system_seeds_differ_and_do_not_depend_on_the_number_of_systems():
    few, many = Plan(DarcyRecipe(), systems=10, seed=4), Plan(DarcyRecipe(), systems=1000, seed=4)
    seeds = [many.system_seed(system) for system in range(1000)]
    assert len(set(seeds)) == 1000
    assert [few.system_seed(system) for system in range(10)] == seeds[:10]
    assert Plan(DarcyRecipe(), seed=5).system_seed(0) != seeds[0]


def test_a_plan_survives_json():
    plan = Plan(DarcyRecipe(shared_loads=True), systems=50, seed=8)
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again.to_dict() == plan.to_dict()
    assert again.recipe == plan.recipe


def test_parts_are_disjoint_and_complete():
    split = split_ranges(103, (0.8, 0.1, 0.1))
    parts = [indices_of(split, part) for part in ("train", "validation", "test")]
    assert sorted(np.concatenate(parts).tolist()) == list(range(103))
    assert [len(part) for part in parts] == [83, 10, 10]


def test_a_part_without_share_is_empty():
    split = split_ranges(10, (0.9, 0.0, 0.1))
    assert len(indices_of(split, "validation")) == 0
    assert indices_of(split, "test").tolist() == [9]


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.2, 0.2), (1.2, -0.1, -0.1)])
def test_shares_that_are_no_split_are_refused(shares):
    with pytest.raises(ArchiveError) as error:
        split_ranges(10, shares)
    assert error.value.got == shares


def test_too_few_for_every_part_are_all_for_training():
    assert split_ranges(2, (0.8, 0.1, 0.1)) == {"train": [[0, 2]], "validation": [], "test": []}


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda: Plan(DarcyRecipe(), systems=0), 0),
        (lambda: Plan(DarcyRecipe(), seed=-1), -1),
        (lambda: Plan(DarcyRecipe(pairs=0)), 0),
        (lambda: Plan(DarcyRecipe(precision="float16")), "float16"),
    ],
)
def test_plans_that_make_no_sense_are_refused(wrong, got):
    with pytest.raises(ArchiveError) as error:
        wrong()
    assert error.value.got == got
