"""NetCDF, classic (SciPy) and 4 (HDF5): variables and coordinates with their `units`; fill values are NaN."""

from io import BytesIO
from pathlib import Path

import h5netcdf  # noqa: F401 - xarray asks for it by name
import h5py
import xarray

from nipde.measurements.formats import Contents
from nipde.measurements.formats.hdf5 import datasets, text


def parse(path: Path, *, values: int) -> Contents:
    """Every variable of numbers; times stay numbers."""
    contents = Contents(values)
    engine = "scipy"
    if h5py.is_hdf5(path):
        engine = "h5netcdf"
        with h5py.File(path, "r") as file:
            for _ in datasets(file, []):  # refuses what is stored elsewhere
                pass
    with xarray.open_dataset(path, engine=engine, decode_times=False, cache=False) as dataset:
        for key, value in dataset.attrs.items():
            contents.note(str(key), text(value))
        for key, variable in dataset.variables.items():
            name = str(key)
            if variable.dtype.kind not in "biuf":
                contents.skipped.append(name)
                continue
            contents.reserve(name, variable.shape)
            unit = variable.attrs.get("units")
            if variable.shape:
                contents.add(name, variable.to_numpy(), unit=str(unit) if unit is not None else None)
            else:
                contents.note(name, variable.to_numpy().item())
    return contents


def _import_engines() -> None:
    """Xarray imports half of what it needs at the first file, which would be in every fork anew."""
    nothing = xarray.Dataset({"x": ("x", [0.0])})
    for engine in ("scipy", "h5netcdf"):
        xarray.open_dataset(BytesIO(nothing.to_netcdf(engine=engine)), engine=engine).close()


_import_engines()
