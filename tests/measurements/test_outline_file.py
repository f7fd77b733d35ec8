"""Outlines from pictures that pillow writes, and what all files with outlines have in common."""

import subprocess
import sys
from math import pi

import numpy as np
import pytest
from PIL import Image, ImageDraw

from nipde.errors import MeasurementError
from nipde.measurements.outline import PartDescription
from nipde.measurements.outline_file import FORMATS, read_outline
from nipde.measurements.read import read
from nipde.measurements.sandbox import Limits
from tests.measurements.refused import refused


def picture(path, *, size=(400, 240), ground=255, specimen=0, mode="L"):
    """A plate of 300 × 160 pixels, 50 from the left and 30 from the top, with a hole of radius 40."""
    image = Image.new(mode, size, ground)
    draw = ImageDraw.Draw(image)
    draw.rectangle((50, 30, 349, 189), fill=specimen)
    draw.ellipse((110, 70, 190, 150), fill=ground)
    image.save(path)
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plate.png", {}),
        ("plate.tif", {}),
        ("plate.bmp", {"ground": 20, "specimen": 230}),
        ("plate.png", {"mode": "1", "ground": 1}),
        ("plate.png", {"mode": "RGB", "ground": "white", "specimen": "navy"}),
        ("plate.png", {"mode": "I;16", "ground": 65000, "specimen": 900}),
        ("plate.png", {"mode": "RGBA", "ground": (0, 0, 0, 0), "specimen": (0, 0, 0, 255)}),
    ],
)
def test_a_silhouette_keeps_its_holes(tmp_path, name, options):
    found = read_outline(picture(tmp_path / name, **options), pixel="0.1 mm")
    assert found.unit == "mm"
    shape = found.shape.with_sides()
    assert set(shape.parts) == {"left", "bottom", "right", "top", "hole 1"}
    np.testing.assert_allclose(shape.region.bounds, [5, 5, 35, 21], atol=1e-9)
    hole = shape.parts["hole 1"]
    assert hole.length == pytest.approx(2 * pi * 4.05, rel=0.01)
    assert shape.region.area == pytest.approx(30 * 16 - pi * 4.05**2, rel=3e-3)
    assert hole.centroid.coords[0] == pytest.approx((15.05, 24 - 11.05), abs=0.05)


def test_camera_coordinates_run_downwards(tmp_path):
    found = read_outline(picture(tmp_path / "plate.png"), pixel="1 px")
    assert found.unit is None
    np.testing.assert_allclose(found.shape.region.bounds, [50, 30, 350, 190])


def test_a_slanted_side_is_straight_and_as_long_as_it_is(tmp_path):
    image = Image.new("L", (600, 600), 255)
    ImageDraw.Draw(image).polygon([(50, 500), (550, 420), (300, 40)], fill=0)
    image.save(tmp_path / "triangle.png")
    region = read_outline(tmp_path / "triangle.png", pixel="1 mm").shape.region
    sides = [np.hypot(500, 80), np.hypot(250, 380), np.hypot(250, 460)]
    assert region.length == pytest.approx(sum(sides), rel=0.01)


def grey(path):
    Image.linear_gradient("L").save(path)


def specks(path):
    picture(path)
    with Image.open(path) as image:
        image.putpixel((10, 10), 0)
        image.save(path)


def cut_off(path):
    image = Image.new("L", (100, 100), 255)
    ImageDraw.Draw(image).rectangle((0, 0, 60, 99), fill=0)
    image.save(path)


@pytest.mark.parametrize(
    ("write", "fields"),
    [
        (grey, {"expected": "dark and light", "remedy": "black"}),
        (specks, {"expected": "one specimen", "got": "2 regions"}),
        (cut_off, {"expected": "background along the border", "remedy": "margin"}),
        (lambda path: Image.new("L", (9, 9)).save(path), {"got": "nothing"}),
        (lambda path: path.write_bytes(b"no picture"), {"expected": "a picture"}),
        (lambda path: Image.new("F", (9, 9)).save(path, format="TIFF"), {"got": "32 bits"}),
    ],
)
def test_pictures_without_one_region_are_refused(tmp_path, write, fields):
    write(tmp_path / "plate.png")
    with refused(**fields):
        read_outline(tmp_path / "plate.png", pixel="0.1 mm")


@pytest.mark.parametrize(("pixel", "got"), [(None, "none"), ("0 mm", "0 mm"), ("2 px", "2 px"), ("fine", "fine")])
def test_the_size_of_a_pixel_must_be_given(tmp_path, pixel, got):
    with refused(got=got):
        read_outline(picture(tmp_path / "plate.png"), pixel=pixel)


def test_a_picture_with_more_pixels_than_allowed_is_refused_by_its_declared_size(tmp_path):
    with refused(expected="at most 1,000 more values", got="96,000"):
        read_outline(picture(tmp_path / "plate.png"), pixel="1 mm", limits=Limits(values=1000))


@pytest.mark.parametrize("content", ["[" * 100_000, '{"type": "Polygon"', '{"type": "Point", "coordinates": [0, 0]}'])
def test_hostile_geojson_is_refused(tmp_path, content):
    (tmp_path / "plate.geojson").write_text(content)
    with pytest.raises(MeasurementError):
        read_outline(tmp_path / "plate.geojson")


def test_readers_of_outlines_import_neither_torch_nor_each_others_libraries():
    for format in FORMATS:
        program = f"import sys, {format.module}; print('torch' in sys.modules, 'meshio' in sys.modules)"
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert said.stdout.split() == ["False", "False"], said.stderr


def test_a_layer_is_refused(tmp_path):
    with refused(message="layer", expected="a dxf file", got=".png"):
        read_outline(picture(tmp_path / "plate.png"), layer="CUT", pixel="1 mm")


def test_a_measurement_in_pixels_of_the_camera_or_in_millimetres(tmp_path):
    picture(tmp_path / "plate.png")
    parts = {"left": PartDescription("dirichlet")}
    x, y = np.meshgrid(np.linspace(52, 348, 15), np.linspace(160, 188, 6), indexing="ij")  # below the hole
    units = {"x": "px", "load": "W/mm^2", "response": "K"}
    for unit, points in (("px", (x, y)), ("mm", (0.1 * x, 24 - 0.1 * y))):
        rows = [f"{a},{b},1,{a}" for a, b in zip(*(one.ravel() for one in points), strict=True)]
        (tmp_path / "points.csv").write_text("\n".join(["x,y,load,response", *rows]))
        (tmp_path / "plate.toml").write_text(f"""
files = "points.csv"
outline = "plate.png"
outline_pixel = "{"1 px" if unit == "px" else "0.1 mm"}"
{'scale = "0.1 mm/px"' if unit == "px" else ""}
[units]
x = "{unit}"
load = "W/mm^2"
response = "K"
[parts]
left = "dirichlet"
""")
        found = read(tmp_path / "plate.toml")
        assert found.specimen is not None
        assert found.specimen.shape.region.area == pytest.approx(480 - pi * 4.05**2, rel=3e-3)
        assert "outside" not in found.interpretation()
    options = {"outline": tmp_path / "plate.png", "outline_pixel": "1 mm", "parts": parts}
    with refused(expected="points", remedy="same unit"):
        read(tmp_path / "points.csv", units={**units, "x": "mm"}, **options)
