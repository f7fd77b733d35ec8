"""Outlines and their parts: constructors, files, areas, and that every piece of the outline has one part."""

import json

import numpy as np
import pytest
from shapely.geometry import LineString, MultiLineString, MultiPolygon, Polygon, box

from nipde.errors import GridError
from nipde.grid import Grid
from nipde.shape import REST, Shape
from tests.measurements.refused import refused

L_CORNERS = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
HOLES = [[(0.2, 0.2), (0.4, 0.2), (0.3, 0.5)], [(1.5, 0.2), (1.8, 0.2), (1.6, 0.7)]]
L_SIDES = ("bottom", "end", "step", "step", "top", "left")


def perimeter(shape):
    return shape.region.exterior.length + sum(ring.length for ring in shape.region.interiors)


def lengths(shape):
    return {name: line.length for name, line in shape.parts.items()}


def examples():
    disc = Shape.disc((0.5, 0.5), 0.3, hole=0.1, vertices=512)
    arcs = disc.with_arc("electrode 1", 0.1, 0.2).with_arc("electrode 2", 0.95, 0.05)
    return {
        "polygon": Shape.polygon(L_CORNERS, sides=L_SIDES),
        "holes": Shape.polygon(L_CORNERS, holes=HOLES),
        "rectangle": Shape.rectangle(2.0, 0.5, origin=(0.1, 0.2)),
        "ring": disc,
        "arcs": arcs,
        "function": arcs.with_part("low", lambda x, y: y < 0.31),
        "line": Shape.rectangle(1, 1).with_part("window", LineString([(0, 0.3), (0, 0.45)])),
        "around a corner": Shape.rectangle(1, 1).with_part("corner", LineString([(0.8, 0), (1, 0), (1, 0.4)])),
        "mask": Shape.of_mask(np.arange(17)[:, None] + np.arange(17) < 12, Grid.uniform(17)),
    }  # fmt: skip


@pytest.mark.parametrize("name", examples())
def test_every_piece_of_the_outline_has_one_part(name):
    shape = examples()[name]
    assert sum(lengths(shape).values()) == pytest.approx(perimeter(shape), rel=1e-12)
    parts = list(shape.parts.values())
    assert all(one.intersection(other).length < 1e-9 for k, one in enumerate(parts) for other in parts[:k])
    for ring, names in zip(shape.rings, shape.sides, strict=True):
        assert len(ring) == len(names)
        assert np.all(np.linalg.norm(np.roll(ring, -1, 0) - ring, axis=1) > 0)


# Constructors


def test_a_polygon_has_named_sides_and_numbered_holes():
    hole = [(0.2, 0.2), (0.4, 0.2), (0.4, 0.6), (0.2, 0.6)]
    shape = Shape.polygon([*L_CORNERS, L_CORNERS[0]], holes=[hole], sides=L_SIDES)  # closed rings are opened
    assert shape.region.area == pytest.approx(3 - 0.08, rel=1e-14)
    expected = {"bottom": 2, "end": 1, "step": 2, "top": 1, "left": 2, "hole 1": 1.2}
    assert lengths(shape) == pytest.approx(expected, rel=1e-14)
    assert set(Shape.polygon(L_CORNERS).parts) == {REST}
    found = shape.contains(np.array([(0.1, 0.1), (0.3, 0.4), (1.5, 1.5), (-0.1, 0.5)]))
    assert found.tolist() == [True, False, False, False]


def test_every_side_needs_a_name_or_none():
    with pytest.raises(GridError) as refused:
        Shape.polygon(L_CORNERS, sides=L_SIDES[:-1])
    assert (refused.value.expected, refused.value.got) == ("6 names of sides", 5)
    assert refused.value.remedy == "name every side"


def test_a_rectangle_has_four_sides_where_their_names_say():
    shape = Shape.rectangle(2.0, 0.5, origin=(0.1, 0.2))
    assert lengths(shape) == pytest.approx({"bottom": 2.0, "right": 0.5, "top": 2.0, "left": 0.5}, rel=1e-14)
    middles = {name: (line.centroid.x, line.centroid.y) for name, line in shape.parts.items()}
    assert middles["left"] == pytest.approx((0.1, 0.45))
    assert middles["right"] == pytest.approx((2.1, 0.45))
    assert middles["bottom"] == pytest.approx((1.1, 0.2))
    assert middles["top"] == pytest.approx((1.1, 0.7))
    assert shape.scale == pytest.approx(1.0)


