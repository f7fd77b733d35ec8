"""Crafted weights, records, calibrations, configs and paths: each a CheckpointError within 5 s and 1 GB, or right."""

import copy
import hashlib
import json
import os
import struct
import subprocess
import sys
import time
from functools import cache

import numpy as np
import pytest
import torch

import nipde
from nipde.errors import CheckpointError, NipdeError
from nipde.weights import card, checkpoint, load, publish, save
from nipde.weights.models import SHELF

SECONDS = 5.0


@cache
def shipped():
    return checkpoint.load(SHELF / "darcy.safetensors")


def record_with(*path, value):
    """The record of shipped weights with one entry changed."""
    record = copy.deepcopy(shipped()[1])
    inner = record
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return record


def refused(make) -> CheckpointError:
    start = time.process_time()
    with pytest.raises(CheckpointError) as error:
        make()
    assert time.process_time() - start < SECONDS
    return error.value


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


AXIS = {"nodes": 9, "length": 1.0, "boundary": "dirichlet"}
SQUARE = {"axes": [AXIS] * 2}
NIPS = {"kind": "nips", "grid": SQUARE, "pairs": 5, "channels": 4, "layers": 1, "components": 1, "modes": None}
RECORDS = {
    **{f"channels {value!r:.20}": (("model", "channels"), value)
       for value in (10**9, 30_000, 4000, 33, 0, -1, "x", None, 1.5, True, [32], 10**30, float("nan"))},
    **{f"dimension {value!r:.20}": (("model", "dimension"), value) for value in (0, 1, 3, 4, 10**8, "2", None, 2.0)},
    **{f"terms {value!r:.20}": (("model", "terms"), value) for value in (10**8, -1, "x", [])},
    **{f"components {value!r:.20}": (("model", "components"), value)
       for value in (10**9, [10**9, 10**9], [1], [1, 1, 1], ["a", "b"], [-3, 1], [0, 0], "11", None, [2, 2])},
    **{f"kind {value!r:.20}": (("model", "kind"), value)
       for value in ("os.system", "nips", "nao", [1], {}, None, 3, "../x", "ridge", "x" * 10**6)},
    **{f"prior {value!r:.20}": (("model", "prior"), value) for value in ("elastic", "gated", "../x", 1, None, [])},
    **{f"flag {value!r:.20}": (("model", "drift"), value) for value in (True, "yes", 1, None)},
    **{f"model {str(value)!r:.20}": (("model",), value) for value in ([1], None, "darcy", {}, 3, nested(500))},
    "unknown field": (("model", "depth"), 3),
    **{f"precision {value!r:.20}": (("precision",), value)
       for value in ("load", "__class__", "int8", "float64", "float16", None, 32, ["float32"])},
    **{f"version {value!r:.20}": (("checkpoint_version",), value) for value in (1, 3, "2", None, 2.5, True, [2])},
    **{f"name {value!r:.20}": (("name",), value) for value in (3, None, ["darcy"], {})},
    **{f"about {value!r:.20}": (("about",), value) for value in (3, None, [1])},
    **{f"piecewise {value!r:.20}": (("piecewise_constant",), value) for value in ("no", 1, None, [])},
    **{f"training {value!r:.20}": (("training",), value) for value in (3, "x", [1])},
    **{f"layers {value}": (("model",), NIPS | {"layers": value}) for value in (10**7, 0, -1, "x", 64)},
    "wide": (("model",), NIPS | {"channels": 10**6}),
    "many pairs": (("model",), NIPS | {"pairs": 10**12}),
    "many modes": (("model",), NIPS | {"modes": [10**9, 10**9]}),
    "modes of one axis": (("model",), NIPS | {"modes": [3]}),
    **{f"grid {str(value)!r:.30}": (("model",), NIPS | {"grid": value}) for value in (
        None, 3, [], {}, {"axes": 3}, {"axes": []}, {"axes": [AXIS] * 10}, {"axes": [{}]},
        {"axes": [AXIS | {"nodes": 2}]},
        {"axes": [AXIS | {"nodes": 10**9}] * 2}, {"axes": [AXIS | {"nodes": "x"}]}, {"axes": [AXIS | {"length": -1}]},
        {"axes": [AXIS | {"length": 10**400}]}, {"axes": [AXIS | {"boundary": []}]},
        {"axes": [AXIS | {"boundary": "?"}]},
        {"axes": [AXIS | {"nodes": 512}] * 2},
    )},
}  # fmt: skip


