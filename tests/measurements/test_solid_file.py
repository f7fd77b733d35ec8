"""Files of tests on a plane solid: units, supports, loads and their directions, gaps; and what is refused."""

import hashlib
import json

import numpy as np
import pytest

from nipde.discretisation.parts import ClampedPart, GripPart, RollerPart
from nipde.errors import MeasurementError, NipdeError
from nipde.estimators.inverse.solid_inversion import SolidInversion
from nipde.measurements.solid_file import Bench, outward_normal, read_solid
from nipde.shape import Shape

#: A plate of 60 × 30 mm.
CORNERS = [(0, 0), (60, 0), (60, 30), (0, 30)]
POINTS = np.stack(np.meshgrid(np.arange(3.5, 60, 6.0), np.arange(2.5, 30, 5.0), indexing="ij"), -1).reshape(-1, 2)
HOLE = Shape.disc((40.0, 15.0), 6.0, vertices=48).rings[0]
MM = {"X": "mm", "Y": "mm", "U": "mm", "V": "mm"}
#: By 20 MPa on a bar of 3000 MPa whose Poisson's ratio is 0: the same by a traction and by a grip.
STRETCHED = np.stack([20 / 3000 * POINTS[:, 0], np.zeros(len(POINTS))], -1)
PULLED = Bench(clamped=("left",), tractions=({"right": "20 MPa"},))


def camera(folder, points=POINTS, moved=STRETCHED, *, name="camera.csv", length=1.0, moves=1.0, lost=()):
    """An export of VIC: pixels of 0.05 mm, and lengths in mm over `length` and `moves`."""
    rows = [
        f"{20 * x!r},{20 * y!r},{20 * u!r},{20 * v!r},{-1 if k in lost else 0.01},"
        f"{x / length!r},{y / length!r},{u / moves!r},{v / moves!r}"
        for k, ((x, y), (u, v)) in enumerate(zip(points.tolist(), moved.tolist(), strict=True))
    ]
    (folder / name).write_text("\n".join(["x,y,u,v,sigma,X,Y,U,V", *rows]) + "\n")
    return folder / name


def outline(folder, corners=CORNERS, *, size=1.0):
    (folder / "plate.csv").write_text("\n".join(["x,y", *(f"{size * x},{size * y}" for x, y in corners)]) + "\n")
    return folder / "plate.csv"


def geojson(folder, corners, *, holes=(), parts=None):
    rings = [[list(map(float, point)) for point in (*ring, ring[0])] for ring in (corners, *holes)]
    features = [{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": rings}}]
    for name, line in (parts or {}).items():
        geometry = {"type": "LineString", "coordinates": line}
        features.append({"type": "Feature", "properties": {"name": name}, "geometry": geometry})
    (folder / "plate.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return folder / "plate.geojson"


def read_plate(folder, bench=PULLED, *, files=None, **more):
    files = [camera(folder)] if files is None else files
    return read_solid(files, bench, **{"units": MM, "outline": outline(folder), **more})


def warnings_of(found):
    return [note.text for note in found.notes if note.kind == "warning"]


def modulus_of(found):
    """In MPa, at one point: it is the same everywhere."""
    law = SolidInversion(homogeneous=True, material=8, solver=10)(found.tests)
    return float(law.modulus_at(found.tests.points[:1])[0])


# Units


@pytest.mark.parametrize(
    ("length", "moves", "units", "unit"),
    [
        (1.0, 1.0, MM, "mm"),
        (1000.0, 1000.0, {"x": "m", "response": "m"}, "m"),
        (1.0, 0.001, {"X": "mm", "Y": "mm", "U": "um", "V": "um"}, "mm"),
        (1000.0, 1.0, {"X": "m", "Y": "m", "U": "mm", "V": "mm"}, "m"),
    ],
    ids=["mm", "m", "um", "m and mm"],
)
def test_files_of_other_units_say_the_same(tmp_path, length, moves, units, unit):
    file, plate = camera(tmp_path, length=length, moves=moves), outline(tmp_path, size=1 / length)
    found = read_solid([file], PULLED, units=units, outline=plate, noise="0.6 um")
    assert found.length == unit
    size = 1000.0 if unit == "m" else 1.0
    np.testing.assert_allclose(size * found.tests.points, POINTS, rtol=1e-9)
    np.testing.assert_allclose(size * found.tests.readings[0].T, STRETCHED, atol=1e-12)
    assert size * found.tests.noise == pytest.approx(0.0006)
    assert found.tests.loads[0].tractions["right"] == pytest.approx((20.0, 0.0))


def test_pixels_have_a_size(tmp_path):
    file = camera(tmp_path, length=0.1, moves=0.1)  # what is in X, Y, U, V is of another scale
    found = read_solid(
        [file], PULLED, units={"x": "px"}, response=("u", "v"), scale="0.05 mm/px", outline=outline(tmp_path, size=10),
    ) if False else None  # fmt: skip
    del found
    text = "\n".join(",".join(row.split(",")[:5]) for row in file.read_text().splitlines())
    (tmp_path / "pixels.csv").write_text(text)
    found = read_solid([tmp_path / "pixels.csv"], PULLED, scale="0.05 mm/px")
    assert found.length == "mm"
    np.testing.assert_allclose(found.tests.points, POINTS, rtol=1e-9)
    np.testing.assert_allclose(found.tests.readings[0].T, STRETCHED, atol=1e-12)
    with pytest.raises(MeasurementError, match="in pixels, expected the size of a pixel"):
        read_solid([tmp_path / "pixels.csv"], PULLED)
