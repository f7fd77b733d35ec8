import json
from dataclasses import fields, replace
from itertools import pairwise

import pytest
import torch

from nipde.errors import PairsError, TrainingError
from nipde.estimators.conditioned.conditioned_nips import ConditionedConfig
from nipde.grid import Grid
from nipde.training.recipe import CASES, ModelRecipe, TrainingRecipe

RECIPE = TrainingRecipe(steps=1000)
KINDS = ("nips", "nips-mlp", "nao", "nao-f", "nao-wp", "afno")
ANY = TrainingRecipe(ModelRecipe("conditioned"), steps=1000)


@pytest.mark.parametrize("name", CASES)
def test_every_case_survives_json(name):
    recipe = CASES[name]
    assert TrainingRecipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_every_option_survives_json_and_is_not_its_default():
    changed = replace(
        RECIPE, model=ModelRecipe("conditioned", 3, 7, 5, "pair", "gated", True, 4, True), context=9, queries=2,
        orders=3, noise=0.1, load_noise=0.2, symmetries=True, prior_weight=0.5, batch=6, parts=2, steps=None,
        minutes=1.5, clock="cpu", learning_rate=0.3, warmup=7, second_moment=0.9, weight_decay=1e-3, clip=0.5,
        precision="float64", seed=8, start="weights", validate_every=11, validation_systems=3,
    )  # fmt: skip
    tiled, sampled = replace(RECIPE, tile_rows=5), replace(RECIPE, sampled_lines=5)  # a conditioned model has none
    for one in (changed, tiled, sampled):
        assert TrainingRecipe.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    for one, other in ((RECIPE, changed), (RECIPE.model, changed.model)):
        same = {option.name for option in fields(one) if getattr(one, option.name) == getattr(other, option.name)}
        assert same <= {"tile_rows", "sampled_lines"}


def test_lists_survive_json():
    listed = replace(ANY, context=(9, 3), noise=(0.0, 0.1))
    record = json.loads(json.dumps(listed.to_dict()))
    assert record == listed.to_dict()
    assert (record["context"], record["noise"]) == ([9, 3], [0.0, 0.1])
    assert TrainingRecipe.from_dict(record) == replace(ANY, context=[9, 3], noise=[0.0, 0.1]) == listed
    assert hash(TrainingRecipe.from_dict(record)) == hash(listed)
    assert (listed.contexts, listed.noises) == ((9, 3), (0.0, 0.1))
    assert (ANY.contexts, ANY.noises) == ((50,), (0.0,))


#: As written before there were lists, symmetries and priors.
OLD = {
    "model": {"kind": "nao", "layers": 2, "channels": 40, "modes": None}, "context": 50, "queries": 0, "orders": None,
    "noise": 0.0, "load_noise": 0.0, "batch": 10, "parts": 1, "steps": None, "minutes": 20.0, "clock": "wall",
    "learning_rate": 0.03, "warmup": 100, "second_moment": 0.99, "weight_decay": 0.0, "clip": 1.0,
    "precision": "float32", "seed": 0, "validate_every": 500, "validation_systems": 50,
}  # fmt: skip


def test_a_recipe_of_an_earlier_version_means_what_it_meant():
    assert TrainingRecipe.from_dict(OLD) == CASES["nao-2"]
    now = CASES["nao-2"].to_dict()
    assert {name: now[name] for name in OLD if name != "model"} == {name: OLD[name] for name in OLD if name != "model"}
    assert OLD["model"].items() <= now["model"].items()


@pytest.mark.parametrize("change", [{"colour": 1}, {"model": {"kind": "nips", "colour": 1}}])
def test_a_recipe_of_another_version_is_refused(change):
    with pytest.raises(TrainingError) as error:
        TrainingRecipe.from_dict(RECIPE.to_dict() | change)
    assert "colour" in error.value.got
    with pytest.raises(TrainingError, match="unreadable recipe"):
        TrainingRecipe.from_dict({"steps": 3})


def test_a_run_has_one_length():
    with pytest.raises(TrainingError) as error:
        TrainingRecipe(steps=10, minutes=1.0)
    assert error.value.expected == "steps or minutes"
    with pytest.raises(TrainingError) as error:
        TrainingRecipe()
    assert error.value.got == "neither"


@pytest.mark.parametrize("value", [0, -3])
@pytest.mark.parametrize(
    "name",
    ["context", "batch", "parts", "learning_rate", "validate_every", "steps", "clip", "validation_systems"],
)
def test_sizes_are_above_nothing(name, value):
    with pytest.raises(TrainingError, match=f"expected {name} above 0, got {value}"):
        replace(RECIPE, **{name: value})


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_minutes_are_above_nothing(value):
    with pytest.raises(TrainingError, match=f"expected minutes above 0, got {value}"):
        TrainingRecipe(minutes=value)


