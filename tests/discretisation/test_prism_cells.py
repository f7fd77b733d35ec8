"""Cells of prisms: what they hold, boxes on grid lines, orders of convergence, and both ways to solve."""

import numpy as np
import pytest

from nipde.boundary import Neumann
from nipde.discretisation import links as links_module
from nipde.discretisation.domain import domain_of
from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.link_solver import MultigridInverse, inverse_of
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, NeumannPart, RobinPart, Specimen, Terminal
from nipde.discretisation.prism_cells import prism_cells
from nipde.errors import GridError
from nipde.grid import Axis, Grid
from nipde.physics.conduction import Conduction
from nipde.physics.darcy import Darcy
from nipde.prism import Prism
from nipde.shape import Shape

CORE = Prism.over(Shape.disc((0.5, 0.5), 0.4), low=0.07, high=0.93)
KINDS = {"D": DirichletPart(), "N": NeumannPart(), "R": RobinPart(2.0)}


def box(nodes):
    return Grid(tuple(Axis(nodes, 1.0, Neumann()) for _ in range(3)))


def exact(x, y, z):
    return np.cos(1.3 * x + 0.4) * np.sin(1.7 * y + 0.3) * np.cos(2.1 * z - 0.5)


def gradient(x, y, z):
    waves = (1.3 * x + 0.4, 1.7 * y + 0.3, 2.1 * z - 0.5)
    (cx, cy, cz), (sx, sy, sz) = (tuple(map(one, waves)) for one in (np.cos, np.sin))
    return np.stack([-1.3 * sx * sy * cz, 1.7 * cx * cy * cz, -2.1 * cx * sy * sz], axis=-1)


def error(nodes, rim, ends):
    """Root mean square at points in a core, b = 2; loads, values and fluxes are those of a known solution."""
    conditions = dict(zip(("rim", "back", "front"), (KINDS[one] for one in rim + ends), strict=True))
    domain = domain_of(box(nodes), Specimen(CORE, conditions))
    cells, links = domain.cells, domain.links
    conductances = cells.conductances(np.full(cells.points().shape[:-1], 2.0))
    pieces = cells.pieces
    free = np.array([isinstance(conditions[part], NeumannPart) for part in pieces.part], dtype=bool)
    flux = 2 * np.sum(gradient(*pieces.middle.T) * pieces.normal, axis=1) * pieces.length
    load = 2 * (1.3**2 + 1.7**2 + 2.1**2) * exact(*cells.nodes.T) * domain.volume.ravel()
    np.add.at(load, pieces.cell[free], flux[free])
    given = np.zeros(len(links.first))
    for part, condition in conditions.items():
        if not isinstance(condition, NeumannPart):
            mine, places = cells.links_to(part)
            given[mine] = exact(*places.T)
            if isinstance(condition, RobinPart):
                given[mine] += gradient(*places.T)[:, 2] * (1 if part == "front" else -1)
    difference = links.difference[:, links.unknown]
    right = load[links.unknown] + difference.T @ (conductances * given)
    found = inverse_of(links, conductances).solve(right[:, None])
    nodes_of = (domain.to_nodes @ found)[:, 0] + domain.from_given @ given
    rng = np.random.default_rng(0)
    angle, away, height = 2 * np.pi * rng.random(400), 0.4 * np.sqrt(rng.random(400)), rng.uniform(0.07, 0.93, 400)
    points = np.stack([0.5 + away * np.cos(angle), 0.5 + away * np.sin(angle), height], axis=-1)
    return np.sqrt(np.mean((multilinear(domain.grid, points) @ nodes_of - exact(*points.T)) ** 2))


@pytest.mark.parametrize(
    ("rim", "ends"), [("D", "DD"), ("N", "DD"), ("N", "DN"), ("D", "NN"), ("N", "DR"), ("D", "RR")]
)
def test_errors_fall_with_the_square_of_the_spacing(rim, ends):
    errors = [error(nodes, rim, ends) for nodes in (11, 41)]
    assert errors[1] < 3e-4
    assert np.log(errors[0] / errors[1]) / np.log(4) > 1.7


def test_cells_hold_the_volume_and_pieces_the_surface():
    cells = prism_cells(box(14), CORE, {})
    height = CORE.high - CORE.low
    assert np.sum(cells.measure) == pytest.approx(CORE.region.area * height, rel=1e-10)
    parts = np.array(cells.pieces.part)
    for part, area in (("rim", CORE.base.parts["rim"].length * height), ("back", CORE.region.area)):
        assert np.sum(cells.pieces.length[parts == part]) == pytest.approx(area, rel=1e-9)
    assert np.all(cells.active.ravel()[cells.pieces.cell])


