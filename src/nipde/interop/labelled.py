"""Pairs, predictions, discoveries and archives as xarray Datasets with coordinates and units, and back.

Axes are `system`, `pair`, `load_component`, `response_component`, `x`, `y`, `z`. Every variable has the attribute
`units`; `1` where none is known. Boundary, length and origin of an axis are attributes of its coordinate.
"""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.boundary import BOUNDARIES
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive, open_archive
from nipde.discovery.discovery import Discovery
from nipde.errors import PairsError, needing
from nipde.grid import AXES, Axis, Grid
from nipde.measurements.measurement import Measurement
from nipde.measurements.units import Units
from nipde.report.files import fields_of
from nipde.report.statements import statements

if TYPE_CHECKING:
    import xarray

#: Units that were not stated.
UNKNOWN = Units("1", "1", "1")


def to_xarray(pairs: Pairs | Measurement, *, units: Units | None = None) -> "xarray.Dataset":
    """Loads and responses of one system or a batch with one axis; a Measurement brings its units and its origin."""
    origin: tuple[float, ...] | None = None
    if isinstance(pairs, Measurement):
        units, origin, pairs = units or pairs.units, pairs.origin, pairs.pairs
    if len(pairs.batch) > 1:
        raise PairsError(expected="systems along one axis", got=f"a batch {pairs.batch}", remedy="flatten the batch")
    units, system = units or UNKNOWN, ("system",) * len(pairs.batch)
    variables: dict[str, Any] = {
        "loads": _field(pairs.loads, (*system, "pair", "load_component"), units.load, pairs.grid),
        "responses": _field(pairs.responses, (*system, "pair", "response_component"), units.response, pairs.grid),
    }
    if pairs.mask is not None:
        whole = pairs.mask.expand_as(pairs.responses)
        variables["mask"] = _field(whole, (*system, "pair", "response_component"), "1", pairs.grid)
    for name, unit in (("noise", units.response), ("load_noise", units.load)):
        deviation = getattr(pairs, name)
        if deviation is not None:
            values = np.asarray(deviation.cpu() if isinstance(deviation, Tensor) else deviation)
            variables[name] = (system if values.ndim else (), values, {"units": unit})
    return _dataset(variables, pairs.grid, units.length, origin)


def from_xarray(dataset: "xarray.Dataset") -> Pairs:
    """Pairs of a dataset that has `loads`, `responses` and coordinates like those of `to_xarray`, in any axis order.

    Component axes may be missing where there is one component.
    """
    missing = [name for name in ("loads", "responses") if name not in dataset]
    if missing:
        raise PairsError(expected="variables loads and responses", got=f"no {' and no '.join(missing)}",
                         remedy="rename them: dataset.rename(...)")  # fmt: skip
    grid = _grid_of(dataset)
    space, system = grid.axis_names, tuple(name for name in ("system",) if name in dataset["responses"].dims)

    def field(name: str, component: str) -> Tensor:
        values = dataset[name] if component in dataset[name].dims else dataset[name].expand_dims(component)
        return torch.tensor(np.ascontiguousarray(values.transpose(*system, "pair", component, *space).to_numpy()))

    def deviation(name: str) -> Any:
        if name not in dataset:
            return None
        values = dataset[name].to_numpy()
        return torch.tensor(values) if values.ndim else float(values)

    mask = field("mask", "response_component") if "mask" in dataset else None
    loads, responses = field("loads", "load_component"), field("responses", "response_component")
    return Pairs(grid, loads, responses, mask, deviation("noise"), deviation("load_noise"))


def predictions(
    kernel: Any, loads: Float[Tensor, "pair component *space"], *, units: Units | None = None, band: float | None = None
) -> "xarray.Dataset":
    """Loads and predicted responses of one system; with `band`, also both ends of the band of this level."""
    units, axes = units or UNKNOWN, ("pair", "response_component")
    with torch.no_grad():
        fields = {"responses": kernel @ loads}
        if band is not None:
            if kernel.bands is None:
                raise PairsError(expected="a kernel with bands", got=type(kernel).__name__, remedy="leave out band")
            fields["low"], fields["high"] = kernel.band(loads, level=band)
    variables = {name: _field(field, axes, units.response, kernel.grid) for name, field in fields.items()}
    variables["loads"] = _field(loads, ("pair", "load_component"), units.load, kernel.grid)
    dataset = _dataset(variables, kernel.grid, units.length, None)
    return dataset if band is None else dataset.assign_attrs(band=band)


def discovery_dataset(discovery: Discovery) -> "xarray.Dataset":
    """The fields of a discovery: coefficient with its band, identifiability, phases."""
    material, measurement = discovery.material, discovery.measurement
    space = discovery.kernel.grid.axis_names
    variables = {
        name: (space, np.asarray(values), {"units": material.unit if name.startswith("coefficient") else "1"})
        for name, values in fields_of(discovery).items()
    }
    dataset = _dataset(variables, discovery.kernel.grid, measurement.units.length, measurement.origin)
    return dataset.assign_attrs(
        quantity=material.quantity, level=material.level, calibrated=int(material.calibrated),
        weights=discovery.estimator, statements="\n".join(statements(discovery)),
    )  # fmt: skip


