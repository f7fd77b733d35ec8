"""The files that `discovery.save(folder)` writes: fields, kernel, predictor, summary, report page and their digests."""

import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from itertools import chain, product
from pathlib import Path
from typing import Any, cast

import numpy as np

from nipde.atomic import atomic_folder
from nipde.discovery.discovery import Discovery, check_text
from nipde.discretisation.parts import Specimen
from nipde.errors import IntegrityError, NipdeError, needing
from nipde.kernels.base import Kernel
from nipde.kernels.refined import RefinedKernel
from nipde.prism import Prism
from nipde.report.faulty_readings import faulty_pairs, faulty_sensors
from nipde.report.interior import identifiable_share, interior_share, known_share, measured_share
from nipde.report.kernel_factors import Factors, factors_of, save_program
from nipde.report.page.page import flat, page
from nipde.report.phases import fit_summary
from nipde.report.statements import statements

Arrays = dict[str, np.ndarray]
#: Version of the layout of summary.json.
VERSION = 2
#: The files of a discovery, and the list of their SHA-256, which `sha256sum -c` reads, too.
NAMES = (
    "kernel.npz", "microstructure.csv", "microstructure.npz", "microstructure.vtk", "predictor.pt2", "report.html",
    "summary.json",
)  # fmt: skip
DIGESTS = "SHA256SUMS"
#: The files of a plane solid.
SOLID_NAMES = ("modulus.csv", "modulus.npz", "report.html", "summary.json")
#: Cells of a grid in the words of meshio, and the order of their corners, by dimension.
CELLS = {1: ("line", [0, 1]), 2: ("quad", [0, 2, 3, 1]), 3: ("hexahedron", [0, 4, 6, 2, 1, 5, 7, 3])}


def save(discovery: Discovery, folder: str | Path, *, dense: bool = False) -> Path:
    """Write all files or none; `dense` also stores the kernel as a matrix. Returns the folder.

    An earlier discovery in this folder is replaced; a folder with anything else is refused.
    """
    check_folder(folder)
    check_texts(discovery)
    kernel, positions = discovery.kernel, discovery.measurement.positions
    with atomic_folder(Path(folder).resolve()) as place:
        fields, factors = fields_of(discovery), factors_of(kernel)
        stored: dict[str, Any] = {**positions, **fields, "unit": discovery.material.unit}
        np.savez_compressed(place / "microstructure.npz", **stored)
        write_csv(place / "microstructure.csv", discovery, positions, fields)
        write_vtk(place / "microstructure.vtk", positions, fields)
        stored = {"left": factors.left, "right": factors.right, **positions}
        if dense:
            stored["dense"] = kernel.dense().detach().cpu().numpy()
        np.savez_compressed(place / "kernel.npz", **stored)
        save_program(kernel, factors, place / "predictor.pt2")
        text = json.dumps(summary(discovery, factors), indent=1, ensure_ascii=False, allow_nan=False)
        (place / "summary.json").write_text(text + "\n", encoding="utf-8")
        (place / "report.html").write_text(page(discovery), encoding="utf-8")
        write_digests(place, NAMES)
    return Path(folder)


def write_digests(place: Path, names: Sequence[str]) -> None:
    """SHA-256 of files, as `sha256sum -c` reads them."""
    (place / DIGESTS).write_bytes(b"".join(_digest_line(place / name) for name in names))


def check_folder(folder: str | Path, *, names: Sequence[str] = NAMES) -> None:
    """Raise unless a discovery can be saved here: no such folder yet, an empty one, or an earlier discovery."""
    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise NipdeError(expected="a folder to save to", got=f"the file {place}", remedy="choose another name")
    inside = {path.name for path in place.iterdir()} if place.is_dir() else set()
    foreign = sorted(inside - {*names, DIGESTS})
    if inside and (foreign or "summary.json" not in inside):
        got = f"{place} with {foreign[0]}" if foreign else f"{place} without summary.json"
        raise NipdeError(expected="a new folder, or one of an earlier discovery", got=got, remedy="choose another name")


