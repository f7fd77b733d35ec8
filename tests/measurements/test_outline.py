"""Files with an outline: shape, parts, loads on them, sensors; and what is refused."""

import json

import numpy as np
import pytest

from nipde.discretisation.parts import DirichletPart, NeumannPart, RobinPart
from nipde.errors import MeasurementError
from nipde.measurements.outline import PartDescription
from nipde.measurements.read import read
from nipde.shape import Shape
from tests.measurements.refused import refused

#: A plate of 4 × 2 with a round hole.
HOLE = [(2 + 0.5 * np.cos(t), 1 + 0.5 * np.sin(t)) for t in np.linspace(0, 2 * np.pi, 64, endpoint=False)]
PLATE = [(0, 0), (4, 0), (4, 2), (0, 2)]
HELD = {"left": PartDescription("dirichlet")}


def ring(points):
    return [list(map(float, point)) for point in (*points, points[0])]


@pytest.fixture
def plate(tmp_path):
    polygon = {"type": "Polygon", "coordinates": [ring(PLATE), ring(HOLE)]}
    (tmp_path / "plate.geojson").write_text(json.dumps({"type": "Feature", "properties": {}, "geometry": polygon}))
    return tmp_path


def table(folder, points, *, loads=True, name="plate.csv", pairs=3):
    """f = 1 + x - 2 y and u = pair + x, which need not be a solution here."""
    head = "pair,x,y" + (",load" if loads else "") + ",response"
    rows = [
        f"{pair},{x},{y}{f',{1 + x - 2 * y}' if loads else ''},{pair + x}"
        for pair in range(1, pairs + 1)
        for x, y in points
    ]
    (folder / name).write_text("\n".join([head, *rows]) + "\n")
    return folder / name


def lattice(step=0.25):
    x, y = (part.ravel() for part in np.meshgrid(np.arange(0, 4.01, step), np.arange(0, 2.01, step), indexing="ij"))
    away = np.hypot(x - 2, y - 1) > 0.5 - 1e-9
    return np.stack([x[away], y[away]], axis=-1)


UNITS = {"x": "m", "load": "W/m^2", "response": "K"}


def test_a_lattice_keeps_its_nodes_and_its_values(plate):
    found = read(table(plate, lattice()), units=UNITS, outline=plate / "plate.geojson", parts=HELD)
    grid, specimen = found.pairs.grid, found.specimen
    assert grid.spacing == pytest.approx((0.25, 0.25))
    assert found.origin == pytest.approx((-0.25, -0.25))
    assert grid.shape == (19, 11)
    assert set(specimen.shape.parts) == {"left", "right", "bottom", "top", "hole 1"}
    assert isinstance(specimen.condition("left"), DirichletPart)
    assert isinstance(specimen.condition("hole 1"), NeumannPart)
    points = found.readings.sensors.points + found.origin
    assert len(points) == len(lattice())
    np.testing.assert_allclose(found.readings.readings[1], 2 + points[:, 0])
    # Loads are a plane: they go on beyond the points.
    x, y = (place + first for place, first in zip(grid.coordinates, found.origin, strict=True))
    np.testing.assert_allclose(found.pairs.loads[0, 0], 1 + x - 2 * y, atol=1e-9)
    assert not found.pairs.mask[0, 0][~torch_mask(specimen, grid)].any()
    assert not found.readings.outline


def torch_mask(specimen, grid):
    return specimen.shape.holds_nodes(grid)


def test_scattered_points_are_sensors_on_a_grid_of_our_own(plate):
    rng = np.random.default_rng(0)
    points = rng.uniform((0, 0), (4, 2), (60, 2))
    points = points[np.hypot(*(points - (2, 1)).T) > 0.5]
    found = read(table(plate, points), units=UNITS, outline=plate / "plate.geojson", parts=HELD)
    assert len(found.readings.sensors) == len(points)
    steps = np.array(found.pairs.grid.spacing)
    assert np.all((steps > 0.05) & (steps < 0.15))
    chosen = read(table(plate, points), units=UNITS, outline=plate / "plate.geojson", parts=HELD, nodes=(41, 21))
    assert chosen.pairs.grid.spacing == pytest.approx((0.1, 0.1))


def test_units_of_the_coordinates_are_those_of_the_outline(plate):
    found = read(table(plate, lattice()), units={**UNITS, "x": "mm"}, outline=plate / "plate.geojson", parts=HELD)
    assert found.specimen.shape.region.area == pytest.approx(8 - np.pi / 4, rel=2e-3)
    assert "mm" in found.interpretation()


def description(folder, text):
    path = folder / "plate.toml"
    path.write_text('files = ["plate.csv"]\noutline = "plate.geojson"\n' + text)
    return read(path, units=UNITS)


