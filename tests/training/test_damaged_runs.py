"""Damage to any file of a run: going on, loading and publishing raise a typed error, or it changed nothing."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.errors import CheckpointError, NipdeError
from nipde.training.callbacks import history, read_log
from nipde.training.fit import fit
from nipde.training.processes import Group
from nipde.training.run import opened
from nipde.weights import checkpoint, load
from nipde.weights.models import BEST, LAST

RECIPE, LOG = "recipe.json", "log.csv"


@pytest.fixture(scope="module")
def stopped(own, small, tmp_path_factory):
    """A run that can go on."""
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("stopped") / "run"

    class Stop:
        def __getattr__(self, name):
            return lambda run, report=None: setattr(run, "stopped_by", 15 if run.step == 7 else 0)

    fit(small(), own, path, log_every=1, callbacks=[Stop()])
    return path


@pytest.fixture
def run(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


def resumed(path, recipe, archive):
    """All that the next step depends on."""
    run = opened(path, recipe, [archive], Group(), resume=True)
    tensors, record = run.state()
    return {name: value.numpy().tobytes() for name, value in tensors.items()}, record


def damaged(whole: bytes, rng: np.random.Generator, kind: str) -> bytes:
    place = int(rng.integers(len(whole)))
    if kind == "flip":
        return whole[:place] + bytes([whole[place] ^ 1 << int(rng.integers(8))]) + whole[place + 1 :]
    return whole[:place] if kind == "cut" else whole[:place] + whole[place + int(rng.integers(1, 40)) :]


@pytest.mark.parametrize("kind", ["flip", "cut", "deletion"])
@pytest.mark.parametrize("name", [RECIPE, LAST, BEST])
def test_no_damage_is_silent(run, own, small, name, kind):
    """300 places of all three files together for every kind of damage."""
    rng, whole, before = np.random.default_rng(0), (run / name).read_bytes(), resumed(run, small(), own)
    refused = 0
    for _ in range(100):
        (run / name).write_bytes(damaged(whole, rng, kind))
        try:
            assert resumed(run, small(), own) == before
        except NipdeError:
            refused += 1
    assert refused > 90


def test_a_missing_file_is_an_error_or_the_run_begins_before_it(run, own, small):
    (run / BEST).unlink()
    assert resumed(run, small(), own)[1]["step"] == 7
    with pytest.raises(CheckpointError):
        history(run)
    (run / LAST).unlink()
    assert resumed(run, small(), own)[1]["step"] == 0
    with pytest.raises(CheckpointError):
        load(run)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"recipe": null, "data": "a"}', b'{"recipe": {}}',
     b'{"recipe": {"model": 3}, "data": "a"}', b'{"recipe": {"model": {}, "steps": "x"}, "data": "a"}',
     b'{"recipe": {"model": {}, "steps": 5, "context": [[]]}, "data": "a"}',
     b'{"recipe": {"model": {}, "steps": ' + b"9" * 5000 + b'}, "data": "a"}'],
    ids=lambda content: str(content[:20]),
)  # fmt: skip
def test_a_recipe_that_is_none_is_refused(run, own, small, content):
    (run / RECIPE).write_bytes(content)
    with pytest.raises(NipdeError):
        resumed(run, small(), own)


def test_an_unreadable_log_is_refused(run, own, small):
    rng, whole, rows = np.random.default_rng(0), (run / LOG).read_bytes(), read_log(run / LOG)
    for kind in ("flip", "deletion"):
        for _ in range(100):
            (run / LOG).write_bytes(damaged(whole, rng, kind))
            try:
                found = read_log(run / LOG)
            except CheckpointError:
                continue
            assert all(row.keys() == rows[0].keys() and row["step"].isdecimal() for row in found)
    (run / LOG).write_bytes(whole.replace(b"step", b"stop", 1))
    with pytest.raises(CheckpointError):
        history(run)


@pytest.mark.parametrize(
    "change",
    [{"step": "7"}, {"step": None}, {"seconds": []}, {"best": "x"}, {"environment": 3}, {"best_step": 1.5},
     {"calibration": 3}],
    ids=str,
)  # fmt: skip
def test_a_state_with_odd_entries_is_refused(run, own, small, change):
    tensors, record = checkpoint.load(run / LAST)
    checkpoint.save(run / LAST, tensors, record | change)
    with pytest.raises(CheckpointError):
        resumed(run, small(), own)


@pytest.mark.parametrize("name", ["step", "seconds", "best", "best_step", "environment", "model"])
def test_a_state_without_an_entry_is_refused(run, own, small, name):
    tensors, record = checkpoint.load(run / LAST)
    checkpoint.save(run / LAST, tensors, {key: value for key, value in record.items() if key != name})
    with pytest.raises(CheckpointError):
        resumed(run, small(), own)


def odd_moments(tensors):
    """Moments of other shapes, other parameters, other names, and none at all."""
    first = next(name for name in tensors if name.startswith("optimiser.exp_avg."))
    yield tensors | {first: tensors[first][..., :1].clone() if tensors[first].shape[-1] > 1 else torch.zeros(3, 3)}
    yield tensors | {"optimiser.exp_avg.nothing": torch.zeros(3)}
    yield tensors | {"optimiser.exp_avg": torch.zeros(3)}
    yield {name: value for name, value in tensors.items() if name != first}
    yield tensors | {first: torch.full_like(tensors[first], float("nan"))}


@pytest.mark.parametrize("number", range(5))
def test_a_state_with_odd_moments_is_refused(run, own, small, number):
    tensors, record = checkpoint.load(run / LAST)
    checkpoint.save(run / LAST, list(odd_moments(tensors))[number], record)
    with pytest.raises(CheckpointError):
        resumed(run, small(), own)


def test_best_weights_without_their_error_are_refused(run, own, small):
    tensors, record = checkpoint.load(run / BEST)
    for validation in ({}, {"held_out": "x", "in_context": 1.0}, {"held_out": 1.0}):
        checkpoint.save(run / BEST, tensors, record | {"validation": validation})
        with pytest.raises(NipdeError):
            resumed(run, small(), own)


def test_every_option_that_differs_is_noticed(run, own, small):
    record = json.loads((run / RECIPE).read_text())
    (run / RECIPE).write_text(json.dumps(record | {"recipe": replace(small(), seed=1).to_dict()}))
    with pytest.raises(NipdeError):
        resumed(run, small(), own)
