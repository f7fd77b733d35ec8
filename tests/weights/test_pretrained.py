"""Weights of the package: they are there, they are good, and a run's own weights can become such."""

import json

import pytest
import torch

import nipde
from nipde.cli import main
from nipde.data.conduction_3d import Conduction3DRecipe
from nipde.data.darcy import DarcyRecipe, MixedDarcyRecipe
from nipde.data.generation import generate
from nipde.data.mechanics import MechanicalMnistRecipe, TissueRecipe
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.errors import CheckpointError
from nipde.evaluation.evaluate import evaluate
from nipde.weights.models import SHELF, card, load, names

#: Systems, and the largest held-out error at d = 20 with 1 % noise: loosely, a few systems only.
EXPECTED = {
    "darcy-two-phase": (DarcyRecipe, 0.006),
    "darcy-two-phase-gated": (DarcyRecipe, 0.04),
    "darcy": (MixedDarcyRecipe, 0.03),
    "darcy-reference-gated": (ReferenceDarcyRecipe, 0.04),
    "advection": (AdvectionRecipe, 0.02),
    "advection-gated": (AdvectionRecipe, 0.06),
}
#: These are told nothing of the law, and must beat every linear map.
SOLIDS = {"mmnist-gated": MechanicalMnistRecipe(pairs=70), "tissue-gated": TissueRecipe(pairs=70)}
#: In three dimensions.
CUBE = "conduction-3d"
#: Networks of the paper, and the largest error under smooth loads that are in no training.
PAPER = {"nips-2-darcy": 0.065, "nips-4-darcy": 0.055}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")

    def once(recipe):
        return generate(Plan(recipe(nodes=21, pairs=40), systems=20, seed=77), folder / recipe.problem, workers=1)

    return once


def test_the_shelf_holds_what_the_documents_name():
    assert names() == sorted([*EXPECTED, *SOLIDS, *PAPER, CUBE])
    assert sum(path.stat().st_size for path in SHELF.iterdir()) < 5e6


@pytest.mark.parametrize("name", EXPECTED)
def test_pretrained_weights_are_good(name, made):
    recipe, worst = EXPECTED[name]
    model = load(name)
    assert sum(value.numel() for value in model.parameters()) <= 150_000
    found = evaluate(model, made(recipe), context=20, noise=0.01, part="train", systems=6, inversion=False)
    assert found.held_out.mean < worst


def test_weights_of_a_cube_are_good_on_data_of_another_discretisation(tmp_path):
    archive = generate(Plan(Conduction3DRecipe(nodes=11, pairs=20), systems=3, seed=77), tmp_path / "data", workers=1)
    asked = {"context": 15, "noise": 0.01, "part": "train", "systems": 1, "inversion": False}
    ours, linear = (evaluate(one, archive, **asked).held_out.mean for one in (load(CUBE), nipde.Ridge()))
    assert ours < min(0.1, 0.25 * linear)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLIDS)
def test_weights_of_solids_are_better_than_a_linear_map(name, tmp_path):
    archive = generate(Plan(SOLIDS[name], systems=4, seed=77), tmp_path / "data", workers=1)
    asked = {"context": 50, "loads": "train", "part": "train", "systems": 3, "inversion": False, "kernels": False}
    ours, linear = (evaluate(one, archive, **asked).held_out.mean for one in (load(name), nipde.Ridge()))
    assert ours < 0.7 * linear


@pytest.mark.parametrize("name", PAPER)
def test_networks_of_the_paper_are_as_good_as_their_record(name, tmp_path):
    recipe = DarcyRecipe(nodes=21, pairs=70, load_alpha=4.0)
    archive = generate(Plan(recipe, systems=10, seed=78), tmp_path / "data", workers=1)
    found = evaluate(load(name), archive, context=50, part="train", systems=6, inversion=False, kernels=False)
    assert found.held_out.mean < PAPER[name]


@pytest.mark.parametrize("name", [*EXPECTED, *SOLIDS, *PAPER, CUBE])
def test_cards_say_what_the_weights_are(name):
    told = card(name)
    assert told["name"] == name
    assert told["about"]
    assert told["limits"]
    assert told["training"]["recipe"]["model"]["kind"] == ("nips" if name in PAPER else "conditioned")
    assert len(told["curve"]) > 1


def test_bands_and_alarm_come_with_them(made):
    system = made(DarcyRecipe)[0]
    pairs = nipde.Pairs.from_arrays(system.loads, system.responses, grid=system.grid, noise=0.0).to(dtype=torch.float32)
    context, queries = pairs.take(slice(0, 20)), pairs.take(slice(20, 40))
    kernel = load("darcy-two-phase")(context)
    low, high = kernel.band(queries.loads)
    assert bool((low <= high).all())
    inside = ((queries.responses >= low) & (queries.responses <= high)).double().mean()
    assert float(inside) > 0.5
    assert not bool(kernel.outlier_test.is_outlier)
    assert bool(load("darcy-two-phase")(context.scaled(load=1000.0)).outlier_test.is_outlier)


def test_a_wrong_name_is_told_the_right_ones():
    with pytest.raises(CheckpointError) as error:
        load("granite")
    assert all(name in error.value.expected for name in names())


@pytest.mark.slow
def test_a_run_becomes_weights_with_a_card(tmp_path, capsys):
    plan = Plan(DarcyRecipe(nodes=7, pairs=6), systems=30, seed=5, split=(0.2, 0.7, 0.1))
    archive = generate(plan, tmp_path / "data", workers=1)
    model = nipde.training.ModelRecipe("conditioned", channels=4)
    recipe = nipde.TrainingRecipe(model, context=3, queries=2, steps=2, validate_every=1, batch=2)
    nipde.fit(recipe, archive, tmp_path / "run")
    words = ["--name", "mine", "--out", str(tmp_path / "mine"), "--about", "a try"]
    words += ["--calibrate", str(tmp_path / "data")]
    assert main(["publish", str(tmp_path / "run"), *words]) == 0
    record = json.loads((tmp_path / "mine" / "config.json").read_text())
    assert (record["name"], record["about"], len(record["curve"])) == ("mine", "a try", 2)
    assert record["calibration"]["systems"] == 21
    again = load(tmp_path / "mine")
    assert (again.name, again.calibration.systems) == ("mine", 21)
    assert main(["publish", str(tmp_path / "mine"), "--name", "other", "--out", str(tmp_path / "other")]) == 0
    copied = json.loads((tmp_path / "other" / "config.json").read_text())
    assert copied | {"name": "mine"} == record
    trained = load(tmp_path / "run")
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), trained.parameters(), strict=True))
