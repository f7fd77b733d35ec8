"""Conduction on cut cells: orders, symmetry, conservation, contacts, electrodes, and finite elements beside."""

import numpy as np
import pytest

from benchmarks.shapes import (
    ELECTRODES,
    Truth,
    difference_to_finite_elements,
    electrode_error,
    electrode_potentials,
    error,
    rim_error,
    smooth,
)
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, NeumannPart, RobinPart, Terminal
from nipde.errors import PhysicsError, ShapeError
from nipde.grid import Axis, Grid
from nipde.physics.conduction import Conduction
from nipde.shape import Shape

CENTRE, RADIUS = (0.493, 0.508), 0.41
D, N = DirichletPart(), NeumannPart()
DISC = Shape.disc(CENTRE, RADIUS, vertices=2048)
RING = Shape.disc(CENTRE, RADIUS, hole=0.16, vertices=2048)


def varying(x, y):
    return np.exp(np.sin(4 * x) - y)


def specimen(shape, conditions, *, nodes=27, coefficient=varying):
    grid = Grid((Axis(nodes, 1.0), Axis(nodes + 2, 1.0)))
    return Conduction(cut_cells(grid, shape, conditions), coefficient)


def mixed(**options):
    """All kinds of parts at once; the hole is the Dirichlet part."""
    shape = RING.with_arc("electrode", 0.1, 0.2).with_arc("window", 0.4, 0.6)
    return specimen(shape, {"electrode": Terminal(0.3), "window": RobinPart(2.0), "hole 1": D}, **options)


def loads(grid):
    return LoadCase(
        np.random.default_rng(0).standard_normal(grid.shape),
        values={"window": 0.7, "hole 1": lambda x, y: x - y},
        fluxes={"rim": lambda x, y: np.sin(9 * x)},
        totals={"electrode": 0.4},
    )


# Convergence


def average_order(shape_of, conditions, truth, *, sizes=(41, 81)):
    """Of errors at several positions among the nodes: one alone is a matter of luck."""
    centres = (CENTRE, (0.503, 0.497), (0.5166, 0.4885))
    errors = [
        [error(Grid.uniform(nodes), shape_of(centre), conditions, truth(centre), centre=centre) for centre in centres]
        for nodes in sizes
    ]
    coarse, fine = (np.sqrt(np.mean(np.square(each))) for each in errors)
    return np.log(coarse / fine) / np.log((sizes[1] - 1) / (sizes[0] - 1)), fine


def disc(centre):
    return Shape.disc(centre, RADIUS, vertices=2048)


def ring(centre):
    return Shape.disc(centre, RADIUS, hole=0.16, vertices=2048)


def halves(centre):
    return disc(centre).with_part("left", lambda x, y: x < centre[0] + 0.07)


@pytest.mark.parametrize(
    ("shape", "conditions", "limit"),
    [
        pytest.param(disc, {"rim": D}, 1e-4, id="disc, Dirichlet"),
        pytest.param(disc, {"rim": N}, 3e-4, id="disc, Neumann"),
        pytest.param(ring, {"rim": D, "hole 1": N}, 3e-4, id="ring, hole Neumann"),
        pytest.param(ring, {"rim": N, "hole 1": D}, 3e-4, id="ring, rim Neumann"),
    ],
)
def test_smooth_problems_converge_with_order_two(shape, conditions, limit):
    order, finest = average_order(shape, conditions, lambda centre: smooth())
    assert order >= 1.85
    assert finest < limit


def test_no_position_among_the_nodes_spoils_a_neumann_outline():
    centre, truth = (0.503, 0.497), smooth()
    shape = Shape.disc(centre, 0.4, hole=0.15, vertices=2048)
    coarse, fine = (error(Grid.uniform(nodes), shape, {}, truth, centre=centre) for nodes in (41, 81))
    assert np.log2(coarse / fine) >= 1.7


def test_smooth_problems_do_not_suffer_from_ends_of_dirichlet_parts():
    order, finest = average_order(halves, {"left": D}, lambda centre: smooth(), sizes=(21, 81))
    assert order >= 1.3
    assert finest < 1e-3


