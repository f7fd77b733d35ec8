"""The outline of a plane mesh that meshio reads, such as .msh, .vtk or .inp: `ring 0` outside, the others are holes."""

from pathlib import Path

import meshio
import numpy as np
import shapely

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents
from nipde.measurements.formats.geojson import add_rings


def parse(path: Path, *, values: int) -> Contents:
    """Of triangles and quadrilaterals together."""
    contents = Contents(values)
    try:
        mesh = meshio.read(path)
    except (Exception, SystemExit) as error:
        raise MeasurementError(
            expected="GeoJSON, a .csv of corners, DXF, an image, or a mesh that meshio reads",
            got=str(error).split("\n")[0] or type(error).__name__, remedy="export the outline again",
        ) from error  # fmt: skip
    corners = [mesh.points[block.data[:, : 3 if "triangle" in block.type else 4], :2]
               for block in mesh.cells if block.type.startswith(("triangle", "quad"))]  # fmt: skip
    if not corners:
        raise MeasurementError(expected="triangles or quadrilaterals", got="none", remedy="export a plane mesh")
    add_rings(shapely.union_all(np.concatenate([np.asarray(shapely.polygons(each)) for each in corners])), contents)
    return contents
