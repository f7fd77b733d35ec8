"""Training on random parts of the nodes: drawn from seed and step, as if never interrupted, and it learns."""

import pytest
import torch

from nipde.errors import StoppedEarly
from nipde.training.feed import Feed
from nipde.training.fit import fit
from nipde.training.processes import Group
from nipde.training.recipe import ModelRecipe, TrainingRecipe
from nipde.weights.models import load


def recipe(**options):
    model = ModelRecipe("nips", layers=2, channels=6, modes=3)
    return TrainingRecipe(
        model, context=8, batch=4, warmup=5, validate_every=10, sampled_lines=6, learning_rate=0.03, **options
    )


def test_parts_differ_from_step_to_step_and_are_drawn_again_alike(own):
    feed = Feed.of(recipe(steps=4), [own], Group())
    lines = [feed.batch(step, range(4)).nodes.lines for step in (0, 1, 2, 0)]
    assert len(set(lines)) == 3
    assert lines[0] == lines[3]
    assert all(len(along) == 6 for each in lines for along in each)


def test_a_run_goes_on_as_if_it_had_not_stopped(own, tmp_path, stop_after):
    fit(recipe(steps=12), own, tmp_path / "whole", tensorboard=False)
    with pytest.warns(StoppedEarly):
        fit(recipe(steps=12), own, tmp_path / "parts", tensorboard=False, callbacks=[stop_after(5)])
    fit(recipe(steps=12), own, tmp_path / "parts", tensorboard=False, resume=True)
    whole, parts = (load(tmp_path / name).state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_errors_on_all_nodes_fall(archives, tmp_path):
    few, many = (
        fit(recipe(steps=steps), archives["other"], tmp_path / str(steps), tensorboard=False).best
        for steps in (10, 300)
    )
    assert many < 0.85 * few