@pytest.mark.parametrize(("start", "share"), [(0.0, 0.5), (0.17, 0.12), (0.63, 0.31)])
def test_ends_of_dirichlet_parts_are_of_second_order(start, share):
    coarse, fine = (rim_error(nodes, start, share) for nodes in (21, 81))
    assert coarse < 1e-2
    assert np.log(coarse / fine) / np.log(4) >= 1.7


def test_without_balanced_powers_they_are_of_first_order(monkeypatch):
    monkeypatch.setattr("nipde.discretisation.cut_cells.exact_near_singular_points", lambda links, *_, **__: links)
    errors = [rim_error(81, start, share) for start, share in ((0.0, 0.5), (0.17, 0.12), (0.63, 0.31))]
    assert np.sqrt(np.mean(np.square(errors))) > 3e-3


def test_a_dirichlet_part_may_be_a_piece_of_a_rim():
    law = specimen(RING.with_arc("wall", 0.7, 0.9), {"wall": D})
    eigenvalues = np.linalg.eigvalsh(law.matrix.toarray())
    assert eigenvalues[0] > 1e-9 * eigenvalues[-1]


def test_a_wrong_coefficient_does_not_converge():
    right = smooth()
    wrong = Truth(right.solution, lambda x, y: 1.02 * right.coefficient(x, y), right.density, right.flux)
    order, _ = average_order(disc, {"rim": D}, lambda centre: wrong, sizes=(21, 41))
    assert order < 0.5


# The matrix


@pytest.mark.parametrize("build", [mixed, lambda: specimen(DISC, {}), lambda: specimen(RING, {"rim": D})])
def test_the_matrix_is_symmetric_to_the_last_bit(build):
    law = build()
    matrix = law.matrix.toarray()
    assert np.array_equal(matrix, matrix.T)
    eigenvalues = np.linalg.eigvalsh(matrix)
    assert (eigenvalues[0] < 1e-12 * eigenvalues[-1]) == law.floating
    assert eigenvalues[1] > 1e-9 * eigenvalues[-1]
    assert np.all(matrix[~np.eye(len(matrix), dtype=bool)] <= 0)


def test_what_flows_in_flows_out():
    law = mixed()
    data = loads(law.cells.grid)
    solution = law.solve(data)
    out = law.outflow(data, solution)
    assert set(out) == {"electrode", "window", "hole 1"}
    assert out["electrode"] == pytest.approx(-0.4, rel=1e-10)  # the terminal's total flows in
    inflow = law.moments(LoadCase(data.density, fluxes=data.fluxes)).sum()
    assert sum(out.values()) == pytest.approx(inflow, abs=1e-11)
    wrong = law.outflow(data, type(solution)(1.001 * solution.response, solution.terminals))
    assert abs(sum(wrong.values()) - inflow) > 1e-4


def test_fluxes_are_integrated_over_their_part():
    law = mixed()
    assert law.moments(LoadCase(fluxes={"rim": 1.5})).sum() == pytest.approx(
        1.5 * law.cells.shape.parts["rim"].length, rel=1e-10
    )


def test_responses_are_linear_and_reciprocal():
    law = mixed()
    first, second = np.random.default_rng(1).standard_normal((2, *law.cells.grid.shape))
    u, v, both = (law.solve(LoadCase(one)).response for one in (first, second, 2 * first - second))
    assert np.nanmax(np.abs(both - 2 * u + v)) < 1e-11 * np.nanmax(np.abs(both))
    assert np.nansum(first * law.cells.volume * v) == pytest.approx(np.nansum(second * law.cells.volume * u), rel=1e-9)


def test_a_constant_is_reproduced_to_rounding():
    law = mixed()
    data = LoadCase(values={"window": 3.0, "hole 1": 3.0})
    solution = law.solve(data)
    active = law.cells.active
    assert solution.response[active] == pytest.approx(3.0, rel=1e-10)
    assert np.array_equal(np.isnan(solution.response), ~active)
    assert solution.terminals["electrode"] == pytest.approx(3.0, rel=1e-10)