def check_texts(discovery: Discovery) -> None:
    """Raise unless all names, units and notes can be written as UTF-8."""
    measurement, material = discovery.measurement, discovery.material
    record: dict[str, object] = {
        "estimator": discovery.estimator, "quantity": material.quantity, "unit": material.unit,
        "method": discovery.phases.method, "units": vars(measurement.units), "statements": statements(discovery),
        "notes": list(map(str, measurement.notes)), "sources": list(map(vars, measurement.sources)),
        "baselines": [one.name for one in discovery.baselines], "loads": discovery.recommended_loads.names,
        "provenance": discovery.provenance,
    }  # fmt: skip
    check_text(*chain.from_iterable(flat(record)))


def is_discovery(folder: str | Path) -> bool:
    """Whether there are files of a discovery, damaged ones included."""
    return any((Path(folder) / name).is_file() for name in (*NAMES, *SOLID_NAMES, DIGESTS))


def problems(folder: str | Path) -> list[IntegrityError]:
    """Every file of a discovery that is not as it was written, one error each."""
    place = Path(folder)
    written = (place / DIGESTS).read_bytes() if (place / DIGESTS).is_file() else b""
    names = SOLID_NAMES if b"  modulus.npz\n" in written else NAMES
    lines = {name: _digest_line(place / name) if (place / name).is_file() else b"" for name in names}
    damaged = [name for name, line in lines.items() if not line or line not in written] if written else [DIGESTS]
    if not damaged and written != b"".join(lines.values()):
        damaged = [DIGESTS]
    return [
        IntegrityError(
            name, expected="the bytes that were saved", got="others" if (place / name).is_file() else "no such file",
            remedy="run the identification again",
        )
        for name in damaged
    ]  # fmt: skip


def _digest_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n".encode()


def fields_of(discovery: Discovery) -> Arrays:
    """All fields by name."""
    material, phases, pairs = discovery.material, discovery.phases, discovery.measurement.pairs
    measured = np.ones(material.values.shape)
    if pairs.mask is not None:
        measured = pairs.mask.expand_as(pairs.responses).double().mean((0, 1)).cpu().numpy()
    return {
        "coefficient": material.values,
        "coefficient_low": material.low,
        "coefficient_high": material.high,
        "identifiable": material.identifiable,
        "phase": np.asarray(phases.labels, dtype=np.float64),
        "phase_probability": np.asarray(phases.probability),
        "measured_share": measured,
    }


def summary(discovery: Discovery, factors: Factors) -> dict[str, Any]:
    """The numbers of a discovery; `schema()` describes each of them."""
    measurement, kernel, material, phases = (
        discovery.measurement, discovery.kernel, discovery.material, discovery.phases,
    )  # fmt: skip
    interior, coverage = kernel.interior, discovery.coverage
    pairs, held_out, loads, test = (
        measurement.pairs, discovery.held_out, discovery.recommended_loads, kernel.outlier_test
    )  # fmt: skip
    return {
        "version": VERSION,
        "statements": list(statements(discovery)),
        "coverage": {"covered": coverage.covered, "reasons": list(coverage.reasons)},
        "units": {**vars(measurement.units), "coefficient": material.unit},
        "grid": {**kernel.grid.to_dict(), "origin": list(measurement.origin)},
        "specimen": specimen_summary(measurement.specimen),
        "pairs": {
            "count": pairs.count,
            "noise": None if pairs.noise is None else float(pairs.noise),
            "measured_share": measured_share(discovery),
        },
        "coefficient": {
            "name": material.quantity,
            "median": float(np.median(material.values[interior])),
            "level": material.level,
            "calibrated": material.calibrated,
            "median_low": float(np.median(material.low[interior])),
            "median_high": float(np.median(material.high[interior])),
            "identifiable_share": identifiable_share(discovery),
            "known_share": known_share(discovery),
        },
        "phases": {
            "method": phases.method,
            "thresholds": list(phases.thresholds),
            "medians": list(phases.medians),
            "shares": [interior_share(kernel, phases.labels == number) for number in range(len(phases.medians))],
            "uncertain_share": interior_share(kernel, phases.uncertain),
        },
        "layers": layers_summary(kernel),
        "faulty_sensors": faulty_sensors(discovery),
        "faulty_pairs": faulty_pairs(discovery),
        "outlier_test": None
        if test is None
        else {
            "is_outlier": bool(test.is_outlier),
            "threshold": test.threshold,
            "z_scores": {name: _finite(float(score)) for name, score in test.scores.items()},
        },
        "held_out": None
        if held_out is None
        else {
            "pairs": list(held_out.indices),
            "errors": [float(error) for error in held_out.errors],
            "mean_error": float(held_out.errors.mean()),
            "check": None if held_out.check is None else {"fails": held_out.check.fails, **vars(held_out.check)},
        },
        "baselines": [
            {"name": one.name, "held_out_error": _finite(one.held_out_error), "seconds": one.seconds}
            for one in discovery.baselines
        ],
        "recommended_loads": [
            {"name": name, "gain": float(gain)} for name, gain in zip(loads.names, loads.gains, strict=True)
        ],
        "kernel": {"rank": len(factors.left), "truncation_error": factors.truncation_error},
        "notes": [{"kind": note.kind, "text": str(note)} for note in measurement.notes],
        "provenance": discovery.provenance,
    }


