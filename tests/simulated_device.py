"""A device on which tensors are apart from the processor's, as on an accelerator, though the processor computes.

It stands where PyTorch lets other vendors' devices stand (PrivateUse1), under the name `simulated`, without a compiler.
What an accelerator refuses is refused: an operation on tensors of both sides (numbers, which are passed by value, are
allowed), NumPy's view of a tensor. What an accelerator does, at the price of waiting, is done and recorded.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

import nipde

SOURCES = Path(nipde.__file__).parent
aten = torch.ops.aten
#: The device hands over values; the processor waits for all work before.
READS = {aten._local_scalar_dense, aten.equal, aten.is_nonzero, aten._linalg_check_errors, aten._linalg_eigh,
         aten._linalg_svd}  # fmt: skip
#: The size of the result is known to the device only.
SIZES = {aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim, aten.unique_consecutive,
         aten.repeat_interleave}  # fmt: skip
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index}
#: Take a number that is still a tensor of the processor, although they are not pointwise.
TAKE_NUMBERS = INDEXING | {aten.fill_, aten.fill, aten.masked_fill, aten.masked_fill_, aten.full_like}


class MixedDevices(RuntimeError):
    """An operation on tensors of both sides."""


@dataclass(frozen=True)
class Crossing:
    """Values that went from one side to the other; `place` is the innermost function of nipde, file and name."""

    kind: str
    operation: str
    place: str
    bytes: int


class OnDevice(torch.Tensor):
    """A tensor of the device; `held` has its values."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "OnDevice":
        return torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=device(),
        )  # fmt: skip

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return f"OnDevice({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operation, args, kwargs or {})


class _Gaps(TorchFunctionMode):
    """What PyTorch's Python backends have no way for: tensors from lists, as an index too, and lists from tensors."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.tolist and isinstance(args[0], OnDevice):
            return args[0].cpu().tolist()
        if function is torch.Tensor.new_tensor and isinstance(args[0], OnDevice):
            kwargs = {"dtype": args[0].dtype, "device": args[0].device} | kwargs
            function, args = torch.tensor, args[1:]
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[0], OnDevice):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            index = tuple(torch.tensor(one) if isinstance(one, list | range | np.ndarray) else one for one in index)
            args = (args[0], index, *args[2:])
        if function in (torch.tensor, torch.as_tensor) and not _is_tensor(args[0]):
            to = kwargs.pop("device", None)
            made = function(*args, **kwargs)
            return made if to is None else made.to(to)
        return function(*args, **kwargs)


class _Module(_DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


_watching: list[list[Crossing]] = []
_libraries: list[torch.library.Library] = []


@cache
def device() -> torch.device:
    """The device, known to this process from the first call on."""
    _setup_privateuseone_for_python_backend("simulated", _Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda operation, *args, **kwargs: _run(operation, args, kwargs), "PrivateUse1")
    _libraries.append(library)  # it lives as long as this
    return torch.device("simulated", 0)


@contextmanager
def watched() -> Iterator[list[Crossing]]:
    """What crosses until the end of the block."""
    seen: list[Crossing] = []
    _watching.append(seen)
    try:
        with _Gaps():
            yield seen
    finally:
        _watching.remove(seen)


def waits(seen: list[Crossing]) -> set[str]:
    """Places where the processor waited for the device."""
    return {crossing.place for crossing in seen if crossing.kind != "upload"}


def _run(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    packet, tensors = operation.overloadpacket, [one for one in tree_leaves((args, kwargs)) if _is_tensor(one)]
    to = kwargs.get("device")
    to_host = to is not None and torch.device(to).type == "cpu"
    copies = packet in (aten._to_copy, aten.copy_, aten._copy_from)
    if copies:
        target = "cpu" if to_host or (packet is aten.copy_ and not isinstance(args[0], OnDevice)) else "simulated"
        source = args[1] if packet is aten.copy_ else args[0]
        if isinstance(source, OnDevice) != (target == "simulated"):
            _record("upload" if target == "simulated" else "read", operation, source)
    else:
        _refuse_mixed(operation, packet, args, tensors)
        if packet in READS:
            _record("read", operation, *tensors)
        elif packet in SIZES or (packet in INDEXING and _has_mask(args[1])):
            _record("size", operation, *tensors)
    held = {id(one.held): one for one in tensors if isinstance(one, OnDevice)}
    kwargs = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    kwargs |= {"device": torch.device("cpu")} if to is not None else {}
    plain_args, plain_kwargs = tree_map_only(OnDevice, lambda one: one.held, (args, kwargs))
    result = operation(*plain_args, **plain_kwargs)
    if to_host or (packet is aten.copy_ and not isinstance(args[0], OnDevice)):
        return result
    return tree_map_only(torch.Tensor, lambda one: held[id(one)] if id(one) in held else OnDevice(one), result)


def _refuse_mixed(operation: Any, packet: Any, args: Any, tensors: list[torch.Tensor]) -> None:
    hosts = [one for one in tensors if not isinstance(one, OnDevice)]
    if packet in INDEXING and isinstance(args[0], OnDevice):
        indices = [one for one in args[1] if _is_tensor(one) and not isinstance(one, OnDevice)]
        if indices:  # copied to the device, every time
            _record("upload", operation, *indices)
        hosts = [one for one in hosts if not any(one is index for index in indices)]
    numbers = torch.Tag.pointwise in operation.tags or packet in TAKE_NUMBERS
    for one in hosts:
        if one.ndim or not numbers:
            shapes = [(tuple(each.shape), each.device.type) for each in tensors]
            raise MixedDevices(f"{operation} in {_place()}: tensors of both sides, {shapes}")


def _has_mask(indices: Any) -> bool:
    return any(_is_tensor(one) and one.dtype in (torch.bool, torch.uint8) for one in indices)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _record(kind: str, operation: Any, *tensors: torch.Tensor) -> None:
    size = sum(one.numel() * one.element_size() for one in tensors)
    for seen in _watching:
        seen.append(Crossing(kind, str(operation), _place(), size))


def _place() -> str:
    frame: Any = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if SOURCES in path.parents:
            return f"{path.relative_to(SOURCES).as_posix()}:{frame.f_code.co_qualname.split('.<locals>')[0]}"
        frame = frame.f_back
    return "outside"
