"""VTK, legacy and .vtu: x, y, z of the points and their fields; if points have none, of cells, at their centres."""

from pathlib import Path
from typing import Any

import meshio
import numpy as np

from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.formats import Contents


def parse(path: Path, *, values: int) -> Contents:
    """Columns of one length; a field of several components is one column each, `name_0`, `name_1`, ..."""
    mesh = _mesh(path)
    places, fields = mesh.points, mesh.point_data
    contents = Contents(values)
    if not fields and mesh.cell_data:
        places = np.concatenate([_centres(mesh.points, block.data) for block in mesh.cells])
        fields = {name: np.concatenate(blocks) for name, blocks in mesh.cell_data.items()}
    else:
        contents.skipped += list(mesh.cell_data)
    for name, column in zip(AXES, np.asarray(places).T, strict=False):
        _column(name, column, len(places), contents)
    for name, field in fields.items():
        columns = np.reshape(field, (len(field), -1)).T
        for component, column in enumerate(columns):
            _column(name if len(columns) == 1 else f"{name}_{component}", column, len(places), contents)
    return contents


def _mesh(path: Path) -> Any:
    with path.open("rb") as file:
        start = file.read(4096)
    if b"<VTKFile" not in start:
        return meshio.vtk.read(path)
    if b"<!" in start.replace(b"<!--", b""):
        raise MeasurementError(expected="plain XML", got="a document type with entities")
    return meshio.vtu.read(path)


def _centres(points: np.ndarray, cells: Any) -> np.ndarray:
    if not isinstance(cells, np.ndarray):  # polygons, each with corners of its own number
        return np.concatenate([_centres(points, np.atleast_2d(cell)) for cell in cells])
    if cells.size == 0 or cells.min() < 0 or cells.max() >= len(points):
        raise MeasurementError(expected=f"cells between points 0 and {len(points) - 1}", got="others")
    return points[cells].mean(axis=1)


def _column(name: str, column: np.ndarray, count: int, contents: Contents) -> None:
    if len(column) != count:
        raise MeasurementError(f"field {name!r}", expected=f"{count} values", got=str(len(column)))
    contents.reserve(name, column.shape)
    contents.add(name, column)
