"""Outlines from drawings that ezdxf writes, and from pictures that pillow writes."""

import subprocess
import sys
from math import cos, pi, sin, tan

import ezdxf
import numpy as np
import pytest
from PIL import Image, ImageDraw

from nipde.errors import MeasurementError, NipdeError
from nipde.measurements.outline import PartDescription
from nipde.measurements.outline_file import FORMATS, read_outline
from nipde.measurements.read import read
from nipde.measurements.sandbox import Limits
from nipde.shape import Shape
from tests.measurements.damaged_files import mutated
from tests.measurements.refused import refused

SQUARE = [(0, 0), (40, 0), (40, 20), (0, 20)]


def drawing(path, draw, *, version="R2010", units=4):
    document = ezdxf.new(version)
    document.header["$INSUNITS"] = units
    draw(document.modelspace())
    document.saveas(path)
    return path


def plate(model, *, layer="0"):
    """40 × 20 with a hole of radius 3 around (30, 10), each drawn in one piece."""
    model.add_lwpolyline(SQUARE, close=True, dxfattribs={"layer": layer})
    model.add_circle((30, 10), 3, dxfattribs={"layer": layer})


@pytest.mark.parametrize("version", ["R2000", "R2004", "R2007", "R2010", "R2018"])
def test_a_plate_with_a_hole_in_millimetres(tmp_path, version):
    found = read_outline(drawing(tmp_path / "plate.dxf", plate, version=version))
    assert found.unit == "mm"
    assert found.shape.region.area == pytest.approx(800 - pi * 9, rel=1e-5)
    assert list(found.shape.with_sides().parts) == ["bottom", "right", "top", "left", "hole 1"]


@pytest.mark.parametrize(("units", "unit"), [(0, None), (1, "inch"), (5, "cm"), (6, "m"), (13, "um")])
def test_units_are_those_of_the_header(tmp_path, units, unit):
    assert read_outline(drawing(tmp_path / "plate.dxf", plate, units=units)).unit == unit


def test_a_unit_that_nobody_measures_in_is_refused(tmp_path):
    with refused(message="$INSUNITS", got="18", remedy="one of these"):
        read_outline(drawing(tmp_path / "plate.dxf", plate, units=18))


def slot(model):
    """Two half circles by bulges: length 20 between the centres, radius 5."""
    model.add_lwpolyline([(0, 0, 0), (20, 0, 1), (20, 10, 0), (0, 10, 1)], format="xyb", close=True)


def old_slot(model):
    model.add_polyline2d([(0, 0, 0), (20, 0, 1), (20, 10, 0), (0, 10, 1)], format="xyb", close=True)


def chained_slot(model):
    """In pieces, out of order, some the other way round."""
    model.add_arc((0, 5), 5, 90, 270)
    model.add_line((20, 10), (0, 10))
    model.add_line((20, 0), (0, 0))
    model.add_arc((20, 5), 5, -90, 90)


def mirrored_slot(model):
    """Drawn from behind, as some programs do after a reflection: x turns its sign."""
    behind = {"extrusion": (0, 0, -1)}
    model.add_lwpolyline(
        [(-20, 0, 0), (0, 0, 1), (0, 10, 0), (-20, 10, 1)], format="xyb", close=True, dxfattribs=behind
    )


@pytest.mark.parametrize("draw", [slot, old_slot, chained_slot, mirrored_slot])
def test_a_slot_in_four_ways(tmp_path, draw):
    region = read_outline(drawing(tmp_path / "slot.dxf", draw)).shape.region
    assert region.area == pytest.approx(200 + pi * 25, rel=2e-5)
    assert region.length == pytest.approx(40 + pi * 10, rel=2e-5)
    np.testing.assert_allclose(region.bounds, [-5, 0, 25, 10], atol=1e-3)


@pytest.mark.parametrize("degrees", [30, 120, 200, 300, -45])
def test_a_bulge_is_the_tangent_of_a_quarter_of_the_angle(tmp_path, degrees):
    angle = np.radians(degrees)

    def draw(model):
        model.add_lwpolyline([(0, 0, tan(angle / 4)), (10, 0, 0), (5, 30, 0)], format="xyb", close=True)

    radius = 5 / abs(sin(angle / 2))
    segment = np.sign(angle) * radius**2 / 2 * (abs(angle) - sin(abs(angle)))
    assert read_outline(drawing(tmp_path / "a.dxf", draw)).shape.region.area == pytest.approx(150 + segment, rel=1e-4)