def test_a_box_on_grid_lines_is_that_of_the_rectangle():
    inner = Grid(tuple(Axis(nodes, nodes - 1.0) for nodes in (7, 6, 8)))
    outer = Grid(tuple(Axis(axis.nodes + 2, axis.length + 2, Neumann()) for axis in inner.axes))
    shape = Shape.rectangle(6, 5, origin=(1, 1))
    held = dict.fromkeys(("left", "right", "bottom", "top", "back", "front"), DirichletPart())
    domain = domain_of(outer, Specimen(Prism.over(shape, low=1, high=8), held))
    conductances = domain.cells.conductances(np.full(domain.cells.points().shape[:-1], 3.0))
    loads = np.random.default_rng(0).standard_normal(inner.shape)
    expected = Darcy(inner, np.full(inner.shape, 3.0)).solve(loads[None])[0]
    moments = np.pad(loads, 1).ravel()[domain.links.unknown]
    found = domain.to_nodes @ inverse_of(domain.links, conductances).solve(moments[:, None])
    inside = (slice(2, -2),) * 3
    np.testing.assert_allclose(found.reshape(outer.shape)[inside], expected[1:-1, 1:-1, 1:-1], atol=1e-9)


def test_multigrid_solves_what_factors_do(monkeypatch):
    specimen = Specimen(CORE, {"back": DirichletPart(), "rim": RobinPart(5.0)})
    domain = domain_of(box(11), specimen)
    assert not domain.links.too_large
    rng = np.random.default_rng(1)
    coefficient = np.exp(rng.standard_normal(domain.cells.points().shape[:-1]))
    conductances, right = domain.cells.conductances(coefficient), rng.standard_normal((len(domain.links.unknown), 3))
    matrix = domain.links.assemble(conductance=conductances)
    assert abs(matrix - matrix.T).max() == 0
    direct = inverse_of(domain.links, conductances).solve(right)
    monkeypatch.setattr(links_module, "FACTORED", 10)
    iterated = inverse_of(domain.links, conductances)
    assert isinstance(iterated, MultigridInverse)
    np.testing.assert_allclose(iterated.solve(right), direct, atol=1e-8 * np.abs(direct).max())


def test_what_flows_in_flows_out():
    specimen = Specimen(CORE, {"back": DirichletPart()})
    domain = domain_of(box(12), specimen)
    conductances = domain.cells.conductances(np.full(domain.cells.points().shape[:-1], 1.5))
    flow = LoadCase(fluxes={"front": 2.0, "rim": lambda x, y, z: x + z}).inflow(domain.cells)
    found = inverse_of(domain.links, conductances).solve(flow[domain.links.unknown][:, None])[:, 0]
    ends, _ = domain.cells.links_to("back")
    out = np.sum((conductances * (domain.links.difference[:, domain.links.unknown] @ found))[ends])
    middle = 0.5 * (CORE.low + CORE.high)
    expected = 2 * CORE.region.area + (0.5 + middle) * 2 * np.pi * 0.4 * (CORE.high - CORE.low)
    assert out == pytest.approx(flow.sum(), rel=1e-9)
    assert out == pytest.approx(expected, rel=1e-3)


def test_a_core_between_two_electrodes_has_the_resistance_of_its_layers():
    ends = {"back": Terminal(0.2), "front": Terminal(0.3)}
    law = Conduction(prism_cells(box(13), CORE, ends), lambda x, y, z: np.where(z < 0.5, 2.0, 4.0))
    potentials = law.solve(LoadCase(totals={"back": -1.5, "front": 1.5})).terminals
    layers = (0.5 - CORE.low) / 2.0 + (CORE.high - 0.5) / 4.0
    expected = 1.5 * (0.2 + layers + 0.3) / CORE.region.area
    assert potentials["front"] - potentials["back"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Prism.over(CORE.base, low=1, high=1), "the lower one first"),
        (lambda: Prism.over(Shape.polygon([(0, 0), (1, 0), (0, 1)], sides=("back", "a", "b")), low=0, high=1), "back"),
        (lambda: prism_cells(Grid.uniform(9), CORE, {}), "a grid of three axes"),
        (lambda: prism_cells(box(9), Prism.over(CORE.base, low=0.1, high=2), {}), "heights within 0 … 1"),
        (lambda: prism_cells(box(9), Prism.over(CORE.base, low=0.4, high=0.5), {}), "three or more nodes"),
        (lambda: prism_cells(box(9), CORE, {"lid": DirichletPart()}), "parts among rim, back, front"),
    ],
)
def test_errors_name_what_is_wrong(make, words):
    with pytest.raises(GridError, match=words):
        make()


def test_points_and_nodes_of_a_prism():
    points = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.95], [0.5, 0.91, 0.5], [0.5, 0.5, 0.07]])
    assert CORE.contains(points).tolist() == [True, False, False, False]
    assert CORE.covers(points).tolist() == [True, False, False, True]
    held = CORE.holds_nodes(box(11))
    places = np.stack([x[held] for x in box(11).coordinates], axis=-1)
    assert CORE.covers(places).all()
    assert held.sum() == 9 * CORE.base.holds_nodes(Grid.uniform(11)).sum()
    moved = CORE.transformed(scale=(2, 2, 2), shift=(1, 1, 1))
    assert (moved.low, moved.high) == pytest.approx((1.14, 2.86))
    assert moved.region.area == pytest.approx(4 * CORE.region.area)