@pytest.mark.parametrize("vertices", [64, 2048])
def test_a_disc_has_the_area_of_its_circles(vertices):
    shape = Shape.disc((0.5, 0.6), 0.3, hole=0.1, vertices=vertices)
    assert shape.region.area == pytest.approx(np.pi * (0.3**2 - 0.1**2), rel=1e-12)
    assert set(shape.parts) == {"rim", "hole 1"}
    # The polygon around the circle's area is longer by a share of (2π / vertices)² / 24.
    assert shape.parts["rim"].length / (2 * np.pi * 0.3) - 1 == pytest.approx(
        (2 * np.pi / vertices) ** 2 / 24, rel=0.02
    )
    assert set(Shape.disc((0.5, 0.6), 0.3).parts) == {"rim"}


def test_a_mask_gives_the_cells_of_its_nodes():
    grid = Grid.uniform(17)
    mask = np.zeros(grid.shape, dtype=bool)
    mask[0:5, 4:9] = True
    mask[2, 6] = False
    shape = Shape.of_mask(mask, grid)
    assert shape.region.area == pytest.approx(np.sum(grid.weights[mask]), rel=1e-12)
    assert set(shape.parts) == {REST, "hole 1"}
    x, y = (axis.ravel() for axis in np.broadcast_arrays(*grid.coordinates))
    inner = (x > 0) & (x < 1) & (y > 0) & (y < 1)  # nodes on the box lie on the outline
    assert np.array_equal(shape.contains(np.stack([x, y], -1))[inner], mask.ravel()[inner])


def test_a_mask_is_connected_on_any_grid():
    mask = np.zeros((21, 21), dtype=bool)
    mask[0:8, 5:15] = True
    assert Shape.of_mask(mask, Grid.uniform(21)).region.area == pytest.approx(7.5 * 10 / 400, rel=1e-12)


def test_two_regions_are_refused():
    mask = np.zeros((17, 17), dtype=bool)
    mask[2:5, 2:5] = mask[9:12, 2:5] = True
    for build in (
        lambda: Shape.of_mask(mask, Grid.uniform(17)),
        lambda: Shape.of(MultiPolygon([box(0, 0, 1, 1), box(2, 0, 3, 1)])),
    ):
        with pytest.raises(GridError) as refused:
            build()
        assert (refused.value.expected, refused.value.got) == ("one connected region", "2 regions")
        assert refused.value.remedy == "take one region at a time"
    with pytest.raises(GridError, match="expected one connected region"):
        Shape.of(Polygon())


def test_outlines_that_cross_are_refused():
    with pytest.raises(
        GridError, match=r"expected one region .*, got Self-intersection\[0\.5 0\.5\]: mend the outline"
    ):
        Shape.polygon([(0, 0), (1, 1), (1, 0), (0, 1)])
    with pytest.raises(GridError, match="expected 0 <= hole < radius"):
        Shape.disc((0.5, 0.5), 0.2, hole=0.3)


# Files


def feature(geometry, name=None):
    return {"type": "Feature", "geometry": geometry, "properties": None if name is None else {"name": name}}


SQUARE = {
    "type": "Polygon",
    "coordinates": [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]], [[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 1], [0.5, 0.5]]],
}


def test_geojson_has_a_polygon_and_named_lines(tmp_path):
    line = {"type": "LineString", "coordinates": [[0, 0.5], [0, 1.25]]}
    lines = {"type": "MultiLineString", "coordinates": [[[2, 0], [2, 0.5]], [[1.5, 2], [1, 2]]]}
    nameless = {"type": "LineString", "coordinates": [[0.5, 0], [1, 0]]}
    features = [feature(line, "inlet"), feature(SQUARE), feature(lines, "outlet"), feature(nameless)]
    path = tmp_path / "plate.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    shape = Shape.read(path)
    assert shape.region.area == pytest.approx(3.75, rel=1e-14)
    assert lengths(shape) == pytest.approx({REST: 8 - 0.75 - 1.0, "inlet": 0.75, "outlet": 1.0, "hole 1": 2.0})


@pytest.mark.parametrize("content", [SQUARE, feature(SQUARE)], ids=["geometry", "feature"])
def test_geojson_may_be_a_polygon_alone(tmp_path, content):
    path = tmp_path / "plate.json"
    path.write_text(json.dumps(content))
    assert Shape.read(str(path)).region.area == pytest.approx(3.75, rel=1e-14)


def test_geojson_with_two_polygons_is_refused(tmp_path):
    path = tmp_path / "plates.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature(SQUARE)] * 2}))
    with refused(message="plates.json", expected="one polygon", got="2", remedy="keep that of the specimen"):
        Shape.read(path)


def test_csv_holds_the_corners(tmp_path):
    path = tmp_path / "outline.CSV"
    path.write_text("x,y,comment\n" + "".join(f"{x},{y},7\n" for x, y in L_CORNERS))
    shape = Shape.read(path)
    assert np.array_equal(shape.rings[0], np.array(L_CORNERS, dtype=float))
    assert set(shape.parts) == {REST}


