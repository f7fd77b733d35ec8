"""The conditioned model in training: any number of pairs, several grids, and still bit by bit."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from nipde.context.sampling import Sampler
from nipde.training.feed import Source
from nipde.training.fit import fit
from nipde.training.processes import Group
from nipde.training.recipe import CASES
from nipde.training.run import Run
from nipde.weights import checkpoint, load
from nipde.weights.models import BEST, LAST

NAMES = [name for name in CASES if name.startswith("conditioned")]
every_case = pytest.mark.parametrize("name", NAMES)
OPTIONS = {"channels": 4, "terms": 3, "context": (8, 3, 5), "queries": 2, "batch": 4, "steps": 6, "minutes": None,
           "validate_every": 3, "warmup": 2}  # fmt: skip


def small_case(name: str, **options):
    return CASES[name].with_options(OPTIONS | options)


@every_case
def test_a_case_is_what_it_is_called(name):
    recipe = CASES[name]
    # Prior, drift, and what validation looks at: pairs, and noise on the responses.
    prior, drift, pairs, noise = {
        "elliptic": ("elliptic", False, 50, 0.01),
        "gated": ("gated", False, 50, 0.0),
        "drift": ("elliptic", True, 50, 0.01),
        "gated-drift": ("gated", True, 50, 0.0),
        "wide": ("elliptic", False, 150, 0.0),
        "solid": ("gated", False, 100, 0.0),
    }[name.removeprefix("conditioned-")]
    assert (recipe.model.kind, recipe.model.prior, recipe.model.drift) == ("conditioned", prior, drift)
    assert (recipe.contexts[0], recipe.noises[0]) == (pairs, noise)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (CASES[name].model.prior == "elliptic")) for name in NAMES],
)
def test_a_run_on_two_grids_that_was_stopped_ends_with_the_same_bits(archives, tmp_path, end_of, stop_after, name):
    recipe, several = small_case(name), [archives["own"], archives["finer"]]
    fit(recipe, several, tmp_path / "calm")
    fit(recipe, several, tmp_path / "run", callbacks=[stop_after(2)])
    run = fit(recipe, several, tmp_path / "run", resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "calm")
    # The weights know neither grid nor number of pairs.
    model = load(tmp_path / "run")
    for archive, pairs in ((archives["shared"], 4), (archives["finer"], 11)):
        draw = Sampler(4, 14, pairs, queries=2).one_each(range(4))
        batch = Source(archive, "validation").batch(draw)
        assert (model(batch.context) @ batch.loads).shape == batch.responses.shape
    assert checkpoint.load(tmp_path / "run" / BEST)[1]["validation"]["held_out"] == run.best


@every_case
@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("prior_weight", [0.0, 0.2])
def test_every_weight_takes_part_in_every_step(own, name, noise, prior_weight):
    # Processes that share gradients wait for each of them.
    recipe = small_case(name)
    run = Run.fresh(recipe, own, Group())
    batch = Source(own, "train").batch(Sampler(8, 14, 5, queries=2).draw(0, range(4)), noise=noise)
    run.task(batch, prior_weight=prior_weight).mean().backward()
    for label, parameter in run.task.named_parameters():
        assert parameter.grad is not None, label
        assert bool(torch.isfinite(parameter.grad).all()), label


@pytest.mark.slow
@every_case
def test_two_processes_train_as_one_in_two_parts(archives, folder, tmp_path, monkeypatch, name):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = ["--data", str(folder / "own"), "--data", str(folder / "finer"), "--out", str(tmp_path / "two"),
             "--devices=2", "--restarts=0", "--threads=1", "--no-tensorboard", "--channels=4", "--terms=3",
             "--context=[8,3,5]", "--queries=2", "--batch=4", "--steps=6", "--validate-every=3",
             "--warmup=2"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "nipde.cli", "train", name, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    recipe = replace(small_case(name), parts=2)
    fit(recipe, [archives["own"], archives["finer"]], tmp_path / "parts")
    for file in (LAST, BEST):
        one, other = (checkpoint.load(tmp_path / folder / file)[0] for folder in ("two", "parts"))
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
