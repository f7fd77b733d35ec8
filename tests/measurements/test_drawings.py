"""Outlines from drawings that ezdxf writes."""

from math import cos, pi, sin, tan

import numpy as np
import pytest

from nipde.errors import NipdeError
from nipde.measurements.outline import PartDescription
from nipde.measurements.outline_file import read_outline
from nipde.measurements.read import read
from nipde.measurements.sandbox import Limits
from nipde.shape import Shape
from tests.measurements.damaged_files import mutated
from tests.measurements.refused import refused

ezdxf = pytest.importorskip("ezdxf")

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


def test_corners_that_are_drawn_twice_are_one(tmp_path):
    def draw(model):
        model.add_lwpolyline([*SQUARE, SQUARE[0], SQUARE[0]], close=True)

    shape = read_outline(drawing(tmp_path / "plate.dxf", draw)).shape
    assert len(shape.rings[0]) == 4


def test_a_polyline_that_ends_where_it_began_is_closed(tmp_path):
    def draw(model):
        model.add_lwpolyline([*SQUARE, (1e-9, 0)])

    assert read_outline(drawing(tmp_path / "plate.dxf", draw)).shape.region.area == pytest.approx(800)


def there_and_back(model):
    model.add_line((0, 0), (4, 0))
    model.add_line((4, 0), (0, 0))


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
        (there_and_back, {"expected": "three or more corners"}),
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


def test_the_size_of_a_pixel_is_refused(tmp_path):
    with refused(message="pixel", expected="a silhouette file", got=".dxf"):
        read_outline(drawing(tmp_path / "plate.dxf", plate), pixel="1 mm")


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
    assert "Coordinates of the outline are in mm." in found.interpretation()
    assert found.specimen.shape.region.area == pytest.approx((800 - pi * 9) * 1e-6, rel=1e-5)


def test_a_description_names_the_layer(tmp_path):
    drawing(tmp_path / "plate.dxf", layers)
    table(tmp_path)
    text = 'files = "points.csv"\noutline = "plate.dxf"\noutline_layer = "CUT"\n[units]\nx = "m"\nload = "W/m^2"\n'
    (tmp_path / "plate.toml").write_text(text + 'response = "K"\n[parts]\nleft = "dirichlet"\n')
    specimen = read(tmp_path / "plate.toml").specimen
    assert specimen is not None
    assert len(specimen.shape.rings) == 2
    assert "plate.dxf" in read(tmp_path / "plate.toml").interpretation()