def test_ellipses_and_splines(tmp_path):
    def ellipse(model):
        model.add_ellipse((3, 4), major_axis=(3, 3), ratio=0.5)

    region = read_outline(drawing(tmp_path / "ellipse.dxf", ellipse)).shape.region
    assert region.area == pytest.approx(pi * 18 * 0.5, rel=3e-5)
    assert region.centroid.coords[0] == pytest.approx((3, 4), abs=1e-9)

    def heart(model):
        spline = model.add_rational_spline([(0, 0), (4, 0), (4, 4), (0, 4), (0, 0)], weights=[1, 2, 1, 2, 1], degree=3)
        curves.append(np.array([(point.x, point.y) for point in spline.construction_tool().approximate(4000)]))

    curves = []
    region = read_outline(drawing(tmp_path / "heart.dxf", heart)).shape.region
    x, y = curves[0].T
    assert region.area == pytest.approx(abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2, rel=1e-3)


def test_half_an_ellipse_and_a_line_are_a_ring(tmp_path):
    def draw(model):
        model.add_ellipse((0, 0), major_axis=(4, 0), ratio=0.5, start_param=0, end_param=pi)
        model.add_line((-4, 0), (4, 0))

    region = read_outline(drawing(tmp_path / "half.dxf", draw)).shape.region
    assert region.area == pytest.approx(pi * 4, rel=1e-4)
    assert region.bounds[1] == pytest.approx(0, abs=1e-9)


def layers(model):
    plate(model, layer="CUT")
    model.add_circle((100, 100), 50, dxfattribs={"layer": "JIG"})
    model.add_line((0, 0), (7, 7), dxfattribs={"layer": "AXES"})
    model.add_text("plate 7", dxfattribs={"layer": "CUT"})
    model.add_hatch(dxfattribs={"layer": "CUT"})


def test_a_layer_is_chosen_by_name(tmp_path):
    path = drawing(tmp_path / "plate.dxf", layers)
    assert read_outline(path, layer="CUT").shape.region.area == pytest.approx(800 - pi * 9, rel=1e-5)
    assert Shape.read(path, layer="JIG").region.area == pytest.approx(pi * 2500, rel=5e-5)
    with refused(got="on 2: CUT, JIG", remedy="choose the layer"):
        read_outline(path)
    with refused(message="'CUTS'", expected="CUT, JIG, AXES", remedy="did you mean CUT?"):
        read_outline(path, layer="CUTS")
    with refused(message="'AXES'", expected="closed", got="an open end at (0, 0), where 1 ends meet"):
        read_outline(path, layer="AXES")


def test_other_layers_may_hold_what_is_no_outline(tmp_path):
    def draw(model):
        plate(model, layer="CUT")
        model.add_line((0, 0), (7, 7), dxfattribs={"layer": "AXES"})

    assert len(read_outline(drawing(tmp_path / "plate.dxf", draw)).shape.rings) == 2


def gap(model):
    model.add_lwpolyline([(0, 0), (4, 0), (4, 4)])
    model.add_line((4, 4.1), (0, 0))


def crossing(model):
    plate(model)
    model.add_circle((40, 10), 3)


def island(model):
    plate(model)
    model.add_circle((30, 10), 1)


def two(model):
    model.add_circle((0, 0), 1)
    model.add_circle((5, 0), 1)


def in_a_block(model):
    block = model.doc.blocks.new("PLATE")
    plate(block)
    model.add_blockref("PLATE", (0, 0))


@pytest.mark.parametrize(
    ("draw", "fields"),
    [
        (gap, {"got": "an open end at", "remedy": "close the outline"}),
        (crossing, {"expected": "does not cross itself"}),
        (island, {"expected": "one region", "got": "nested"}),
        (two, {"expected": "one region", "got": "outside shell"}),
        (in_a_block, {"got": "INSERT", "remedy": "explode"}),
        (lambda model: None, {"expected": "closed outlines", "got": "none"}),
        (
            lambda model: model.add_lwpolyline([(0, 0), (1, 1), (1, 0), (0, 1)], close=True),
            {"got": "Self-intersection"},
        ),
    ],
)
def test_drawings_without_one_region_are_refused(tmp_path, draw, fields):
    with refused(**fields):
        read_outline(drawing(tmp_path / "plate.dxf", draw))