def open_xarray(
    archive: Archive | str | os.PathLike[str], *, options: dict[str, Any] | None = None
) -> "xarray.Dataset":
    """A whole archive; values are read, and their checksums checked, when they are used. Needs no dask.

    Axes of components have a name per variable, since loads, responses and hidden fields may have different ones.
    """
    with needing("xarray", extra="measurements"):
        import xarray as xr
    opened = archive if isinstance(archive, Archive) else open_archive(archive, options=options)
    store = opened.zarr_store()
    arrays = opened.layout.keys() - set(AXES)
    variables: dict[str, Any] = {}
    for name in sorted(arrays):
        others = sorted(arrays - {name})
        alone = xr.open_zarr(store, consolidated=False, chunks=None, mask_and_scale=False, drop_variables=others)
        variables |= _named(alone[name])
    coordinates = _coordinates(opened.grid, "1", None)
    dataset = xr.Dataset(variables, coords=coordinates, attrs={"problem": opened.plan.recipe.problem})
    parts = np.empty(len(opened), dtype="U10")
    for part in opened.split["systems"]:
        parts[opened.indices(part)] = part
    return dataset.assign_coords(part=("system", parts)).assign_attrs(digest=opened.digest)


def _named(array: "xarray.DataArray") -> dict[str, Any]:
    """One array of an archive with axes, labels and units of its own."""
    name, attributes = str(array.name), dict(array.attrs)
    if name in ("parameters", "diagnostics"):
        axis = name.removesuffix("s")
        return {key: array.isel({axis: place}).variable for place, key in enumerate(attributes["names"])}
    if "component" in array.dims:
        role = {"loads": "load", "responses": "response"}.get(name, name)
        variable = array.variable.copy(deep=False)
        variable.dims = tuple(f"{role}_component" if dim == "component" else dim for dim in array.dims)
        variable.attrs = {"units": attributes["unit"], "long_name": attributes["quantity"]}
        return {name: variable, f"{role}_component": (f"{role}_component", attributes["components"])}
    return {name: array.variable}


def _field(values: Tensor, leading: tuple[str, ...], unit: str, grid: Grid) -> Any:
    return (*leading, *grid.axis_names), values.detach().cpu().numpy(), {"units": unit}


def _dataset(variables: dict[str, Any], grid: Grid, unit: str, origin: tuple[float, ...] | None) -> "xarray.Dataset":
    with needing("xarray", extra="measurements"):
        import xarray as xr
    dataset: xarray.Dataset = xr.Dataset(variables, coords=_coordinates(grid, unit, origin))
    return dataset


def _coordinates(grid: Grid, unit: str, origin: tuple[float, ...] | None) -> dict[str, Any]:
    firsts = (0.0,) * grid.dimension if origin is None else origin
    return {
        name: (name, axis.coordinates + first, {
            "units": unit, "boundary": axis.boundary.name, "length": axis.length, "origin": first,
        })
        for name, axis, first in zip(grid.axis_names, grid.axes, firsts, strict=True)
    }  # fmt: skip


def _grid_of(dataset: "xarray.Dataset") -> Grid:
    """From coordinates; `boundary` and `length` stand on them, or are taken as Dirichlet and from end to end."""
    axes = []
    for name in AXES:
        if name not in dataset["responses"].dims:
            break
        values = dataset[name].to_numpy().astype(float)
        attributes = dataset[name].attrs
        boundary = BOUNDARIES.get(attributes.get("boundary", "dirichlet"))
        steps = np.diff(values)
        if boundary is None or len(steps) < 2 or not np.allclose(steps, steps.mean(), rtol=1e-6) or steps.mean() <= 0:
            raise PairsError(
                f"coordinate {name} is no axis of a grid",
                expected=f"rising positions at equal distances, boundary among {', '.join(BOUNDARIES)}",
                got=f"steps of {steps.min():g} to {steps.max():g}, boundary {attributes.get('boundary')}",
                remedy="dataset.interp, or nipde.read for points anywhere",
            )
        extent = float(steps.mean()) * (len(values) if boundary.periodic else len(values) - 1)
        length = float(attributes.get("length", extent))
        if not np.isclose(length, extent, rtol=1e-6):
            raise PairsError(
                f"axis {name} was cut", expected=f"nodes over a length of {length:g}", got=f"{extent:g}",
                remedy=f"take the whole axis, or state what holds at the new ends: dataset[{name!r}].attrs = {{...}}",
            )  # fmt: skip
        axes.append(Axis(len(values), length, boundary))
    if not axes:
        raise PairsError(expected="axes named x, y, z", got=dataset["responses"].dims, remedy="dataset.rename(...)")
    return Grid(tuple(axes))
