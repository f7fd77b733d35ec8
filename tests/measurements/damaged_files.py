"""Valid files of every format, what a person would say of them, and random damage to their bytes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import meshio
import numpy as np
import scipy.io
import xarray

from nipde.measurements.description import Description

Mutation = Callable[[bytes, np.random.Generator], bytes]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """One to three mutations on top of each other."""
    for _ in range(rng.integers(1, 4)):
        content = MUTATIONS[rng.integers(len(MUTATIONS))](content or b"\0", rng)
    return content


def _flip(content: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(content)
    for place in rng.integers(len(damaged), size=rng.integers(1, 9)):
        damaged[place] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def _truncate(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content))]


def _insert(content: bytes, rng: np.random.Generator) -> bytes:
    place = rng.integers(len(content))
    return content[:place] + rng.bytes(int(rng.integers(1, 17))) + content[place:]


def _copy_block(content: bytes, rng: np.random.Generator) -> bytes:
    source, target = rng.integers(len(content), size=2)
    length = int(rng.integers(1, 65))
    block = content[source : source + length]
    return content[:target] + block + content[target + len(block) :]


def _edit_header(content: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(min(len(content), 512)))
    return content[:place] + bytes([rng.choice([0x00, 0x01, 0x7F, 0x80, 0xFF])]) + content[place + 1 :]


def _extreme_number(content: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(content)))
    number = int(rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**24])).to_bytes(4, "little")
    return content[:place] + number + content[place + 4 :]


MUTATIONS: tuple[Mutation, ...] = (_flip, _truncate, _insert, _copy_block, _edit_header, _extreme_number)


def description(format: str, name: str, rng: np.random.Generator | None) -> Description:
    """What a person would say of the valid file of that name, and, with `rng`, some more at random."""
    said: dict[str, Any] = {"units": {"load": "N/mm^2"}, "scale": "0.1 mm/px", "boundary": "neumann"}
    inside = "test/" if format == "hdf5" else ""
    if format in ("npz", "mat", "hdf5", "vtk", "netcdf", "csv"):
        # The others count in pixels and say so, and their names are known.
        said["units"] |= {"x": "mm", "response": "mm"}
        said |= {"response": [f"{inside}u"], "coordinates": [f"{inside}x", f"{inside}y"]}
    if rng is not None:
        more: dict[str, Any] = {
            "nodes": [int(count) for count in rng.integers(3, 6, size=2)],
            "box": [[0, 3], [0, 2]],
            "boundary": ["neumann", "periodic"],
            "noise": "1 %",
            "rigid_motion": True,
            "zeros_missing": True,
        }
        said |= {key: value for key, value in more.items() if rng.random() < 0.2}
    frames = 2 if name == "mudic.npz" else 1
    loads = [{"kind": "constant", "pair": frame} for frame in range(1, frames + 1)]
    return Description.from_dict({**said, "loads": loads})


def valid_files(folder: Path) -> list[tuple[str, Path]]:
    """A few small files of every format, and the format of each."""
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(4.0), np.arange(3.0)))
    u = 0.1 * x
    u[5] = np.nan
    arrays = {"x": x, "y": y, "u": u}
    written: list[tuple[str, Path]] = []

    def file(format: str, name: str) -> Path:
        written.append((format, folder / name))
        return folder / name

    units = np.array(json.dumps({"x": "mm", "u": "mm"}))
    np.savez(file("npz", "plain.npz"), units=units, **arrays)
    np.savez_compressed(file("npz", "deflated.npz"), units=units, scale=0.5, **arrays)
    fields = np.stack([x, y]).reshape(1, 2, 3, 4, 1) + np.zeros(2)
    np.savez(file("mudic", "mudic.npz"), coords=fields, disp=fields - fields[..., :1])
    scipy.io.savemat(file("mat", "five.mat"), {**arrays, "units": {"x": "mm"}, "names": ["a", "b"]})
    scipy.io.savemat(file("mat", "deflated.mat"), {**arrays, "units": "mm"}, do_compression=True)
    _write_mat73(file("mat", "seven.mat"), arrays)
    plots = {"plot_u_ref_formatted": u.reshape(3, 4), "plot_v_ref_formatted": y.reshape(3, 4)}
    ncorr = {"displacements": {**plots, "roi_ref_formatted": {"mask": np.ones((3, 4), bool)}},
             "dispinfo": {"pixtounits": 0.1, "units": "mm", "spacing": 3, "cutoff_corrcoef": 0.2}}  # fmt: skip
    scipy.io.savemat(file("ncorr", "ncorr.mat"), {"data_dic_save": ncorr})
    _write_hdf5(file("hdf5", "tree.h5"), arrays)
    points = np.stack([x, y, 0 * x], axis=1)
    mesh = meshio.Mesh(points, [("quad", [[0, 1, 5, 4], [1, 2, 6, 5]])], point_data={"u": u, "w": points})
    meshio.vtk.write(file("vtk", "binary.vtk"), mesh)
    meshio.vtk.write(file("vtk", "ascii.vtk"), mesh, binary=False)
    meshio.vtu.write(file("vtk", "mesh.vtu"), mesh)
    dataset = xarray.Dataset({"u": (("y", "x"), u.reshape(3, 4), {"units": "mm"})}, {"x": x[:4], "y": y[::4]})
    dataset.to_netcdf(file("netcdf", "classic.nc"), engine="scipy")
    dataset.to_netcdf(file("netcdf", "four.nc"), engine="h5netcdf")
    _write_table(file("csv", "comma.csv"), "x [mm],y [mm],u [mm]", ",", (x, y, u))
    _write_table(file("csv", "tab.tsv"), "x (mm)\ty (mm)\tu (mm)", "\t", (x, y, u))
    _write_table(file("vic", "vic.csv"), '"x", "y", "u", "v", "sigma"', ", ", (x, y, y, y, x - 1))
    names = "COORDINATE_X,COORDINATE_Y,DISPLACEMENT_X,DISPLACEMENT_Y,SIGMA,STATUS_FLAG"
    _write_table(file("dice", "dice.txt"), f"*** Subset size: 27\n{names}", ",", (x, y, y, y, x - 1, 4 + 0 * x))
    moved = "disp.Horizontal Displacement U [mm],disp.Vertical Displacement V [mm]"
    _write_table(file("matchid", "matchid.csv"), f"coor.X [mm],coor.Y [mm],{moved}", ",", (x, y, u, u))
    names = "# SIGNALS:\n# Force : analog_input : 12.5\n# ID; x_undef [mm]; y_undef [mm]; u [mm]; v [mm]"
    _write_table(file("aramis", "aramis.txt"), names, "; ", (x, x, y, u, u))
    _write_table(file("mudic", "mudic_table.csv"), "id,x,y,ux,uy,true_strain_xx", ",", (x, x, y, u, u, u))
    return written


def _write_table(path: Path, head: str, separator: str, columns: tuple[np.ndarray, ...]) -> None:
    rows = [separator.join(f"{value:.6g}" for value in row) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([head, *rows, ""]))


def _write_hdf5(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            dataset = file.create_dataset(f"test/{name}", data=array, chunks=(6,), compression="gzip")
            dataset.attrs["units"] = "mm"


def _write_mat73(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """As MATLAB does: a block of text in front, axes in the other order, classes as attributes."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array.reshape(3, 4)).attrs["MATLAB_class"] = np.bytes_("double")
        text = file.create_dataset("units/x", data=np.frombuffer("mm".encode("utf-16-le"), np.uint16).reshape(2, 1))
        text.attrs["MATLAB_class"] = np.bytes_("char")
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