def test_binary_drawings_and_texts_are_refused(tmp_path):
    document = ezdxf.new()
    plate(document.modelspace())
    document.saveas(tmp_path / "plate.dxf", fmt="bin")
    with refused(got="binary DXF", remedy="ASCII"):
        read_outline(tmp_path / "plate.dxf")
    (tmp_path / "note.dxf").write_text("the plate\nis long\n")
    with refused(message="line 1", expected="a group code"):
        read_outline(tmp_path / "note.dxf")


def test_damaged_drawings_are_read_or_refused(tmp_path):
    document = ezdxf.new("R12")
    chained_slot(document.modelspace())
    document.saveas(tmp_path / "slot.dxf")
    lines = (tmp_path / "slot.dxf").read_text().splitlines()
    content = "\n".join(lines[lines.index("ENTITIES") - 3 :]).encode()
    rng = np.random.default_rng(0)
    for _ in range(60):
        (tmp_path / "damaged.dxf").write_bytes(mutated(content, rng))
        try:
            shape = read_outline(tmp_path / "damaged.dxf").shape
        except NipdeError:
            continue
        assert shape.region.is_valid


def test_many_pieces_do_not_take_long(tmp_path):
    def draw(model):
        places = [(cos(2 * pi * k / 4000), sin(2 * pi * k / 4000)) for k in range(4000)]
        for here, there in zip(places, [*places[1:], places[0]], strict=True):
            model.add_line(here, there)

    found = read_outline(drawing(tmp_path / "circle.dxf", draw), limits=Limits(seconds=3.0))
    assert found.shape.region.area == pytest.approx(pi, rel=1e-5)


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


def test_options_of_other_files_are_refused(tmp_path):
    with refused(message="layer", expected="a dxf file", got=".png"):
        read_outline(picture(tmp_path / "plate.png"), layer="CUT", pixel="1 mm")
    with refused(message="pixel", expected="a silhouette file", got=".dxf"):
        read_outline(drawing(tmp_path / "plate.dxf", plate), pixel="1 mm")


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


def table(folder):
    """Readings on the plate in m: u = x, the left side is held."""
    x, y = np.meshgrid(np.linspace(0, 0.04, 9), np.linspace(0, 0.02, 5), indexing="ij")
    rows = [f"{a},{b},1,{a}" for a, b in zip(x.ravel(), y.ravel(), strict=True)]
    path = folder / "points.csv"
    path.write_text("\n".join(["x,y,load,response", *rows]))
    return path


def test_a_measurement_in_metres_with_a_drawing_in_millimetres(tmp_path):
    outline = drawing(tmp_path / "plate.dxf", layers)
    found = read(
        table(tmp_path), units={"x": "m", "load": "W/m^2", "response": "K"}, outline=outline, outline_layer="CUT",
        parts={"left": PartDescription("dirichlet")},
    )  # fmt: skip
    assert found.specimen is not None
    assert found.specimen.shape.region.area == pytest.approx((800 - pi * 9) * 1e-6, rel=1e-5)


def test_a_description_names_layer_and_pixel(tmp_path):
    drawing(tmp_path / "plate.dxf", layers)
    table(tmp_path)
    text = 'files = "points.csv"\noutline = "plate.dxf"\noutline_layer = "CUT"\n[units]\nx = "m"\nload = "W/m^2"\n'
    (tmp_path / "plate.toml").write_text(text + 'response = "K"\n[parts]\nleft = "dirichlet"\n')
    specimen = read(tmp_path / "plate.toml").specimen
    assert specimen is not None
    assert len(specimen.shape.rings) == 2
    image = Image.new("L", (60, 40), 255)
    ImageDraw.Draw(image).rectangle((0, 20, 39, 39), fill=0)
    # the plate is in the lower left corner: half of the border is dark
    image.save(tmp_path / "plate.png")
    (tmp_path / "picture.toml").write_text(
        text.replace("plate.dxf", "plate.png").replace('outline_layer = "CUT"', 'outline_pixel = "1 mm"')
        + 'response = "K"\n[parts]\nleft = "dirichlet"\n'
    )
    with refused(expected="background along the border"):
        read(tmp_path / "picture.toml")
    assert "plate.dxf" in read(tmp_path / "plate.toml").interpretation()
