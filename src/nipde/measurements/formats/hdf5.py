"""HDF5: every data set of numbers by its path, its attribute `units`; never a byte from outside the file."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents


def parse(path: Path, *, values: int) -> Contents:
    """All data sets below the root; soft links are left alone, since what they point to has a path of its own."""
    contents = Contents(values)
    with h5py.File(path, "r") as file:
        for key, value in file.attrs.items():
            contents.note(key, text(value))
        for name, dataset in datasets(file, contents.skipped):
            _keep(name, dataset, contents)
    return contents


def datasets(group: h5py.Group, skipped: list[str]) -> Iterator[tuple[str, h5py.Dataset]]:
    """Of a group and the groups in it, each once; links out of the file are refused."""
    groups, visited = [("", group)], {_address(group)}
    while groups:
        prefix, group = groups.pop()
        for key in group:
            name = prefix + str(text(key))  # bytes where a name is not UTF-8
            if not hard_link(group, key):
                skipped.append(name)
                continue
            member = group[key]
            if isinstance(member, h5py.Dataset):
                yield name, stored_here(member)
            elif isinstance(member, h5py.Group) and _address(member) not in visited:
                visited.add(_address(member))
                groups.append((f"{name}/", member))


def hard_link(group: h5py.Group, key: str) -> bool:
    """Whether a member is in this very place of the file; if it is in another file, an error."""
    link = group.get(key, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        raise _outside(f"a link {key!r} to {link.filename!r}")
    return isinstance(link, h5py.HardLink)


def stored_here(dataset: h5py.Dataset) -> h5py.Dataset:
    """The data set, if its values are in the file; checked before its shape, which would open the other file."""
    if dataset.is_virtual:
        raise _outside(f"a virtual data set {dataset.name!r}")
    if dataset.external:
        raise _outside(f"external storage of {dataset.name!r}")
    return dataset


def text(value: object) -> object:
    """Bytes and arrays of one element as what they hold."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def _keep(name: str, dataset: h5py.Dataset, contents: Contents) -> None:
    if dataset.shape == () and (h5py.check_string_dtype(dataset.dtype) or dataset.dtype.kind in "biuf"):
        contents.note(name, text(dataset[()]))
    elif dataset.shape and dataset.dtype.kind in "biuf":
        contents.reserve(name, dataset.shape)
        unit = text(dataset.attrs["units"]) if "units" in dataset.attrs else None
        contents.add(name, dataset[()], unit=unit if isinstance(unit, str) else None)
    else:
        contents.skipped.append(name)


def _address(group: h5py.Group) -> int:
    return int(h5py.h5o.get_info(group.id).addr)


def _outside(got: str) -> MeasurementError:
    return MeasurementError(
        expected="all data in the file itself",
        got=got,
        remedy="copy everything into one file, for example with h5repack",
    )
