"""A coefficient that jumps between nodes: second order, exact piecewise linear fields; and functions that do not."""

import numpy as np
import pytest

from benchmarks.shapes import jumping
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.fitted_interface import fitted_interface, jumps_between
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, NeumannPart, RobinPart, Terminal
from nipde.grid import Axis, Grid
from nipde.physics.conduction import Conduction
from nipde.shape import Shape
from tests.physics.test_conduction import CENTRE, RING, average_order, disc, ring

D, N = DirichletPart(), NeumannPart()


@pytest.mark.parametrize("inner", [1.0, 30.0])
@pytest.mark.parametrize(
    ("shape", "conditions"),
    [(disc, {"rim": D}), (disc, {"rim": N}), (ring, {"rim": D, "hole 1": D}), (ring, {"rim": N, "hole 1": D})],
)
def test_responses_converge_with_order_two(shape, conditions, inner):
    order, finest = average_order(shape, conditions, lambda centre: jumping(centre=centre, inner=inner))
    assert 1.8 < order < 2.3
    assert finest < 2e-3


def test_links_in_series_alone_converge_with_order_one(monkeypatch):
    monkeypatch.setattr("nipde.physics.conduction.fitted_interface", lambda *_: None)
    order, finest = average_order(disc, {"rim": D}, lambda centre: jumping(centre=centre), sizes=(21, 81))
    assert order < 1.6
    assert finest > 1e-3


def layered(angle, *, along=0.7, contrast=20.0):
    """A disc of 1 and `contrast`, and a field that is linear on both sides, of slope `along` the interface."""
    normal = np.array([np.cos(angle), np.sin(angle)])

    def beyond(x, y):
        return (x - 0.511) * normal[0] + (y - 0.487) * normal[1]

    def coefficient(x, y):
        return np.where(beyond(x, y) > 0, contrast, 1.0)

    def response(x, y):
        return along * ((y - 0.487) * normal[0] - (x - 0.511) * normal[1]) + beyond(x, y) / coefficient(x, y)

    return coefficient, response


def at_unknowns(law, response):
    """Its values at cells and where the interface meets links."""
    nodes = law.cells.nodes[law.cells.active.ravel()]
    return response(*np.concatenate([nodes, law.fitted.places]).T)


@pytest.mark.parametrize("angle", [0.0, 0.3, np.pi / 4, 2.0, -1.1])
@pytest.mark.parametrize("nodes", [(24, 24), (21, 30)])
def test_fields_with_one_flux_across_a_straight_interface_leave_no_balance(angle, nodes):
    grid = Grid(tuple(Axis(count, 1.0) for count in nodes))
    coefficient, response = layered(angle)
    law = Conduction(cut_cells(grid, Shape.disc((0.5, 0.5), 0.45, vertices=512), {"rim": D}), coefficient)
    values = at_unknowns(law, response)
    balance = law.matrix @ values
    places = np.concatenate([law.cells.nodes[law.cells.active.ravel()], law.fitted.places])
    inside = np.hypot(*(places - 0.5).T) < 0.45 - 2.5 * max(grid.spacing)
    scale = abs(law.matrix) @ np.abs(values)
    assert len(law.fitted.places) > 15
    assert inside.sum() > 150
    assert np.abs(balance[inside] / scale[inside]).max() < 1e-9


def test_the_matrix_is_symmetric_and_positive_and_its_columns_sum_to_zero():
    coefficient = jumping(centre=CENTRE, inner=30.0).coefficient
    law = Conduction(cut_cells(Grid.uniform(31), RING, {}), coefficient)
    matrix = law.matrix.toarray()
    assert np.array_equal(matrix, matrix.T)
    assert np.abs(matrix.sum(axis=0)).max() < 1e-12 * np.abs(matrix).max()
    assert np.linalg.eigvalsh(matrix)[1] > 1e-6


def test_terminals_and_robin_parts_keep_their_balance():
    shape = RING.with_arc("electrode", 0.1, 0.2).with_arc("window", 0.4, 0.6)
    conditions = {"electrode": Terminal(0.3), "window": RobinPart(2.0), "hole 1": D}
    law = Conduction(cut_cells(Grid.uniform(41), shape, conditions), jumping(centre=CENTRE).coefficient)
    data = LoadCase(np.ones(law.cells.grid.shape), values={"window": 0.7}, totals={"electrode": 0.4})
    assert len(law.fitted.places) > 50
    solution = law.solve(data)
    source = float(np.sum(law.cells.volume[law.cells.active])) + 0.4
    out = law.outflow(data, solution)
    assert out["window"] + out["hole 1"] == pytest.approx(source, rel=1e-8)
    assert set(solution.terminals) == {"electrode"}


# What is no jump


def fitted_to(coefficient, *, nodes=31):
    return fitted_interface(cut_cells(Grid.uniform(nodes), Shape.disc((0.5, 0.5), 0.45), {"rim": D}), coefficient)


@pytest.mark.parametrize(
    "coefficient",
    [
        lambda x, y: 2.0,
        lambda x, y: np.exp(3 * np.sin(5 * x) * np.cos(4 * y)),
        lambda x, y: np.exp(2 * np.tanh((x + y - 1) / 0.005)),  # steep, but smooth
        lambda x, y: np.exp(np.round(200 * x) / 50 + np.round(230 * y) / 70),  # stairs of an image
    ],
    ids=["constant", "smooth", "steep", "image"],
)
def test_functions_without_one_jump_between_nodes_stay_as_they_are(coefficient):
    assert fitted_to(coefficient) is None


def test_a_jump_of_a_varying_coefficient_is_found_to_rounding():
    def coefficient(places):
        return np.where(places[:, 0] < 0.3141, 2 + places[:, 0], 7 - places[:, 0])

    found = jumps_between(coefficient, np.array([[0.3, 0.0], [0.4, 0.0]]), np.array([[0.35, 0.0], [0.45, 0.0]]))
    assert found.present.tolist() == [True, False]
    assert 0.3 + 0.05 * found.share[0] == pytest.approx(0.3141, abs=1e-10)
    assert (found.before[0], found.after[0]) == pytest.approx((2.3141, 6.6859))


def test_corners_of_an_interface_are_left_to_the_links():
    law = fitted_to(lambda x, y: np.where((np.abs(x - 0.5) < 0.21) & (np.abs(y - 0.52) < 0.17), 9.0, 1.0))
    corners = np.array([[0.29, 0.35], [0.71, 0.35], [0.29, 0.69], [0.71, 0.69]])
    assert law is not None
    assert np.min(np.linalg.norm(law.places[:, None] - corners, axis=2)) < 1.5 / 30