def test_linear_fields_are_exact_between_dirichlet_parts():
    law = specimen(RING, {"rim": D, "hole 1": D}, coefficient=lambda x, y: np.full_like(x, 2.0))
    found = law.solve(LoadCase(values=dict.fromkeys(("rim", "hole 1"), lambda x, y: 1 + 2 * x - y))).response
    x, y = law.cells.grid.coordinates
    assert np.nanmax(np.abs(found - (1 + 2 * x - y))) < 1e-10


def test_a_coefficient_of_nodes_is_that_of_the_function():
    law = mixed(nodes=41)
    x, y = law.cells.grid.coordinates
    nodal = Conduction(law.cells, varying(x, y))
    data = loads(law.cells.grid)
    by_function, by_nodes = (one.solve(data).response for one in (law, nodal))
    assert np.nanmax(np.abs(by_function - by_nodes)) < 2e-3 * np.nanmax(np.abs(by_function))


# Contacts


@pytest.mark.parametrize("coefficient", [0.5, 5.0, 50.0])
def test_robin_parts_follow_the_radial_solution(coefficient):
    # -b Δu = f, b ∂u/∂r = k (s - u): u = s + f (R² - r²) / 4b + f R / 2k.
    b, f, s = 1.7, 3.0, 0.4

    def largest(nodes):
        law = specimen(DISC, {"rim": RobinPart(coefficient)}, nodes=nodes, coefficient=lambda x, y: np.full_like(x, b))
        found = law.solve(LoadCase(np.full(law.cells.grid.shape, f), values={"rim": s})).response
        x, y = law.cells.grid.coordinates
        square = (x - CENTRE[0]) ** 2 + (y - CENTRE[1]) ** 2
        exact = s + f * (RADIUS**2 - square) / (4 * b) + f * RADIUS / (2 * coefficient)
        inside = square < RADIUS**2
        return np.max(np.abs(found - exact)[inside]) / np.ptp(exact[inside])

    errors = [largest(nodes) for nodes in (21, 41)]
    assert errors[1] < 0.01
    assert errors[1] < 0.7 * errors[0]


def test_no_cell_of_a_closed_robin_rim_is_worse_than_its_neighbours():
    law = specimen(DISC, {"rim": RobinPart(5.0)}, nodes=41, coefficient=lambda x, y: np.full_like(x, 1.7))
    found = law.solve(LoadCase(np.full(law.cells.grid.shape, 3.0))).response
    x, y = law.cells.grid.coordinates
    square = (x - CENTRE[0]) ** 2 + (y - CENTRE[1]) ** 2
    exact = 3.0 * ((RADIUS**2 - square) / (4 * 1.7) + RADIUS / (2 * 5.0))
    weights = np.where(law.cells.active, law.cells.measure, 0.0)
    assert np.sum(weights * np.nan_to_num(found - exact) ** 2) < 5e-5**2 * np.sum(weights * exact**2)


def test_a_robin_part_with_a_large_coefficient_is_a_dirichlet_part():
    # The distance of a node beyond the contact is not counted in full: a difference of the order of the spacing.
    fixed, close = (specimen(DISC, {"rim": one}) for one in (D, RobinPart(1e6)))
    density = np.ones(fixed.cells.grid.shape)
    u, v = (law.solve(LoadCase(density, values={"rim": 1.0})).response for law in (fixed, close))
    inside = fixed.cells.active
    assert np.linalg.norm((u - v)[inside]) < 0.05 * np.linalg.norm((u - 1)[inside])


def test_the_series_solution_of_electrodes_has_converged():
    currents = np.eye(ELECTRODES) - np.roll(np.eye(ELECTRODES), 1, axis=1)
    coarse, fine = (electrode_potentials(currents, impedance=0.2, panels=panels) for panels in (48, 96))
    assert np.linalg.norm(coarse - fine) < 2e-4 * np.linalg.norm(fine)
    smaller = electrode_potentials(currents, impedance=0.1)
    # The contacts of an electrode are the impedance over its length; the rest changes little.
    assert np.all(np.diag(fine) > np.diag(smaller))