def test_conditions_and_loads_on_parts_from_a_description(plate):
    table(plate, lattice(), loads=False)
    found = description(plate, """
        [parts]
        left = { dirichlet = 2.0 }
        right = { flux = 3.0 }
        "hole 1" = { robin = 12.0, value = 20.0 }
        [[loads]]
        kind = "flux"
        part = "right"
        flux = 5.0
        pair = 1
        [[loads]]
        kind = "value"
        part = "left"
        value = 1.0
        slope = [0.0, 4.0]
        pair = 2
        [[loads]]
        kind = "flux"
        part = "top"
        flux = "500 mW/m"
        pair = 3
        """)  # fmt: skip
    assert found.specimen.condition("hole 1") == RobinPart(12.0)
    first, second, third = found.readings.outline
    assert first.fluxes == {"right": 8.0}
    assert first.values == {"left": 2.0, "hole 1": 20.0}
    # y is measured from the first node, a spacing below the plate.
    assert second.values["left"](np.zeros(1), np.array([0.25]))[0] == pytest.approx(3.0)
    assert second.values["left"](np.zeros(1), np.array([0.75]))[0] == pytest.approx(5.0)
    assert third.fluxes == {"right": 3.0, "top": 0.5}
    assert not found.pairs.loads.any()
    text = found.interpretation()
    assert "Part 'left', 2 m long: Dirichlet, u = 2, and what is described for each test." in text
    assert "Part 'bottom', 4 m long: Neumann, flux 0." in text
    assert " 0 % of them missing" in text  # nothing inside is missing


def test_amounts_of_loads_on_parts_come_from_a_table(plate):
    table(plate, lattice(), loads=False)
    (plate / "amounts.csv").write_text("current\n1\n2\n-3\n")
    found = description(plate, """
        amounts = "amounts.csv"
        [parts]
        left = "dirichlet"
        [[loads]]
        kind = "flux"
        part = "right"
        flux = 2.0
        amount = "current"
        """)  # fmt: skip
    assert [case.fluxes["right"] for case in found.readings.outline] == [2.0, 4.0, -6.0]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({}, "a part whose value is given"),
        ({"right": PartDescription("neumann", 3.0)}, "a part whose value is given"),
        ({"lefft": PartDescription("dirichlet")}, "left"),
    ],
)
def test_parts_that_say_too_little_are_refused(plate, parts, says):
    with pytest.raises(MeasurementError, match=says):
        read(table(plate, lattice()), units=UNITS, outline=plate / "plate.geojson", parts=parts)


def test_points_of_another_unit_are_refused_and_few_strays_left_out(plate):
    with pytest.raises(MeasurementError, match="same unit"):
        read(table(plate, 1000 * lattice()), units=UNITS, outline=plate / "plate.geojson", parts=HELD)
    with pytest.raises(MeasurementError, match="same unit"):
        read(table(plate, 0.001 * lattice()), units=UNITS, outline=plate / "plate.geojson", parts=HELD)
    points = np.vstack([lattice(), [(2.0, 1.0)]])
    found = read(table(plate, points), units=UNITS, outline=plate / "plate.geojson", parts=HELD)
    assert len(found.readings.sensors) == len(lattice())
    assert "1 points lie outside of the outline" in found.interpretation()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[parts]\nleft = "clamped"', "condition of a part"),
        ("[parts]\nleft = { dirichlet = 1.0, flux = 2.0 }", "condition of a part"),
        ('[parts]\nleft = "dirichlet"\n[[loads]]\nkind = "side"\nside = "right"\n', 'part = "right"'),
        ('[parts]\nleft = "dirichlet"\n[[loads]]\nkind = "point"\nposition = [2.0, 1.0]\n', "inside of the outline"),
        ('[parts]\nleft = "dirichlet"\n[[loads]]\nkind = "flux"\npart = "left"\n', "fluxes on a NeumannPart"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(plate, text, says):
    table(plate, lattice(), loads=False, pairs=1)
    boundary = 'boundary = "neumann"\n'
    with pytest.raises(Exception, match=says) as caught:
        description(plate, boundary + text)
    assert type(caught.value).__module__ == "nipde.errors"


def test_parts_without_an_outline_are_refused(plate):
    with pytest.raises(MeasurementError, match="outline"):
        read(table(plate, lattice()), units=UNITS, parts=HELD)


def test_meshes_have_an_outline(tmp_path):
    meshio = pytest.importorskip("meshio")
    x, y = np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij")
    number = np.arange(12).reshape(4, 3)
    quads = np.stack([part.ravel() for part in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:])], 1)
    points = np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=-1)
    meshio.Mesh(points, [("quad", np.delete(quads, 2, axis=0))]).write(tmp_path / "bracket.vtk")
    shape = Shape.read(tmp_path / "bracket.vtk").with_sides()
    assert shape.region.area == pytest.approx(5.0)
    assert {"left", "right", "bottom", "top"} <= set(shape.parts)
    (tmp_path / "other.vtk").write_text("no mesh")
    with refused(expected="meshio reads"):
        Shape.read(tmp_path / "other.vtk")
    with refused(expected="a file", got="nothing"):
        Shape.read(tmp_path / "none.geojson")