def layers_summary(kernel: Kernel) -> dict[str, Any] | None:
    """Direction, interfaces and values of a material that varies in one direction only; None of others."""
    found = (fit_summary(kernel) or {}).get("layers")
    if found is None:
        return None
    factor = float(cast(RefinedKernel, kernel).factor)
    return {
        "direction": found["direction"], "deviation": found["deviation"],
        "interfaces": found.get("interfaces", []), "values": [factor * one for one in found.get("values", [])],
    }  # fmt: skip


def specimen_summary(specimen: Specimen | None) -> dict[str, Any] | None:
    """Area and conditions; None if it fills the box."""
    if specimen is None:
        return None
    parts = {part: specimen.condition(part).name for part in specimen.shape.parts}
    heights = {"heights": [specimen.shape.low, specimen.shape.high]} if isinstance(specimen.shape, Prism) else {}
    return {"area": specimen.shape.region.area, **heights, "parts": parts}


def schema() -> dict[str, Any]:
    """JSON schema of summary.json."""
    content: dict[str, Any] = json.loads((files("nipde.report") / "summary.schema.json").read_text())
    return content


def write_csv(path: Path, discovery: Discovery, positions: Arrays, fields: Arrays) -> None:
    """One row per node of the specimen: its position and all fields; units stand in the header."""
    points = np.meshgrid(*positions.values(), indexing="ij")
    table = np.column_stack([column.reshape(-1) for column in (*points, *fields.values())])
    if discovery.measurement.specimen is not None:
        table = table[discovery.kernel.interior.reshape(-1)]
    lengths = [f"{name} [{discovery.measurement.units.length}]" for name in positions]
    others = [f"{name} [{discovery.material.unit if name.startswith('coefficient') else 1}]" for name in fields]
    np.savetxt(
        path, table, delimiter=",", header=",".join((*lengths, *others)), comments="", fmt="%.9g", encoding="utf-8"
    )


def write_vtk(path: Path, positions: Arrays, fields: Arrays) -> None:
    """All fields at the nodes, for ParaView."""
    with needing("meshio", extra="report"):
        import meshio
    points = np.stack([axis.reshape(-1) for axis in np.meshgrid(*positions.values(), indexing="ij")], -1)
    points = np.pad(points, ((0, 0), (0, 3 - points.shape[1])))
    nodes = np.arange(len(points)).reshape([len(axis) for axis in positions.values()])
    sides = product((slice(None, -1), slice(1, None)), repeat=nodes.ndim)
    kind, order = CELLS[nodes.ndim]
    cells = np.stack([nodes[side].reshape(-1) for side in sides], -1)[:, order]
    values = {name: np.ascontiguousarray(field, dtype=float).reshape(-1) for name, field in fields.items()}
    meshio.Mesh(points, [(kind, cells)], point_data=values).write(path, file_format="vtk42")


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
