"""Models as files and folders: bitwise the same after the way there and back, and typed errors for all else."""

import json
import struct
import sys

import numpy as np
import pytest
import torch
from torch import nn

import nipde
from nipde.boundary import Neumann
from nipde.errors import CheckpointError, MissingExtraError
from nipde.grid import Axis, Grid
from nipde.weights import card, checkpoint, fetch, load, publish, save

PLANE = Grid((Axis(8, 1.3), Axis(7, 2.5, Neumann())))
D = 4
PAPER = {
    "NIPS": lambda: nipde.NIPS(PLANE, pairs=D, channels=3, layers=2),
    "NIPS-modes": lambda: nipde.NIPS(PLANE, pairs=D, channels=3, layers=3, modes=(3, 3), components=2),
    "NIPS-mlp": lambda: nipde.estimators.NIPSMLP(PLANE, pairs=D, channels=3, layers=2),
    "NAO": lambda: nipde.NAO(PLANE, pairs=D, channels=3, layers=2),
    "NAO-f": lambda: nipde.NAO(PLANE, pairs=D, channels=3, layers=2, full_norms=True),
    "NAO-W^P": lambda: nipde.NAO(PLANE, pairs=D, channels=3, layers=2, token_projections=True),
    "AFNO": lambda: nipde.AFNO(PLANE, pairs=D, layers=2, components=2),
}
CONDITIONED = {
    "elliptic": {"prior": "elliptic"},
    "elliptic-drift": {"prior": "elliptic", "drift": True},
    "gated": {"prior": "gated", "terms": 5},
    "gated-drift": {"prior": "gated", "terms": 3, "drift": True},
    "gated-2": {"prior": "gated", "components": (2, 3)},
    "gated-head": {"prior": "gated", "components": (2, 2), "head": True},
}


def conditioned(name):
    return nipde.ConditionedNIPS(dimension=2, channels=6, **CONDITIONED[name])


def frozen(model):
    """As models are loaded: torch rounds otherwise where it must keep something for gradients."""
    return model.eval().requires_grad_(False)


def shaken(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return frozen(model)


def some_pairs(grid, *, components=(1, 1), pairs=D, dtype=torch.float32, seed=0):
    draw = np.random.default_rng(seed)
    loads, responses = (
        torch.tensor(draw.standard_normal((pairs, count, *grid.shape)), dtype=dtype) for count in reversed(components)
    )
    return nipde.Pairs(grid, loads, 0.3 * responses, noise=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", PAPER)
def test_the_papers_models_come_back_bit_by_bit(kind, dtype, tmp_path):
    model = shaken(PAPER[kind]().to(dtype))
    count = 2 if kind in ("NIPS-modes", "AFNO") else 1
    pairs = some_pairs(PLANE, components=(count, count), dtype=dtype)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert type(again) is type(model)
    assert torch.equal(again(pairs) @ pairs.loads, model(pairs) @ pairs.loads)
    assert next(again.parameters()).dtype == dtype
    assert not again.training
    save(again, tmp_path / "again.safetensors")
    (kept, record), (twice, same) = (checkpoint.load(tmp_path / f"{name}.safetensors") for name in ("model", "again"))
    assert record == same
    assert kept.keys() == twice.keys()
    assert all(torch.equal(kept[name], twice[name]) for name in kept)


def test_saving_leaves_the_generator_alone(tmp_path):
    model = PAPER["NIPS"]()
    before = torch.random.get_rng_state()
    save(model, tmp_path / "model.safetensors")
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", CONDITIONED)
def test_conditioned_models_come_back_bit_by_bit(name, tmp_path):
    model = frozen(conditioned(name))
    pairs = some_pairs(Grid.uniform(9), components=model.components)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert torch.equal(again(pairs).predict(pairs.loads), model(pairs).predict(pairs.loads))
    assert again.calibration is None


@pytest.mark.slow
@pytest.mark.parametrize("piecewise_constant", [False, True])
def test_calibrated_weights_give_the_same_bands_alarm_and_material(piecewise_constant, tmp_path):
    model = nipde.load("darcy-two-phase")
    model = model.with_piecewise_constant_prior() if piecewise_constant else model
    notes = card("darcy-two-phase")
    again = load(publish(model, tmp_path / "shared", about=notes["about"], limits=notes["limits"]))
    pairs = nipde.read(nipde.sample()).pairs
    one, other = (each(pairs) for each in (model, again))
    for mine, theirs in zip(one.band(pairs.loads), other.band(pairs.loads), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(one.coefficient, other.coefficient)
    assert one.outlier_test.scores == other.outlier_test.scores
    assert torch.equal(one.bands.material, other.bands.material)
    assert (again.name, again.piecewise_constant) == ("darcy-two-phase", piecewise_constant)


def test_notes_are_kept_in_the_record(tmp_path):
    record = save(PAPER["NIPS"](), tmp_path / "model.safetensors", about={"by": "me"})
    assert card(tmp_path / "model.safetensors") == record
    assert record["by"] == "me"


def test_shipped_weights_are_files_like_any_other():
    from nipde.weights.models import SHELF

    again = load(SHELF / "advection.safetensors")
    assert again.name == "advection"
    assert again.calibration == load("advection").calibration
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), load("advection").parameters(), strict=True))


