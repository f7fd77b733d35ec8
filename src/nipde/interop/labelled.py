"""Fields with names: pairs, answers, findings and archives as xarray Datasets with coordinates and units, and back.

Axes are `system`, `pair`, `load_component`, `response_component`, `x`, `y`, `z`. Every variable has the attribute
`units`; where nobody has given one, it is `1`. What a grid is beyond its nodes stands on its coordinates.
"""

import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.boundary import BOUNDARIES
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.archive import open as open_archive
from nipde.data.checked_store import CheckedStore
from nipde.discovery.discovery import Discovery
from nipde.errors import PairsError
from nipde.grid import AXES, Axis, Grid
from nipde.interop.extras import needed
from nipde.kernels.base import Predictor
from nipde.kernels.conditioned import ConditionedKernel
from nipde.measurements.measurement import Measurement
from nipde.measurements.units import Units
from nipde.report.files import fields_of

if TYPE_CHECKING:
    import xarray

#: Nobody has said what the numbers are in.
UNSAID = Units("1", "1", "1")


def to_xarray(pairs: Pairs | Measurement, *, units: Units | None = None) -> "xarray.Dataset":
    """Loads and responses of one system or a batch with one axis; a Measurement brings its units and its origin."""
    origin: tuple[float, ...] | None = None
    if isinstance(pairs, Measurement):
        units, origin, pairs = units or pairs.units, pairs.origin, pairs.pairs
    if len(pairs.batch) > 1:
        raise PairsError(expected="systems along one axis", got=f"a batch {pairs.batch}", remedy="flatten the batch")
    said, system = units or UNSAID, ("system",) * len(pairs.batch)
    variables: dict[str, Any] = {
        "loads": _field(pairs.loads, (*system, "pair", "load_component"), said.load, pairs.grid),
        "responses": _field(pairs.responses, (*system, "pair", "response_component"), said.response, pairs.grid),
    }
    if pairs.mask is not None:
        whole = pairs.mask.expand_as(pairs.responses)
        variables["mask"] = _field(whole, (*system, "pair", "response_component"), "1", pairs.grid)
    for name, unit in (("noise", said.response), ("load_noise", said.load)):
        level = getattr(pairs, name)
        if level is not None:
            values = np.asarray(level.cpu() if isinstance(level, Tensor) else level)
            variables[name] = (system if values.ndim else (), values, {"units": unit})
    return _dataset(variables, pairs.grid, said.length, origin)


def from_xarray(dataset: "xarray.Dataset") -> Pairs:
    """Pairs of a dataset that has `loads`, `responses` and coordinates like those of `to_xarray`, in any axis order.

    Component axes may be missing where there is one component.
    """
    missing = [name for name in ("loads", "responses") if name not in dataset]
    if missing:
        raise PairsError(expected="variables loads and responses", got=f"no {' and no '.join(missing)}",
                         remedy="rename them: dataset.rename(...)")  # fmt: skip
    grid = _grid_of(dataset)
    space, system = AXES[: grid.dimension], tuple(name for name in ("system",) if name in dataset["responses"].dims)

    def field(name: str, component: str) -> Tensor:
        values = dataset[name] if component in dataset[name].dims else dataset[name].expand_dims(component)
        return torch.tensor(np.ascontiguousarray(values.transpose(*system, "pair", component, *space).to_numpy()))

    def level(name: str) -> Any:
        if name not in dataset:
            return None
        values = dataset[name].to_numpy()
        return torch.tensor(values) if values.ndim else float(values)

    mask = field("mask", "response_component") if "mask" in dataset else None
    loads, responses = field("loads", "load_component"), field("responses", "response_component")
    return Pairs(grid, loads, responses, mask, level("noise"), level("load_noise"))


def answers(
    kernel: Predictor,
    loads: Float[Tensor, "pair component *space"],
    *,
    units: Units | None = None,
    band: float | None = None,
) -> "xarray.Dataset":
    """Loads and what the kernel of one system answers; with `band`, between which two fields that share of it lies."""
    said, axes = units or UNSAID, ("pair", "response_component")
    with torch.no_grad():
        found = {"responses": kernel @ loads}
        if band is not None:
            if not isinstance(kernel, ConditionedKernel):
                raise PairsError(expected="a kernel with bands", got=type(kernel).__name__, remedy="leave out band")
            found["low"], found["high"] = kernel.band(loads, level=band)
    variables = {name: _field(field, axes, said.response, kernel.grid) for name, field in found.items()}
    variables["loads"] = _field(loads, ("pair", "load_component"), said.load, kernel.grid)
    dataset = _dataset(variables, kernel.grid, said.length, None)
    return dataset if band is None else dataset.assign_attrs(band=band)


