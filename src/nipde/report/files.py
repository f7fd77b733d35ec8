"""What `nipde discover` leaves in a folder: fields, kernel, predictor, summary and page."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from nipde.discovery.discovery import UNSEEN, Discovery
from nipde.grid import Grid
from nipde.report.kernel_factors import Factors, factors_of, save_program
from nipde.report.page.page import page

#: Version of the layout of summary.json.
VERSION = 1


def save(discovery: Discovery, folder: str | Path, *, dense: bool = False) -> Path:
    """Write all files; `dense` stores every value of the kernel, too. Returns the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    kernel, grid = discovery.kernel, discovery.kernel.grid
    fields, factors = fields_of(discovery), factors_of(kernel)
    positions = discovery.measurement.positions
    stored: dict[str, Any] = {**positions, **fields, "unit": discovery.material.unit}
    np.savez_compressed(folder / "microstructure.npz", **stored)
    write_csv(folder / "microstructure.csv", discovery, positions, fields)
    write_vtk(folder / "microstructure.vtk", grid, discovery.measurement.origin, fields)
    stored = {"left": factors.left, "right": factors.right, **positions}
    if dense:
        stored["dense"] = kernel.dense().detach().cpu().numpy()
    np.savez_compressed(folder / "kernel.npz", **stored)
    save_program(kernel, factors, folder / "predictor.pt2")
    text = json.dumps(summary(discovery, factors), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.html").write_text(page(discovery), encoding="utf-8")
    return folder


def fields_of(discovery: Discovery) -> dict[str, np.ndarray]:
    """All that is known per node, by name."""
    material, phases = discovery.material, discovery.phases
    mask = discovery.measurement.pairs.mask
    measured = np.ones(material.values.shape)
    if mask is not None:
        whole = mask.expand_as(discovery.measurement.pairs.responses)
        measured = whole.double().mean((0, 1)).cpu().numpy()
    return {
        "b": material.values,
        "b_low": material.low,
        "b_high": material.high,
        "identifiable": material.identifiable,
        "phase": np.asarray(phases.labels, dtype=np.float64),
        "phase_probability": np.asarray(phases.probability),
        "measured_share": measured,
    }


def summary(discovery: Discovery, factors: Factors) -> dict[str, Any]:
    """The numbers of a discovery; `schema()` says what each of them is."""
    measurement, kernel, material, phases = (
        discovery.measurement, discovery.kernel, discovery.material, discovery.phases,
    )  # fmt: skip
    free = np.asarray(kernel.grid.unknown)
    pairs = measurement.pairs
    held_out = discovery.held_out
    alarm = None
    if kernel.trust is not None:
        alarm = {"raised": bool(kernel.alarm.raised), "reasons": kernel.alarm.reasons()}
    return {
        "version": VERSION,
        "verdict": list(discovery.verdict),
        "units": {**vars(measurement.units), "coefficient": material.unit},
        "grid": {**kernel.grid.to_dict(), "origin": list(measurement.origin)},
        "pairs": {
            "count": pairs.count,
            "noise": None if pairs.noise is None else float(pairs.noise),
            "measured_share": 1.0
            if pairs.mask is None
            else float(pairs.mask.expand_as(pairs.responses).double().mean()),
        },
        "material": {
            "median": float(np.median(material.values[free])),
            "level": material.level,
            "calibrated": material.calibrated,
            "median_low": float(np.median(material.low[free])),
            "median_high": float(np.median(material.high[free])),
            "identifiable_share": float(np.mean(material.identifiable[free] >= UNSEEN)),
        },
        "phases": {
            "method": phases.method,
            "thresholds": list(phases.thresholds),
            "levels": list(phases.levels),
            "shares": [float(np.mean(phases.labels[free] == number)) for number in range(len(phases.levels))],
            "uncertain_share": float(np.mean(phases.uncertain[free])),
        },
        "alarm": alarm,
        "held_out": None
        if held_out is None
        else {
            "pairs": list(held_out.indices),
            "errors": [float(error) for error in held_out.errors],
            "mean_error": float(held_out.errors.mean()),
        },
        "classical": [
            {"name": one.name, "held_out_error": _number(one.held_out_error), "seconds": one.seconds}
            for one in discovery.rivals
        ],
        "next_loads": [
            {"name": name, "gain": float(gain)}
            for name, gain in zip(discovery.next_loads.names, discovery.next_loads.gains, strict=True)
        ],
        "kernel": {"rank": len(factors.left), "left_out": factors.left_out},
        "notes": [vars(note) for note in measurement.notes],
        "provenance": discovery.provenance,
    }


def schema() -> dict[str, Any]:
    """JSON schema of summary.json."""
    found: dict[str, Any] = json.loads((files("nipde.report") / "summary.schema.json").read_text())
    return found


def write_csv(
    path: Path, discovery: Discovery, positions: dict[str, np.ndarray], fields: dict[str, np.ndarray]
) -> None:
    """One row per node: where it is, and all fields; units stand in the header."""
    where = np.meshgrid(*positions.values(), indexing="ij")
    table = np.column_stack([column.reshape(-1) for column in (*where, *fields.values())])
    lengths = [f"{name} [{discovery.measurement.units.length}]" for name in positions]
    others = [f"{name} [{discovery.material.unit if name.startswith('b') else 1}]" for name in fields]
    np.savetxt(path, table, delimiter=",", header=",".join((*lengths, *others)), comments="", fmt="%.9g")


def write_vtk(path: Path, grid: Grid, origin: tuple[float, ...], fields: dict[str, np.ndarray]) -> None:
    """Legacy VTK, regular points: ParaView opens it."""
    missing = 3 - grid.dimension
    lines = [
        "# vtk DataFile Version 3.0",
        "nipde: what was found inside",
        "ASCII",
        "DATASET STRUCTURED_POINTS",
        f"DIMENSIONS {' '.join(map(str, (*grid.shape, *(1,) * missing)))}",
        f"ORIGIN {' '.join(f'{value:.9g}' for value in (*origin, *(0.0,) * missing))}",
        f"SPACING {' '.join(f'{value:.9g}' for value in (*grid.spacing, *(1.0,) * missing))}",
        f"POINT_DATA {grid.size}",
    ]
    for name, field in fields.items():
        lines += [f"SCALARS {name} double 1", "LOOKUP_TABLE default"]
        lines += [f"{value:.9g}" for value in field.reshape(-1, order="F")]
    path.write_text("\n".join(lines) + "\n")


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
