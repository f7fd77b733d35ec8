"""MATLAB files of versions 5 (SciPy) and 7.3 (HDF5): variables by name, fields of structures as `name.field`.

A structure `units` gives the units of variables; so does a text `units` of JSON.
"""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io
from scipy.io.matlab import MatlabFunction, MatlabOpaque

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents
from nipde.measurements.formats.hdf5 import hard_link, stored_here

#: Structures within structures; a reference may lead back to where it came from.
DEEPEST = 8


def parse(path: Path, *, values: int) -> Contents:
    """Every variable of numbers; vectors have one axis, single numbers are attributes, cells are left alone."""
    contents = Contents(values)
    variables = load(path, contents)
    units = variables.pop("units", None)
    for name, value in variables.items():
        _keep(name, value, contents)
    if isinstance(units, str):
        contents.attributes["units"] = units
        units = json.loads(units) if units.startswith("{") else {}
    if isinstance(units, dict):
        contents.units.update((name, unit) for name, unit in units.items() if isinstance(unit, str))
    return contents


def names(path: Path) -> list[str]:
    """Of the variables, without reading them."""
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            return [key for key in file if not key.startswith("#")]
    return [name for name, _, _ in scipy.io.whosmat(path)]


def load(path: Path, contents: Contents, *, only: str | None = None) -> dict[str, Any]:
    """Variables as arrays, texts, dictionaries (structures) and lists (cells); None for what is none of these."""
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            keys = [key for key in file if not key.startswith("#") and only in (None, key) and hard_link(file, key)]
            return {key: _from_hdf5(file[key], contents, DEEPEST) for key in keys}
    for name, shape, _ in scipy.io.whosmat(path):
        if only in (None, name):
            contents.reserve(name, shape)
    variables = scipy.io.loadmat(path, variable_names=None if only is None else [only])
    return {name: _from_scipy(value) for name, value in variables.items() if not name.startswith("__")}


def _from_scipy(value: Any) -> Any:
    if isinstance(value, MatlabFunction | MatlabOpaque) or not isinstance(value, np.ndarray):
        return None
    if value.dtype.names:
        fields = {name: [_from_scipy(one) for one in value[name].flat] for name in value.dtype.names}
        return {name: ones[0] for name, ones in fields.items()} if value.size == 1 else fields
    if value.dtype.kind == "O":
        return [_from_scipy(one) for one in value.flat]
    if value.dtype.kind == "U":
        return "\n".join(map(str, value.flat))
    return value


def _from_hdf5(value: Any, contents: Contents, depth: int) -> Any:
    """As MATLAB shows it: axes in the other order, text as numbers of characters, cells and fields as references."""
    if depth == 0:
        raise MeasurementError(expected=f"at most {DEEPEST} structures within each other", got="more")
    if isinstance(value, h5py.Group):
        return {key: _from_hdf5(value[key], contents, depth - 1) for key in value if hard_link(value, key)}
    kind = value.attrs.get("MATLAB_class", b"")
    dataset = stored_here(value)
    if "MATLAB_empty" in dataset.attrs or not dataset.shape:
        return "" if kind == b"char" else None
    contents.reserve(dataset.name, dataset.shape)
    array = dataset[()].T
    if h5py.check_ref_dtype(dataset.dtype) is h5py.Reference:
        return [_from_hdf5(dataset.file[reference], contents, depth - 1) for reference in array.flat]
    if kind == b"char":
        return "\n".join("".join(map(chr, row)) for row in np.atleast_2d(array))
    return array.astype(bool) if kind == b"logical" else array


def _keep(name: str, value: Any, contents: Contents) -> None:
    if isinstance(value, dict):
        for key, field in value.items():
            _keep(f"{name}.{key}", field, contents)
    elif isinstance(value, str):
        contents.note(name, value)
    elif not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf" or not value.size:
        contents.skipped.append(name)
    elif value.size == 1:
        contents.note(name, value.item())
    else:
        vector = value.ndim == 2 and 1 in value.shape
        contents.add(name, value.reshape(-1) if vector else value)