def test_csv_without_a_head_does_not_lose_a_corner(tmp_path):
    path = tmp_path / "outline.csv"
    path.write_text("0,0\n1,0\n1,1\n0,1\n")
    assert Shape.read(path).region.area == pytest.approx(1.0)


# Parts


def test_a_line_names_what_it_runs_along():
    shape = Shape.polygon(L_CORNERS, sides=L_SIDES).with_part("inlet", LineString([(0, 0.25), (0, 0), (0.5, 0)]))
    assert lengths(shape) == pytest.approx(
        {"bottom": 1.5, "end": 1, "step": 2, "top": 1, "left": 1.75, "inlet": 0.75}, rel=1e-12
    )
    assert shape.region.area == pytest.approx(3, rel=1e-14)
    both = shape.with_part("inlet", MultiLineString([[(2, 0.2), (2, 0.4)], [(0.1, 2), (0.3, 2)]]))
    assert lengths(both)["inlet"] == pytest.approx(0.75 + 0.4)  # a name may be given twice
    over = shape.with_part("drain", LineString([(0, 0), (0, 2)]))
    assert lengths(over)["drain"] == pytest.approx(2)
    assert lengths(over)["inlet"] == pytest.approx(0.5)
    assert "left" not in over.parts


@pytest.mark.parametrize("vertices", [100, 331])
def test_a_line_may_have_vertices_of_its_own_and_rounded_ones(vertices):
    angle = np.linspace(0.3, 2.1, vertices)
    line = LineString(np.round(np.stack([30 + 20 * np.cos(angle), 25 + 20 * np.sin(angle)], axis=-1), 3))
    shape = Shape.disc((30, 25), 20, vertices=512).with_part("heater", line)
    assert shape.parts["heater"].geom_type == "LineString"
    assert lengths(shape)["heater"] == pytest.approx(20 * 1.8, rel=1e-4)


def test_a_line_with_too_few_corners_is_refused():
    angle = np.linspace(0.3, 2.1, 6)
    line = LineString(np.stack([30 + 20 * np.cos(angle), 25 + 20 * np.sin(angle)], axis=-1))
    with pytest.raises(GridError, match="as many corners as the outline"):
        Shape.disc((30, 25), 20, vertices=512).with_part("heater", line)


def test_a_function_names_where_it_is_true():
    shape = Shape.disc((0.5, 0.5), 0.3, hole=0.1).with_part("upper", lambda x, y: y > 0.5)
    assert lengths(shape)["upper"] == pytest.approx(np.pi * (0.3 + 0.1), rel=2e-3)  # pieces of 0.001 of the size
    left = Shape.rectangle(1, 1).with_part("lower left", lambda x, y: (x < 1e-9) & (y < 1 / 3))
    assert lengths(left)["lower left"] == pytest.approx(1 / 3, abs=1e-3)
    assert lengths(left)["bottom"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("start", "end", "share"), [(0.1, 0.35, 0.25), (0.9, 0.15, 0.25), (0.75, 1.0, 0.25), (0, 1, 1)]
)
def test_an_arc_is_a_share_of_the_outer_ring(start, end, share):
    for shape in (Shape.disc((0.5, 0.5), 0.3, hole=0.1, vertices=256), Shape.rectangle(1.0, 1.0)):
        arc = shape.with_arc("arc", start, end)
        assert lengths(arc)["arc"] == pytest.approx(share * shape.region.exterior.length, rel=1e-9)
        assert sum(lengths(arc).values()) == pytest.approx(perimeter(shape), rel=1e-12)
        assert arc.region.area == pytest.approx(shape.region.area, rel=1e-12)


def test_an_arc_across_the_start_holds_the_first_vertex():
    arc = Shape.disc((0.5, 0.5), 0.3, vertices=256).with_arc("arc", 0.9, 0.1)
    middle = arc.parts["arc"].centroid
    assert middle.x > 0.7
    assert middle.y == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("piece", "got"),
    [
        (LineString([(0.2, 0.1), (0.4, 0)]), "an end at 0.1 from it"),
        (LineString([(0.2, 0), (1, 0.5)]), "nothing of it"),
        (LineString([(0.2, 0), (1, 0), (0.8, 0.5), (1, 1)]), "43% of it"),
        (lambda x, y: x > 5, "nothing of it"),
    ],
    ids=["end inside", "chord", "shortcut", "function"],
)
def test_lines_off_the_outline_are_refused(piece, got):
    with pytest.raises(GridError) as refused:
        Shape.rectangle(1, 1).with_part("inlet", piece)
    assert refused.value.got == got
    assert "on the outline" in refused.value.expected
    assert refused.value.remedy