@pytest.mark.parametrize("what", RECORDS)
def test_a_record_that_is_not_of_its_weights_is_refused(what, tmp_path):
    path, value = RECORDS[what]
    file = tmp_path / "weights.safetensors"
    checkpoint.save(file, shipped()[0], record_with(*path, value=value))
    for verb in (load, card):
        refused(lambda verb=verb: verb(file))


CALIBRATIONS = {
    "list": lambda table: [1],
    "text": lambda table: "x",
    "empty": lambda table: {},
    "unknown field": lambda table: table | {"colour": 1},
    "strata of nothing": lambda table: table | {"strata": [[{}]]},
    "strata one row": lambda table: table | {"strata": table["strata"][:1]},
    "strata ragged": lambda table: table | {"strata": [table["strata"][0][:1], *table["strata"][1:]]},
    "strata text": lambda table: table | {"strata": "abc"},
    "no strata": lambda table: table | {"strata": []},
    "levels text": lambda table: table | {"levels": "abc"},
    "levels none": lambda table: table | {"levels": []},
    "levels few": lambda table: table | {"levels": table["levels"][:1]},
    "levels above one": lambda table: table | {"levels": [*table["levels"][:-1], 1.5]},
    "levels falling": lambda table: table | {"levels": table["levels"][::-1]},
    "pairs zero": lambda table: table | {"pairs": [0, *table["pairs"][1:]]},
    "pairs falling": lambda table: table | {"pairs": table["pairs"][::-1]},
    "pairs of halves": lambda table: table | {"pairs": [value + 0.5 for value in table["pairs"]]},
    "noise negative": lambda table: table | {"noise": [-1.0, *table["noise"][1:]]},
    "noise NaN": lambda table: table | {"noise": [float("nan"), *table["noise"][1:]]},
    "threshold NaN": lambda table: table | {"threshold": float("nan")},
    "threshold text": lambda table: table | {"threshold": "4"},
    "names numbers": lambda table: table | {"names": [1, 2, 3]},
    "names few": lambda table: table | {"names": table["names"][:1]},
    "systems text": lambda table: table | {"systems": "many"},
    "factor NaN": lambda table: changed(table, "inside", float("nan")),
    "factor negative": lambda table: changed(table, "edge", -1.0),
    "factor infinite": lambda table: changed(table, "material", float("inf")),
    "deviation zero": lambda table: changed(table, "deviation", 0.0),
    "median NaN": lambda table: changed(table, "median", float("nan")),
    "deep": lambda table: table | {"levels": nested(500)},
}


def changed(table, name, value):
    table = copy.deepcopy(table)
    table["strata"][0][0][name][0] = value
    return table


@pytest.mark.parametrize("what", CALIBRATIONS)
def test_a_calibration_that_is_none_is_refused(what, tmp_path):
    file = tmp_path / "weights.safetensors"
    table = CALIBRATIONS[what](shipped()[1]["calibration"])
    checkpoint.save(file, shipped()[0], record_with("calibration", value=table))
    refused(lambda: load(file))


def test_weights_without_a_calibration_are_whole(tmp_path):
    file = tmp_path / "weights.safetensors"
    checkpoint.save(file, shipped()[0], record_with("calibration", value=None))
    assert load(file).calibration is None


@pytest.mark.parametrize(
    "change",
    [
        lambda name, value: {name: torch.full_like(value, float("nan"))},
        lambda name, value: {name: torch.full_like(value, float("inf"))},
        lambda name, value: {name: value.double()},
        lambda name, value: {name: value.to(torch.int32)},
        lambda name, value: {name: value.to(torch.bfloat16)},
        lambda name, value: {name: value.flatten()[:-1].clone()},
        lambda name, value: {name: value[None].clone()},
        lambda name, value: {},
        lambda name, value: {name: value, "model.more": torch.zeros(3)},
        lambda name, value: {name: torch.zeros(0)},
    ],
)
def test_tensors_that_are_not_of_the_model_are_refused(change, tmp_path):
    tensors, record = shipped()
    name = max(tensors, key=lambda name: tensors[name].numel())
    kept = {other: value for other, value in tensors.items() if other != name}
    checkpoint.save(tmp_path / "file", kept | change(name, tensors[name]), record)
    refused(lambda: load(tmp_path / "file"))