@pytest.mark.parametrize(
    ("model", "got"),
    [
        (nn.Linear(2, 2), "Linear"),
        (nipde.NIPS(PLANE, pairs=D, channels=3, layers=2).to(torch.bfloat16), ["torch.bfloat16"]),
    ],
)
def test_a_model_without_config_or_of_another_precision_is_refused(model, got, tmp_path):
    with pytest.raises(CheckpointError) as error:
        save(model, tmp_path / "model.safetensors")
    assert error.value.got == got
    assert not list(tmp_path.iterdir())


# Damaged, foreign, incomplete


def rewritten(path, *, tensors=None, record=None):
    kept, before = checkpoint.load(path)
    checkpoint.save(path, kept if tensors is None else tensors(kept), before if record is None else record(before))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    save(shaken(PAPER["NIPS"]()), path)
    return path


@pytest.mark.parametrize("version", [1, 3, None])
def test_another_version_is_refused(saved, version):
    rewritten(saved, record=lambda record: record | {"checkpoint_version": version})
    with pytest.raises(CheckpointError) as error:
        load(saved)
    assert error.value.got == version


@pytest.mark.parametrize("name", ["model", "precision"])
def test_an_incomplete_record_is_refused(saved, name):
    rewritten(saved, record=lambda record: {key: value for key, value in record.items() if key != name})
    with pytest.raises(CheckpointError) as error:
        load(saved)
    assert f'"{name}"' in error.value.got


@pytest.mark.parametrize(
    "change",
    [{"layers": 3}, {"channels": 4}, {"kind": "nao"}, {"kind": "oracle"}, {"depth": 4}],
    ids=str,
)
def test_another_network_than_the_weights_is_refused(saved, change):
    rewritten(saved, record=lambda record: record | {"model": record["model"] | change})
    with pytest.raises(CheckpointError) as error:
        load(saved)
    assert error.value.expected == f"all weights of {change.get('kind', 'nips')}"


def test_missing_weights_are_refused(saved):
    rewritten(saved, tensors=lambda kept: {name: value for name, value in kept.items() if "input_norm" not in name})
    with pytest.raises(CheckpointError) as error:
        load(saved)
    assert "input_norm" in error.value.got


def test_a_broken_calibration_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    save(conditioned("elliptic"), path)
    rewritten(path, record=lambda record: record | {"calibration": {"strata": [[{"unheard": [1]}]]}})
    with pytest.raises(CheckpointError, match="calibration"):
        load(path)


def test_a_flipped_bit_is_noticed(saved):
    data = bytearray(saved.read_bytes())
    data[-3] ^= 1
    saved.write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged"):
        load(saved)


def test_foreign_and_missing_files_are_refused(tmp_path):
    (tmp_path / "pickle.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    with pytest.raises(CheckpointError, match="not ours"):
        load(tmp_path / "pickle.safetensors")
    with pytest.raises(CheckpointError) as error:
        load(tmp_path / "nothing.safetensors")
    assert "nothing.safetensors" in error.value.got


# Folders


@pytest.fixture
def folder(tmp_path):
    return publish(
        shaken(PAPER["NIPS"]()), tmp_path / "shared", about="For plates.", limits="Not for shells.", license="mit"
    )


def test_a_folder_holds_weights_config_and_a_card_that_the_hub_reads(folder):
    from huggingface_hub import ModelCard
    from safetensors.torch import load_file

    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.safetensors"]
    told = ModelCard.load(folder / "README.md")
    assert (told.data.library_name, told.data.license) == ("nipde", "mit")
    assert "inverse-problems" in told.data.tags
    for words in ("For plates.", "Not for shells.", "NIPS, ", "4 pairs, on a grid of 8 × 7 nodes"):
        assert words in told.text
    assert json.loads((folder / "config.json").read_text())["model"]["kind"] == "nips"
    assert all(name.startswith("model.") for name in load_file(folder / "model.safetensors"))


def test_a_folder_comes_back_bit_by_bit_without_a_network(folder):
    torch.manual_seed(0)
    pairs = some_pairs(PLANE)
    first, second = (load(place)(pairs) @ pairs.loads for place in (folder, str(folder)))
    assert torch.equal(first, second)
    assert torch.equal(first, load(folder / "model.safetensors")(pairs) @ pairs.loads)


def test_a_config_of_other_weights_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config["model"]["channels"] = 7
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"does not belong to model\.safetensors"):
        load(folder)


@pytest.mark.parametrize("text", ["{", "[1]", "{}", '{"checkpoint_version": 9}'])
def test_a_config_that_is_none_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError):
        load(folder)


def test_a_folder_without_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError) as error:
        load(folder)
    assert error.value.got == "neither"


def test_a_name_is_looked_up_in_the_cache_of_the_hub(folder, tmp_path, monkeypatch):
    """The layout in which huggingface_hub keeps what it has fetched, and its own code to find it there."""
    cache, commit = tmp_path / "cache", "0" * 40
    kept = cache / "models--lab--plates" / "snapshots" / commit
    kept.mkdir(parents=True)
    for path in folder.iterdir():
        (kept / path.name).write_bytes(path.read_bytes())
    (cache / "models--lab--plates" / "refs").mkdir()
    (cache / "models--lab--plates" / "refs" / "main").write_text(commit)
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    found = load(fetch("lab/plates", local_files_only=True))
    again = load(folder)
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), again.parameters(), strict=True))
    for name in ("lab/shells", "not a/name/at all"):
        with pytest.raises(CheckpointError) as error:
            fetch(name, local_files_only=True)
        assert error.value.expected == "a repository on the hub"


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError) as error:
        fetch("lab/plates")
    assert "nipde[hub]" in error.value.remedy
