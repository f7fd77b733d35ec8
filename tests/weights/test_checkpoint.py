"""A file of weights is whole, or an error; writing one can fail and take nothing with it."""

import errno
import math
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from nipde.errors import CheckpointError
from nipde.weights import checkpoint

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool)  # fmt: skip
NAN = 0x7FC0_1234  # a NaN that carries something


def of_every_kind() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for dtype in DTYPES:
        values = torch.randint(0, 2 if dtype == torch.bool else 100, (2, 3), generator=generator).to(dtype)
        tensors |= {f"{dtype}.full": values, f"{dtype}.empty": values[:, :0], f"{dtype}.one": values[0, 0].clone()}
    bits = torch.tensor([NAN, 0x7F80_0000, -0x8000_0000, 1], dtype=torch.int32).view(torch.float32)
    return tensors | {"odd": bits, "turned": torch.arange(6.0).view(2, 3).mT, "step": torch.tensor(7.0)}


def same_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    def bits(tensor):
        return tensor.dtype, tuple(tensor.shape), tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    return one.keys() == other.keys() and all(bits(one[name]) == bits(other[name]) for name in one)


@pytest.fixture
def small(tmp_path):
    """A file, what is in it, and its record."""
    tensors = {
        "model.weight": torch.randn(3, 4),
        "optimiser.step.weight": torch.tensor(3.0),
        "flags": torch.ones(2) > 0,
    }
    record = {"step": 3, "best": math.inf, "recipe": {"kind": "nips", "orders": None}, "text": 'µ "quoted"\n'}
    checkpoint.save(tmp_path / "small.safetensors", tensors, record)
    return tmp_path / "small.safetensors", tensors, record


def test_every_bit_of_every_kind_of_tensor_comes_back(tmp_path):
    tensors = of_every_kind()
    checkpoint.save(tmp_path / "file", tensors, {"step": 1})
    found, record = checkpoint.load(tmp_path / "file")
    assert same_bits(found, tensors)
    assert record == {"step": 1}
    assert found["odd"].view(torch.int32)[0] == NAN
    assert found["step"].shape == ()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_no_tensors_and_no_record_are_something_too(tmp_path):
    checkpoint.save(tmp_path / "file", {}, {})
    assert checkpoint.load(tmp_path / "file") == ({}, {})


def test_a_record_keeps_what_json_has_no_word_for(small):
    path, _, record = small
    assert checkpoint.load(path)[1] == record
    checkpoint.save(path, {}, {"best": math.nan})
    assert math.isnan(checkpoint.load(path)[1]["best"])


def test_weights_are_written_not_referred_to(tmp_path):
    weight = torch.nn.Parameter(torch.ones(3))
    checkpoint.save(tmp_path / "file", {"one": weight}, {})
    with torch.no_grad():
        weight.zero_()
    found, _ = checkpoint.load(tmp_path / "file")
    assert found["one"].tolist() == [1.0] * 3
    assert not found["one"].requires_grad


def test_a_flipped_bit_is_an_error_or_changes_nothing(small):
    path, tensors, record = small
    whole = path.read_bytes()
    raised = 0
    for bit in np.random.default_rng(0).choice(8 * len(whole), 400, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            found, told = checkpoint.load(path)
        except CheckpointError:
            raised += 1
        else:
            assert same_bits(found, tensors), f"bit {bit}"
            assert told == record, f"bit {bit}"
    assert raised > 350


def test_a_file_cut_short_or_lengthened_is_an_error(small):
    path, _, _ = small
    whole = path.read_bytes()
    for length in {*range(0, len(whole), 7), 0, 1, 7, 8, 9, len(whole) - 1}:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"small\.safetensors"):
            checkpoint.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError):
        checkpoint.load(path)


def test_content_of_another_file_under_the_same_header_is_damage(small):
    path, tensors, record = small
    before = path.read_bytes()
    checkpoint.save(path, {name: ~value if name == "flags" else value + 1 for name, value in tensors.items()}, record)
    after = path.read_bytes()
    header = 8 + int.from_bytes(before[:8], "little")
    assert len(before) == len(after)
    path.write_bytes(before[:header] + after[header:])
    with pytest.raises(CheckpointError, match=r"is damaged, expected SHA-256 \w{12}…, got other content"):
        checkpoint.load(path)


class Harmful:
    """Leaves a trace if anyone unpickles it."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("write", ["pickle", "torch"])
def test_nothing_is_ever_unpickled(tmp_path, write):
    path, trace = tmp_path / "file", tmp_path / "trace"
    with open(path, "wb") as file:
        pickle.dump(Harmful(trace), file) if write == "pickle" else torch.save({"model": Harmful(trace)}, file)
    with pytest.raises(CheckpointError, match="is damaged or not ours, expected a safetensors file written by nipde"):
        checkpoint.load(path)
    assert not trace.exists()


def test_files_of_others_and_no_files_are_told_apart(tmp_path):
    (tmp_path / "file").write_bytes(safetensors.torch.save({"weight": torch.ones(2)}))
    with pytest.raises(CheckpointError, match="not ours"):
        checkpoint.load(tmp_path / "file")
    with pytest.raises(CheckpointError, match=r"none cannot be read \(No such file"):
        checkpoint.load(tmp_path / "none")


@pytest.mark.parametrize("broken", ["replace", "fsync", "write"])
def test_a_write_that_fails_keeps_the_old_file_and_leaves_no_litter(small, broken, monkeypatch):
    path, tensors, record = small

    def fail(*words, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if broken == "write":
            patch.setattr(Path, "write_bytes", fail)
        else:
            patch.setattr(os, broken, fail)
        with pytest.raises(CheckpointError, match=r"could not be written \(No space left on device\): make room"):
            checkpoint.save(path, {"weight": torch.zeros(9)}, {"step": 4})
    found, told = checkpoint.load(path)
    assert same_bits(found, tensors)
    assert told == record
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("limit", [0, 10, 400, 4095, 20_000])
def test_a_full_disk_keeps_the_old_file(small, limit):
    path, tensors, record = small
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(CheckpointError, match=r"could not be written \(File too large\)"):
            checkpoint.save(path, {"weight": torch.zeros(10_000)}, {"step": 4})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    found, told = checkpoint.load(path)
    assert same_bits(found, tensors)
    assert told == record
    assert list(path.parent.iterdir()) == [path]


def test_the_name_appears_after_the_bytes_are_on_disk(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (order.append("sync"), fsync(number)))
    monkeypatch.setattr(os, "replace", lambda one, two: (order.append("rename"), replace(one, two)))
    checkpoint.save(tmp_path / "file", {}, {})
    assert order == ["sync", "rename", "sync"]