def findings(discovery: Discovery) -> "xarray.Dataset":
    """What was found inside: the material with its band, phases, and where the pairs fix it, node by node."""
    material, measurement = discovery.material, discovery.measurement
    space = AXES[: discovery.kernel.grid.dimension]
    variables = {
        name: (space, np.asarray(values), {"units": material.unit if name.startswith("b") else "1"})
        for name, values in fields_of(discovery).items()
    }
    told = {"level": material.level, "calibrated": int(material.calibrated), "weights": discovery.weights}
    dataset = _dataset(variables, discovery.kernel.grid, measurement.units.length, measurement.origin)
    return dataset.assign_attrs(told | {"verdict": "\n".join(discovery.verdict)})


def open_xarray(
    archive: Archive | str | os.PathLike[str], *, options: dict[str, Any] | None = None
) -> "xarray.Dataset":
    """A whole archive; values are read, and their checksums tested, when they are asked for. Needs no dask.

    Axes of components have a name per variable, since loads, responses and hidden fields may have different ones.
    """
    xr = needed("xarray", extra="measurements")
    opened = archive if isinstance(archive, Archive) else open_archive(archive, options=options)
    store = CheckedStore(opened.storage.zarr_store(), opened.manifest.files)
    arrays = opened.layout.keys() - set(AXES)
    variables: dict[str, Any] = {}
    for name in sorted(arrays):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Object at manifest.json is not recognized")
            alone = xr.open_zarr(
                store, consolidated=False, chunks=None, mask_and_scale=False, drop_variables=sorted(arrays - {name})
            )
        variables |= _named(alone[name])
    coordinates = _coordinates(opened.grid, "1", None)
    dataset = xr.Dataset(variables, coords=coordinates, attrs={"problem": opened.plan.recipe.problem})
    parts = np.empty(len(opened), dtype="U10")
    for part in opened.split["systems"]:
        parts[opened.indices(part)] = part
    return dataset.assign_coords(part=("system", parts)).assign_attrs(digest=opened.digest)


def _named(array: "xarray.DataArray") -> dict[str, Any]:
    """One array of an archive with axes, labels and units of its own."""
    name, told = str(array.name), dict(array.attrs)
    if name in ("parameters", "diagnostics"):
        axis = name.removesuffix("s")
        return {key: array.isel({axis: place}).variable for place, key in enumerate(told["names"])}
    if "component" in array.dims:
        role = {"loads": "load", "responses": "response"}.get(name, name)
        variable = array.variable.copy(deep=False)
        variable.dims = tuple(f"{role}_component" if dim == "component" else dim for dim in array.dims)
        variable.attrs = {"units": told["unit"], "long_name": told["quantity"]}
        return {name: variable, f"{role}_component": (f"{role}_component", told["components"])}
    return {name: array.variable}


def _field(values: Tensor, leading: tuple[str, ...], unit: str, grid: Grid) -> Any:
    return (*leading, *AXES[: grid.dimension]), values.detach().cpu().numpy(), {"units": unit}


def _dataset(variables: dict[str, Any], grid: Grid, unit: str, origin: tuple[float, ...] | None) -> "xarray.Dataset":
    xr = needed("xarray", extra="measurements")
    dataset: xarray.Dataset = xr.Dataset(variables, coords=_coordinates(grid, unit, origin))
    return dataset


def _coordinates(grid: Grid, unit: str, origin: tuple[float, ...] | None) -> dict[str, Any]:
    firsts = (0.0,) * grid.dimension if origin is None else origin
    return {
        name: (name, axis.coordinates + first, {
            "units": unit, "boundary": axis.boundary.name, "length": axis.length, "origin": first,
        })
        for name, axis, first in zip(AXES, grid.axes, firsts, strict=False)
    }  # fmt: skip


def _grid_of(dataset: "xarray.Dataset") -> Grid:
    """From coordinates; `boundary` and `length` stand on them, or are taken as clamped and from end to end."""
    axes = []
    for name in AXES:
        if name not in dataset["responses"].dims:
            break
        values = dataset[name].to_numpy().astype(float)
        told = dataset[name].attrs
        boundary = BOUNDARIES.get(told.get("boundary", "dirichlet"))
        steps = np.diff(values)
        if boundary is None or len(steps) < 2 or not np.allclose(steps, steps.mean(), rtol=1e-6) or steps.mean() <= 0:
            raise PairsError(
                f"coordinate {name} is no axis of a grid",
                expected=f"rising positions at equal distances, boundary among {', '.join(BOUNDARIES)}",
                got=f"steps of {steps.min():g} to {steps.max():g}, boundary {told.get('boundary')}",
                remedy="dataset.interp, or nipde.read for points anywhere",
            )
        found = float(steps.mean()) * (len(values) if boundary.periodic else len(values) - 1)
        length = float(told.get("length", found))
        if not np.isclose(length, found, rtol=1e-6):
            raise PairsError(
                f"axis {name} was cut", expected=f"nodes over a length of {length:g}", got=f"{found:g}",
                remedy=f"take the whole axis, or state what holds at the new ends: dataset[{name!r}].attrs = {{...}}",
            )  # fmt: skip
        axes.append(Axis(len(values), length, boundary))
    if not axes:
        raise PairsError(expected="axes named x, y, z", got=dataset["responses"].dims, remedy="dataset.rename(...)")
    return Grid(tuple(axes))