@pytest.mark.parametrize("name", ["queries", "noise", "load_noise", "prior_weight", "seed"])
def test_amounts_are_not_below_nothing(name):
    with pytest.raises(TrainingError, match=name):
        replace(RECIPE, **{name: -1})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context": (5, 0)}, "expected context above 0, got 0"),
        ({"context": ()}, "expected at least one context, got none: give a number or a list"),
        ({"noise": (0.1, -0.1)}, r"expected noise of 0 or more, got -0\.1"),
        ({"noise": []}, "expected at least one noise, got none"),
    ],
)
def test_lists_are_looked_at_one_by_one(options, said):
    with pytest.raises(TrainingError, match=said):
        replace(ANY, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_paper_models_have_one_number_of_pairs_and_no_prior(kind):
    model = ModelRecipe(kind)
    with pytest.raises(TrainingError, match=rf"one number of pairs for {kind}, got \[50, 5\]: give one --context"):
        TrainingRecipe(model, steps=1, context=(50, 5))
    with pytest.raises(TrainingError, match=rf"prior_weight 0 for {kind}, which has no prior, got 0\.2: leave it out"):
        TrainingRecipe(model, steps=1, prior_weight=0.2)
    assert TrainingRecipe(model, steps=1, context=(50,), noise=(0.0, 0.1), symmetries=True).contexts == (50,)


@pytest.mark.parametrize("model", [ModelRecipe("nao", modes=4), ModelRecipe("conditioned", modes=4)])
def test_only_networks_that_retain_modes_have_a_number_of_them(model):
    with pytest.raises(TrainingError, match="modes for nips, nips-mlp or a gated prior, got"):
        TrainingRecipe(model, steps=1)


def test_the_learning_rate_rises_then_falls_to_nothing():
    recipe = TrainingRecipe(steps=1000, learning_rate=2.0, warmup=100)
    rates = [recipe.rate(step, recipe.progress(step, 0.0)) for step in range(1000)]
    assert rates[0] == pytest.approx(2.0 / 100)
    assert rates[49] == pytest.approx(2.0 / 2, rel=0.01)
    assert rates[99] == pytest.approx(2.0, rel=0.03)
    assert max(rates) <= 2.0
    assert all(before < after for before, after in pairwise(rates[:90]))
    assert all(before > after for before, after in pairwise(rates[100:]))
    assert rates[500] == pytest.approx(1.0)  # the cosine, not a line: a quarter is not half
    assert rates[250] == pytest.approx(1 + 0.5**0.5)
    assert 0 < rates[-1] < 1e-4
    assert recipe.rate(1000, recipe.progress(1000, 0.0)) == pytest.approx(0.0, abs=1e-12)


def test_without_a_warm_up_the_first_step_is_the_largest():
    recipe = replace(RECIPE, warmup=0, learning_rate=1.0)
    assert recipe.rate(0, 0.0) == 1.0


def test_progress_is_of_steps_or_of_minutes():
    assert [RECIPE.progress(step, 1e9) for step in (0, 250, 1000, 2000)] == [0.0, 0.25, 1.0, 1.0]
    timed = TrainingRecipe(minutes=2.0)
    assert [timed.progress(10**9, seconds) for seconds in (0.0, 30.0, 120.0, 500.0)] == [0.0, 0.25, 1.0, 1.0]
    assert timed.rate(1000, 0.5) == pytest.approx(timed.learning_rate / 2)


def test_options_reach_the_run_and_its_model():
    changed = RECIPE.with_options({"channels": 7, "kind": "nao", "batch": 3, "steps": 5})
    assert (changed.model, changed.batch, changed.steps) == (ModelRecipe("nao", 2, 7), 3, 5)
    assert RECIPE.with_options({}) == RECIPE
    assert RECIPE.model == ModelRecipe()
    weights = [RECIPE.with_options({"channels": count}).model.build(Grid.uniform(5), pairs=3) for count in (4, 8)]
    assert len({sum(value.numel() for value in model.parameters()) for model in weights}) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_different_networks(kind):
    grid, counts = Grid.uniform(5), {}
    for name in KINDS:
        torch.manual_seed(0)
        model = ModelRecipe(name, 2, 6).build(grid, pairs=4)
        counts[name] = sum(value.numel() for value in model.parameters())
    assert [name for name in KINDS if counts[name] == counts[kind]] == [kind]


def test_modes_and_components_reach_the_network():
    grid = Grid.uniform(9)

    def count(recipe, **more):
        return sum(value.numel() for value in recipe.build(grid, pairs=4, **more).parameters())

    assert count(ModelRecipe("nips", modes=2)) < count(ModelRecipe("nips", modes=3)) < count(ModelRecipe("nips"))
    assert count(ModelRecipe("nips")) < count(ModelRecipe("nips"), components=(2, 2))


def test_sizes_reach_the_conditioned_network(stand_in):
    grid, recipe = Grid.uniform(5, dimension=3), ModelRecipe("conditioned", channels=7, prior="gated", terms=4)
    assert recipe.build(grid, pairs=4).config == ConditionedConfig(3, (1, 1), "gated", channels=7, terms=4)
    more = replace(recipe, head=True, drift=True).build(grid, pairs=4, components=(3, 2)).config
    assert more == ConditionedConfig(3, (3, 2), "gated", True, True, 7, 4)


def test_an_unknown_network_is_refused():
    with pytest.raises(PairsError) as error:
        ModelRecipe("gnot").build(Grid.uniform(5), pairs=3)
    assert error.value.got == "gnot"
