import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.grid import Axis, Grid
from nipde.measurements.description import load_term
from nipde.measurements.loads import Constant, Gaussian, Point, Side, Sine, described_loads
from nipde.measurements.units import Units
from tests.measurements.refused import refused

UNITS = Units("mm", "N/mm^2", "mm")
ORIGIN = (10.0, -3.0)


def box(*kinds):
    return Grid(tuple(Axis(n, length, kind) for n, length, kind in zip((9, 7), (4.0, 2.0), kinds, strict=True)))


FREE = box(Neumann(), Neumann())
FIXED = box(Dirichlet(), Dirichlet())


@settings(max_examples=60, deadline=None)
@given(
    x=st.floats(10.001, 13.999), y=st.floats(-2.999, -1.001), total=st.floats(-1e3, 1e3),
    kinds=st.tuples(*[st.sampled_from([Dirichlet(), Neumann(), Periodic()])] * 2),
)  # fmt: skip
def test_a_well_keeps_its_rate_wherever_it_is(x, y, total, kinds):
    grid = box(*kinds)
    field = Point((x, y), total).field(grid, origin=ORIGIN, units=UNITS)
    assert grid.integrate(field) == pytest.approx(total, rel=1e-12, abs=1e-12)
    assert np.count_nonzero(field) <= 4


def test_a_well_at_a_node_is_in_that_node():
    field = Point((11.0, -2.0), 5.0).field(FIXED, origin=ORIGIN, units=UNITS)
    assert np.argwhere(field).tolist() == [[2, 3]]


@pytest.mark.parametrize("side", ["left", "right", "bottom", "top"])
def test_a_force_is_spread_along_its_side(side):
    field = Side(side, "12 N").field(FREE, origin=ORIGIN, units=UNITS)
    assert FREE.integrate(field) == pytest.approx(12.0, rel=1e-12)
    ends = {"left": field[0], "right": field[-1], "bottom": field[:, 0], "top": field[:, -1]}
    assert np.ptp(ends[side]) < 1e-12
    assert np.count_nonzero(field) == len(ends[side])


def test_a_force_is_the_boundary_term_of_the_weak_form():
    """∫ f v dx = ∫ t v ds for every v, t the force per length of the side."""
    field = Side("right", 6.0).field(FREE, origin=ORIGIN, units=UNITS)
    probe = np.random.default_rng(0).standard_normal(FREE.shape)
    along = np.sum(probe[-1] * FREE.axes[1].weights) * 6.0 / FREE.axes[1].length
    assert FREE.integrate(field * probe) == pytest.approx(along, rel=1e-12)


def test_a_traction_is_a_force_per_length():
    field = Side("right", traction="3 N/mm").field(FREE, origin=ORIGIN, units=UNITS)
    assert FREE.integrate(field) == pytest.approx(6.0, rel=1e-12)
    with refused(expected="total or traction", got="both"):
        Side("right", 1.0, 1.0).field(FREE, origin=ORIGIN, units=UNITS)


@pytest.mark.parametrize("traction", [(1.0, 2.0), ["1 N/mm", "2 N/mm"], {"x": 1.0}])
def test_a_vector_of_tractions_is_refused(traction):
    with refused(message="traction", expected="one number", remedy="not supported yet"):
        Side("right", traction=traction).field(FREE, origin=ORIGIN, units=UNITS)


def test_a_load_on_a_dirichlet_boundary_is_refused():
    with refused(got="axis x", remedy="neumann"):
        Side("left", 1.0).field(FIXED, origin=ORIGIN, units=UNITS)
    with refused(got="axis x", remedy="neumann"):
        Point((10.0, -2.0), 1.0).field(FIXED, origin=ORIGIN, units=UNITS)
    with refused(got="periodic", remedy="neumann"):
        Side("left", 1.0).field(box(Periodic(), Dirichlet()), origin=ORIGIN, units=UNITS)


def test_places_are_checked():
    with refused(expected="x from 10 to 14", got="1"):
        Point((1.0, -2.0), 1.0).field(FIXED, origin=ORIGIN, units=UNITS)
    with refused(expected="left, right, bottom, top", got="front"):
        Side("front", 1.0).field(FREE, origin=ORIGIN, units=UNITS)
    with refused(expected="2 numbers", got="[1.0]"):
        Point((1.0,), 1.0).field(FIXED, origin=ORIGIN, units=UNITS)


def test_families_are_what_they_say():
    x, y = FREE.coordinates
    assert Constant("1 kPa").field(FREE, origin=ORIGIN, units=UNITS) == pytest.approx(1e-3)
    np.testing.assert_allclose(
        Gaussian((12.0, -2.0), 0.5, 3.0).field(FREE, origin=ORIGIN, units=UNITS),
        3 * np.exp(-((x - 2) ** 2 + (y - 1) ** 2) / 0.5),
    )
    np.testing.assert_allclose(
        Sine((1, 2), 2.0).field(FREE, origin=ORIGIN, units=UNITS),
        2 * np.sin(np.pi * x / 4) * np.sin(2 * np.pi * y / 2),
        atol=1e-15,
    )


def test_terms_of_one_pair_add_up():
    tables = [{"kind": "constant", "amplitude": float(n), "pair": pair} for n, pair in ((1, 1), (2, 2), (3, 1))]
    terms = tuple(load_term(table, number=n + 1) for n, table in enumerate(tables))
    loads, _ = described_loads(terms, FREE, origin=ORIGIN, units=UNITS)
    assert loads.shape == (2, 1, 9, 7)
    assert loads[:, 0, 0, 0].tolist() == [4.0, 2.0]


def test_amounts_come_from_a_table():
    tables = [{"kind": "point", "position": [11, -2], "amount": "rate_1"}, {"kind": "constant", "amount": "rate_2"}]
    terms = tuple(load_term(table, number=n + 1) for n, table in enumerate(tables))
    amounts = {"rate_1": np.array([1.0, 2.0, 0.0]), "rate_2": np.array([0.0, 0.5, -1.0])}
    loads, _ = described_loads(terms, FREE, origin=ORIGIN, units=UNITS, amounts=amounts)
    np.testing.assert_allclose(FREE.integrate(loads)[:, 0], [1.0, 2.0 + 0.5 * 8, -8.0])
    with refused(expected="'rate_2'", got="rate_1"):
        described_loads(terms, FREE, origin=ORIGIN, units=UNITS, amounts={"rate_1": amounts["rate_1"]})
    with refused(got="row 2"):
        described_loads(
            terms, FREE, origin=ORIGIN, units=UNITS, amounts={**amounts, "rate_1": np.array([1.0, np.nan, 0.0])}
        )


def test_a_pair_without_a_load_is_refused():
    terms = (load_term({"kind": "constant", "pair": 2}, number=1),)
    with refused(expected="pair 1", got="none"):
        described_loads(terms, FREE, origin=ORIGIN, units=UNITS)