def raw(header, data=b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def sealed(text: str) -> dict:
    return {"record": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


GOOD = sealed("{}")
ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
FILES = {
    "nothing": b"",
    "seven bytes": b"\0" * 7,
    "a header of 2^63 bytes": b"\xff" * 8 + b"{}",
    "a header of 2^40 bytes": struct.pack("<Q", 2**40) + b"{}",
    "no header": raw(b""),
    "a header that is no JSON": raw(b"{"),
    "a list as header": raw([1]),
    "a deep header": raw(b"[" * 200_000),
    "a deep object": raw(b'{"a":' * 100_000),
    "no metadata": raw({"a": ONE}, b"0000"),
    "metadata list": raw({"__metadata__": [1]}),
    "metadata null": raw({"__metadata__": None}),
    "metadata of numbers": raw({"__metadata__": {"record": 1, "sha256": 2}}),
    "no digest": raw({"__metadata__": {"record": "{}"}}),
    "digest of nothing": raw({"__metadata__": {"record": "{}", "sha256": ""}}),
    "record list": raw({"__metadata__": sealed("[]")}),
    "record number": raw({"__metadata__": sealed("1")}),
    "record null": raw({"__metadata__": sealed("null")}),
    "record deep": raw({"__metadata__": sealed("[" * 100_000)}),
    "record of digits": raw({"__metadata__": sealed('{"a": ' + "9" * 5000 + "}")}),
    "record empty": raw({"__metadata__": GOOD}),
    "negative shape": raw({"__metadata__": GOOD, "model.a": ONE | {"shape": [-1]}}, b"0000"),
    "huge shape": raw({"__metadata__": GOOD, "model.a": ONE | {"shape": [2**40, 2**40]}}, b"0000"),
    "overlap": raw({"__metadata__": GOOD, "a": ONE, "b": ONE}, b"0000"),
    "offsets of words": raw({"__metadata__": GOOD, "a": ONE | {"data_offsets": ["0", "4"]}}, b"0000"),
    "offsets of nothing": raw({"__metadata__": GOOD, "a": ONE | {"data_offsets": []}}, b"0000"),
    "tensor list": raw({"__metadata__": GOOD, "a": [1]}, b"0000"),
    "unknown type": raw({"__metadata__": GOOD, "a": ONE | {"dtype": "F3"}}, b"0000"),
    "eight bits": raw({"__metadata__": GOOD, "a": ONE | {"dtype": "F8_E4M3", "shape": [4]}}, b"0000"),
    "more data": raw({"__metadata__": GOOD, "a": ONE}, b"00000000"),
    "less data": raw({"__metadata__": GOOD, "a": ONE}, b"00"),
    "pickle": b"\x80\x04\x95\x00\x00\x00",
    "zip": b"PK\x03\x04" + b"\0" * 100,
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_none_is_refused(what, tmp_path):
    (tmp_path / "file").write_bytes(FILES[what])
    refused(lambda: load(tmp_path / "file"))
    refused(lambda: card(tmp_path / "file"))


@pytest.mark.parametrize("what", ["pipe", "device", "link to a device", "loop", "name too long", "NUL", "sparse"])
def test_what_is_no_file_is_refused_without_waiting(what, tmp_path):
    place = tmp_path / "weights.safetensors"
    if what == "pipe":
        os.mkfifo(place)
    elif what == "link to a device":
        place.symlink_to("/dev/zero")
    elif what == "loop":
        place.symlink_to(place)
    elif what == "sparse":
        with open(place, "wb") as file:
            file.truncate(2**40)
    else:
        place = {"device": "/dev/zero", "name too long": "x" * 5000, "NUL": "a\0b"}[what]
    refused(lambda: load(place))
    refused(lambda: card(place))


@pytest.mark.parametrize("what", ["pipe", "folder", "link to a device", "[", "[]", "null", "deep", "not UTF-8", "{}"])
def test_a_config_that_is_none_is_refused(what, tmp_path):
    config = publish(nipde.NIPS(nipde.Grid.uniform(9), pairs=5, layers=1, channels=4), tmp_path / "hub") / "config.json"
    config.unlink()
    if what == "pipe":
        os.mkfifo(config)
    elif what == "folder":
        config.mkdir()
    elif what == "link to a device":
        config.symlink_to("/dev/zero")
    else:
        config.write_bytes({"deep": b"[" * 100_000, "not UTF-8": b"\xff\xfe{"}.get(what, what.encode()))
    refused(lambda: load(tmp_path / "hub"))


def test_a_folder_with_foreign_files_is_not_published_over(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    model = nipde.NIPS(nipde.Grid.uniform(9), pairs=5, layers=1, channels=4)
    assert "notes.txt" in refused(lambda: publish(model, tmp_path)).got
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_card_that_cannot_be_written_leaves_the_old_folder(tmp_path):
    model = nipde.NIPS(nipde.Grid.uniform(9), pairs=5, layers=1, channels=4)
    publish(model, tmp_path / "hub", about="first")
    refused(lambda: publish(model, tmp_path / "hub", about="\udcff"))
    assert card(tmp_path / "hub")["about"] == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


def test_notes_under_a_name_with_a_meaning_are_refused_before_they_are_written(tmp_path):
    model = nipde.NIPS(nipde.Grid.uniform(9), pairs=5, layers=1, channels=4)
    refused(lambda: save(model, tmp_path / "file", about={"step": "first"}))
    assert not (tmp_path / "file").exists()


MEMORY = """
import json, resource, sys, time
from nipde.errors import CheckpointError
from nipde.weights import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    start = time.process_time()
    try:
        load(path)
        raise SystemExit(f"{path} was loaded")
    except CheckpointError:
        assert time.process_time() - start < 5, path
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_sizes_that_are_only_claimed_take_no_memory(tmp_path):
    for place, what in enumerate(("channels 30000", "channels 4000", "wide", "many pairs", "layers 64")):
        path, value = RECORDS[what]
        checkpoint.save(tmp_path / f"{place}.safetensors", shipped()[0], record_with(*path, value=value))
    files = map(str, tmp_path.iterdir())
    done = subprocess.run([sys.executable, "-c", MEMORY, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200_000  # kB


# Random damage


VALUES = (None, [], {}, "x", -1, 0, 1.5, True, "9" * 50, [None], {"a": 1}, float("nan"), 10**30)


def mutated(value, rng):
    """One entry of a record, anywhere, replaced."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        key = list(value)[rng.integers(len(value))] if isinstance(value, dict) else int(rng.integers(len(value)))
        value[key] = mutated(value[key], rng)
        return value
    return VALUES[rng.integers(len(VALUES))]


def mutate_records(count, folder):
    """How many of them are loaded; the rest is refused."""
    rng, loaded, file = np.random.default_rng(0), 0, folder / "weights.safetensors"
    whole = load("darcy")
    for _ in range(count):
        part = ("model", "calibration")[rng.integers(2)] if rng.random() < 0.7 else None
        record = copy.deepcopy(shipped()[1])
        if part:
            record[part] = mutated(record[part], rng)
        else:
            record = mutated(record, rng)
        checkpoint.save(file, shipped()[0], record if isinstance(record, dict) else {"record": record})
        try:
            model = load(file)
        except CheckpointError:
            continue
        loaded += 1
        assert model.config == whole.config
    return loaded


def test_mutated_records_are_refused_or_harmless(tmp_path):
    assert mutate_records(100, tmp_path) < 60


@pytest.mark.long
def test_many_mutated_records_are_refused_or_harmless(tmp_path):
    assert mutate_records(20_000, tmp_path) < 12_000


@pytest.mark.parametrize("kind", ["flip", "cut", "deletion"])
def test_no_damage_to_published_files_is_silent(kind, tmp_path):
    """300 places: the weights, and the config beside them."""
    model = nipde.NIPS(nipde.Grid.uniform(5), pairs=3, layers=1, channels=2)
    folder = publish(model, tmp_path / "hub", about="for tests")
    rng, refusals, before = np.random.default_rng(0), 0, load(folder)
    for name in ("model.safetensors", "config.json"):
        whole = (folder / name).read_bytes()
        for _ in range(150):
            place = int(rng.integers(len(whole)))
            if kind == "flip":
                bytes_ = whole[:place] + bytes([whole[place] ^ 1 << int(rng.integers(8))]) + whole[place + 1 :]
            else:
                bytes_ = whole[:place] + (whole[place + int(rng.integers(1, 9)) :] if kind == "deletion" else b"")
            (folder / name).write_bytes(bytes_)
            try:
                again = load(folder)
            except NipdeError:
                refusals += 1
                continue
            assert again.config == before.config
            assert card(folder / "model.safetensors")["about"] == "for tests"
            assert all(torch.equal(a, b) for a, b in zip(again.parameters(), before.parameters(), strict=True))
        (folder / name).write_bytes(whole)
    assert refusals > 250