@pytest.mark.parametrize(("impedance", "limit"), [(0.2, 6e-3), (0.5, 3e-3)])
def test_electrodes_follow_the_complete_electrode_model(impedance, limit):
    assert electrode_error(41, impedance=impedance) < limit


# Another discretisation


@pytest.mark.parametrize("robin", [None, 2.0], ids=["Dirichlet", "Robin"])
def test_finite_elements_agree(robin):
    # 16,384 linear triangles; a stiff spot, a load beside it, values that vary along the rim.
    assert difference_to_finite_elements(41, refinements=6, robin=robin) < 1.5e-3


# Floating specimens


def test_a_floating_specimen_needs_balanced_loads():
    law = specimen(DISC, {})
    assert law.floating
    with pytest.raises(PhysicsError) as refused:
        law.solve(LoadCase(np.ones(law.cells.grid.shape)))
    assert refused.value.expected == "loads that sum to 0: no part fixes the response"
    assert refused.value.got == "a net share of 1"
    assert "Dirichlet or Robin" in refused.value.remedy
    density = np.ones(law.cells.grid.shape)
    flux = -np.sum(law.cells.volume) / DISC.parts["rim"].length
    response = law.solve(LoadCase(density, fluxes={"rim": flux})).response
    weights = law.cells.measure[law.cells.active]
    assert np.average(response[law.cells.active], weights=weights) == pytest.approx(0, abs=1e-12)
    with pytest.raises(PhysicsError, match="a net share of"):
        law.solve(LoadCase(density, fluxes={"rim": 1.0001 * flux}))


def test_potentials_of_floating_terminals_have_mean_zero_and_currents_must_balance():
    shape = DISC.with_arc("electrode 1", 0.0, 0.1).with_arc("electrode 2", 0.4, 0.6)
    law = specimen(shape, {"electrode 1": Terminal(0.1), "electrode 2": Terminal(0.2)})
    solution = law.solve(LoadCase(totals={"electrode 1": 1.0, "electrode 2": -1.0}))
    assert sum(solution.terminals.values()) == pytest.approx(0, abs=1e-12)
    assert solution.terminals["electrode 1"] > 0.1 / shape.parts["electrode 1"].length
    with pytest.raises(PhysicsError, match="balance the loads"):
        law.solve(LoadCase(totals={"electrode 1": 1.0}))


# Refused


@pytest.mark.parametrize(
    ("data", "expected", "got"),
    [
        (LoadCase(values={"rim": 1.0}), "values on a DirichletPart or RobinPart", "'rim', a NeumannPart"),
        (LoadCase(values={"electrode": 1.0}), "values on a DirichletPart or RobinPart", "'electrode', a Terminal"),
        (LoadCase(fluxes={"hole 1": 1.0}), "fluxes on a NeumannPart", "'hole 1', a DirichletPart"),
        (LoadCase(fluxes={"window": 1.0}), "fluxes on a NeumannPart", "'window', a RobinPart"),
        (LoadCase(totals={"rim": 1.0}), "totals on a Terminal", "'rim', a NeumannPart"),
        (LoadCase(totals={"electrode 9": 1.0}), "totals on a Terminal", "no such part"),
    ],
)
def test_data_on_a_part_of_another_kind_are_refused(data, expected, got):
    with pytest.raises(PhysicsError) as refused:
        mixed(nodes=15).solve(data)
    assert (refused.value.expected, refused.value.got) == (expected, got)
    assert refused.value.remedy == "change the condition of the part, or name another"


def test_loads_of_another_grid_and_coefficients_that_are_not_positive_are_refused():
    law = mixed(nodes=15)
    with pytest.raises(ShapeError):
        law.solve(LoadCase(np.ones((4, 4))))
    with pytest.raises(PhysicsError, match="coefficient > 0"):
        _ = Conduction(law.cells, lambda x, y: x - 0.5).matrix
