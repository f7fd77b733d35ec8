"""Does every format read as documented? Real files of each, in five states, read and compared with what was written.

Clean: values to 1e-12. Missing: the mask bit by bit. Irregular: values near those of the function that was sampled, the
mask where the points allow one. Sentinel: the mask again, and a warning if nobody was told. Unit-less: refused.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.description import Description
from nipde.measurements.measurement import Measurement
from nipde.measurements.read import read

SEED = 2718
CASES = ("clean", "missing", "irregular", "sentinel", "unit-less")
REQUIRED = ("npz", "mat", "hdf5", "csv", "vtk", "vic")
FORMATS = (*REQUIRED, "netcdf", "dice")
#: Nodes, lengths in mm, pairs, and points of the irregular case.
NODES, LENGTHS, PAIRS, POINTS = (13, 9), (6.0, 4.0), 3, 700
SENTINEL, MISSING, PIXEL = -999.0, 0.3, 0.05
UNITS = {"x": "mm", "load": "N/mm^2", "response": "mm"}


@dataclass(frozen=True, eq=False)
class Specimen:
    """What is written: fields at points, True where a response is there."""

    where: np.ndarray
    loads: np.ndarray
    responses: np.ndarray
    valid: np.ndarray
    lattice: bool

    @property
    def marked(self) -> np.ndarray:
        """Responses with the agreed number where nothing was measured."""
        return np.where(self.valid, self.responses, SENTINEL)

    @property
    def gappy(self) -> np.ndarray:
        """Responses with NaN where nothing was measured."""
        return np.where(self.valid, self.responses, np.nan)


def measure(*, quick: bool) -> dict[str, Any]:
    """One row for every format and case; `quick` takes the required formats only."""
    rng = np.random.default_rng(SEED)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for format in REQUIRED if quick else FORMATS:
            for case in CASES:
                place = Path(folder) / f"{format}-{case}"
                place.mkdir()
                passed, detail = _tried(format, case, place, rng)
                rows.append({"format": format, "case": case, "passed": bool(passed), "detail": detail})
    required = [row for row in rows if row["format"] in REQUIRED]
    return {
        "rows": rows,
        "required": len(required),
        "required_passed": sum(row["passed"] for row in required),
        "passed": sum(row["passed"] for row in rows),
    }


def _tried(format: str, case: str, folder: Path, rng: np.random.Generator) -> tuple[bool, str]:
    specimen = _specimen(rng, irregular=case == "irregular", gaps=case in ("missing", "sentinel"))
    files = WRITERS[format](folder, specimen, case)
    if case == "unit-less":
        try:
            read(files, description=_description(format, case, told=False))
        except MeasurementError as error:
            named = files[0].name in str(error) and ("units=" in str(error) or "scale=" in str(error))
            return named, str(error).replace(f"{folder}/", "")
        return False, "read without units"
    result = read(files, description=_description(format, case, told=True))
    if case == "irregular":
        return _judged_irregular(result, specimen)
    passed, detail = _judged_lattice(result, specimen)
    if passed and case == "sentinel" and format not in ("vic", "dice"):
        silent = read(files, description=replace(_description(format, case, told=True), missing=()))
        warned = [note.text for note in silent.notes if note.kind == "warning" and "missing = -999" in note.text]
        return bool(warned), f"{detail}; untold: {warned[0] if warned else 'no warning'}"
    return passed, detail


def _specimen(rng: np.random.Generator, *, irregular: bool, gaps: bool) -> Specimen:
    """Two components, so that cameras have both; other formats use the first."""
    if irregular:
        where = rng.uniform(0, 1, (POINTS, 2)) * LENGTHS
    else:
        lines = [np.linspace(0, length, nodes) for length, nodes in zip(LENGTHS, NODES, strict=True)]
        where = np.stack([axis.ravel() for axis in np.meshgrid(*lines, indexing="ij")], axis=1)
    responses = np.stack([[_response(where, pair, component) for component in (0, 1)] for pair in range(PAIRS)])
    loads = np.stack([np.cos((pair + 1) * where[:, 0]) + where[:, 1] for pair in range(PAIRS)])
    valid = rng.random(responses[:, :1].shape) >= MISSING if gaps else np.ones(responses[:, :1].shape, dtype=bool)
    return Specimen(where, loads, responses, np.repeat(valid, 2, axis=1), lattice=not irregular)


def _response(where: np.ndarray, pair: int, component: int) -> np.ndarray:
    angles = np.pi * where / LENGTHS
    return 0.1 * (pair + 1) * np.sin(angles[..., 0]) * np.sin(angles[..., 1]) * (1 + component * where[..., 0])


def _judged_lattice(result: Measurement, specimen: Specimen) -> tuple[bool, str]:
    pairs = result.pairs
    components = pairs.components[0]
    shape = (PAIRS, components, *NODES)
    if pairs.grid.shape != NODES or tuple(pairs.responses.shape) != shape:
        return False, f"grid {pairs.grid}, responses {tuple(pairs.responses.shape)}"
    truth, valid = (array[:, :components].reshape(shape) for array in (specimen.responses, specimen.valid))
    mask = np.ones(shape, dtype=bool) if pairs.mask is None else np.broadcast_to(pairs.mask.numpy(), shape)
    if not np.array_equal(mask, valid):
        return False, f"{int(np.sum(mask != valid))} wrong bits of the mask"
    gap = float(np.abs(pairs.responses.numpy() - truth)[mask].max() / np.abs(truth).max())
    if components == 1:
        gap = max(gap, float(np.abs(pairs.loads.numpy().reshape(specimen.loads.shape) - specimen.loads).max()))
    right = all(abs(a.length - b) < 1e-9 for a, b in zip(pairs.grid.axes, LENGTHS, strict=True))
    return gap <= 1e-12 and right, f"largest difference {gap:.1e}, mask equal"


def _judged_irregular(result: Measurement, specimen: Specimen) -> tuple[bool, str]:
    """Nodes inside the hull and near a point have a value, others have none; errors within those of straight lines."""
    from scipy.spatial import ConvexHull

    pairs, components = result.pairs, result.pairs.components[0]
    nodes = np.stack([x.ravel() for x in pairs.grid.coordinates], axis=1) + result.origin
    spacing = float(np.sqrt(np.prod(np.ptp(specimen.where, axis=0)) / len(specimen.where)))
    nearest = np.linalg.norm(nodes[:, None] - specimen.where, axis=-1).min(axis=1)
    planes = ConvexHull(specimen.where).equations
    beyond = (nodes @ planes[:, :2].T + planes[:, 2]).max(axis=1)
    wanted = (nearest <= 1.5 * spacing) & (beyond <= 0)
    unsure = np.abs(beyond) < 1e-9
    mask = np.zeros(wanted.shape, dtype=bool) if pairs.mask is None else pairs.mask[0, 0].numpy().ravel()
    wrong = int(np.sum((mask != wanted) & ~unsure))
    truth = np.stack([[_response(nodes, pair, c) for c in range(components)] for pair in range(PAIRS)])
    error = np.abs(pairs.responses.numpy().reshape(truth.shape) - truth)[..., mask].max()
    bound = (1.5 * spacing) ** 2 * np.abs(truth).max() * (np.pi / min(LENGTHS)) ** 2
    passed = wrong == 0 and mask.mean() > 0.5 and error <= bound
    return (
        passed,
        f"{wrong} wrong bits of the mask, error {error:.1e} of at most {bound:.1e}, {mask.mean():.0%} measured",
    )


def _description(format: str, case: str, *, told: bool) -> Description:
    nodes = NODES if case == "irregular" else ()
    loads = {"kind": "sine", "waves": [1, 1], "amplitude": 1.0}
    table: dict[str, Any] = {}
    if format in ("vic", "dice"):
        table = {"loads": [{**loads, "amplitude": float(pair + 1)} for pair in range(PAIRS)]}
        table["units"] = {"load": "N/mm^2"} if format == "dice" else UNITS if told else {"load": "N/mm^2"}
        table |= {"scale": f"{PIXEL} mm/px"} if format == "dice" and told else {}
    elif format == "vtk" and told:
        table = {"units": UNITS}
    missing = (SENTINEL,) if case == "sentinel" and format not in ("vic", "dice") else ()
    return replace(Description.from_dict(table), nodes=nodes, missing=missing)


def _named_arrays(specimen: Specimen, responses: np.ndarray) -> dict[str, np.ndarray]:
    """As people keep them: vectors and fields on a lattice, columns otherwise."""
    fields = {"loads": specimen.loads, "responses": responses[:, 0]}
    if not specimen.lattice:
        return {"x": specimen.where[:, 0], "y": specimen.where[:, 1], **fields}
    lines = {name: np.unique(specimen.where[:, place]) for place, name in enumerate("xy")}
    return {**lines, **{name: field.reshape(PAIRS, *NODES) for name, field in fields.items()}}


def _contents(specimen: Specimen, case: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    arrays = _named_arrays(specimen, specimen.marked if case == "sentinel" else specimen.gappy)
    units = {"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"}
    return arrays, {} if case == "unit-less" else units


def _npz(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    import json

    arrays, units = _contents(specimen, case)
    stated = {"units": np.array(json.dumps(units))} if units else {}
    np.savez(folder / "measured.npz", allow_pickle=False, **arrays, **stated)
    return [folder / "measured.npz"]


def _mat(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    """Gaps as a mask of their own, with numbers below it."""
    from scipy.io import savemat

    arrays, units = _contents(specimen, case)
    if case == "missing":
        arrays = {**_named_arrays(specimen, specimen.responses)}
        arrays["mask"] = specimen.valid[:, 0].reshape(arrays["responses"].shape).astype(np.uint8)
    savemat(folder / "measured.mat", {**arrays, **({"units": units} if units else {})})
    return [folder / "measured.mat"]


def _hdf5(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    import h5py

    arrays, units = _contents(specimen, case)
    with h5py.File(folder / "measured.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
            if name in units:
                file[name].attrs["units"] = units[name]
    return [folder / "measured.h5"]


def _netcdf(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    import xarray

    arrays, units = _contents(specimen, case)
    space = ("x", "y") if specimen.lattice else ("point",)
    axes = {"x": space[:1], "y": space[-1:], "loads": ("pair", *space), "responses": ("pair", *space)}
    variables = {name: (axes[name], array, {"units": units[name]} if units else {}) for name, array in arrays.items()}
    xarray.Dataset(variables).to_netcdf(folder / "measured.nc", engine="h5netcdf")
    return [folder / "measured.nc"]


def _csv(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    """A long table, rows in no order, cells empty where nothing was measured."""
    responses = specimen.marked if case == "sentinel" else specimen.gappy
    units = ("", "", "", "") if case == "unit-less" else (" [mm]", " [mm]", " [N/mm^2]", " [mm]")
    head = "pair," + ",".join(f"{name}{unit}" for name, unit in zip(("x", "y", "load", "response"), units, strict=True))
    rows = [
        f"{pair + 1},{x!r},{y!r},{float(specimen.loads[pair, point])!r},"
        + ("" if np.isnan(value := responses[pair, 0, point]) else repr(float(value)))
        for pair in range(PAIRS)
        for point, (x, y) in enumerate(specimen.where.tolist())
    ]
    order = np.random.default_rng(SEED).permutation(len(rows))
    (folder / "measured.csv").write_text("\n".join([head, *(rows[place] for place in order)]) + "\n")
    return [folder / "measured.csv"]


def _vtk(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    """A wide table of fields on points."""
    import meshio

    responses = specimen.marked if case == "sentinel" else specimen.gappy
    fields = {f"load_{pair + 1}": specimen.loads[pair] for pair in range(PAIRS)}
    fields |= {f"response_{pair + 1}": responses[pair, 0] for pair in range(PAIRS)}
    points = np.column_stack([specimen.where, np.zeros(len(specimen.where))])
    cells = [("vertex", np.arange(len(points))[:, None])]
    meshio.Mesh(points, cells, point_data=fields).write(folder / "measured.vtk", file_format="vtk", binary=True)
    return [folder / "measured.vtk"]


def _vic(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    """One frame per pair; lost points are rows left out, or rows whose sigma is -1."""
    files = []
    for pair in range(PAIRS):
        rows = ["x,y,u,v,X,Y,Z,U,V,W,sigma"]
        for point, (x, y) in enumerate(specimen.where.tolist()):
            there = bool(specimen.valid[pair, 0, point])
            if there or case != "missing":
                u, v = specimen.responses[pair, :, point].tolist() if there else (0.0, 0.0)
                pixels = f"{round(x / PIXEL)},{round(y / PIXEL)},{u / PIXEL:.6f},{v / PIXEL:.6f}"
                rows.append(f"{pixels},{x!r},{y!r},0,{u!r},{v!r},0,{0.01 if there else -1}")
        files.append(folder / f"frame_{pair + 1}.csv")
        files[-1].write_text("\n".join(rows) + "\n")
    return files


def _dice(folder: Path, specimen: Specimen, case: str) -> list[Path]:
    """One frame per pair in pixels; lost points have sigma -1, or a flag of failure."""
    files = []
    for pair in range(PAIRS):
        rows = ["COORDINATE_X COORDINATE_Y DISPLACEMENT_X DISPLACEMENT_Y SIGMA STATUS_FLAG"]
        for point, (x, y) in enumerate(specimen.where.tolist()):
            there = bool(specimen.valid[pair, 0, point])
            u, v = specimen.responses[pair, :, point].tolist()
            sigma = -1 if case == "sentinel" and not there else 0.01
            flag = 5 if case == "missing" and not there else 4
            rows.append(f"{x / PIXEL!r} {y / PIXEL!r} {u / PIXEL!r} {v / PIXEL!r} {sigma} {flag}")
        files.append(folder / f"DICe_solution_{pair + 1}.txt")
        files[-1].write_text("\n".join(rows) + "\n")
    return files


WRITERS: dict[str, Callable[[Path, Specimen, str], list[Path]]] = {
    "npz": _npz, "mat": _mat, "hdf5": _hdf5, "csv": _csv, "vtk": _vtk, "vic": _vic, "netcdf": _netcdf, "dice": _dice,
}  # fmt: skip
