"""Darcy flow: convergence order, conservation, reciprocity and the symmetries of the square."""

import time

import numpy as np
import pytest
from trial_fields import normal, relative

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discretisation.links import Arithmetic, Harmonic, links_of
from nipde.errors import PhysicsError, ShapeError, SolverError
from nipde.grid import Axis, Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase
from tests.oracles.manufactured import observed_orders, slab_green, smooth_diffusion

D, N, P = Dirichlet(), Neumann(), Periodic()
BOXES = [
    Grid.uniform(15, dimension=1),
    Grid.uniform(12),
    Grid((Axis(9, 1.0, D), Axis(8, 2.0, N))),
    Grid((Axis(8, 1.0, P), Axis(9, 0.5, D))),
    Grid((Axis(6, 1.0, D), Axis(5, 1.0, N), Axis(4, 2.0, P))),
    Grid.uniform(7, dimension=3),
]
every_box = pytest.mark.parametrize("grid", BOXES, ids=lambda grid: "-".join(a.boundary.name for a in grid.axes))
both_means = pytest.mark.parametrize("mean", [Harmonic(), Arithmetic()], ids=["harmonic", "arithmetic"])


def two_phase(grid, *, seed=0):
    field = GaussianField(4.0, waves=8).sample(grid, rng=np.random.default_rng(seed), count=1)[0]
    material = TwoPhase()(field)
    assert set(np.unique(material)) == {3.0, 12.0}
    return material


def net_outflow(grid, flow):
    """What leaves every node's cell, summed over its links."""
    links, total = links_of(grid), np.zeros(grid.size)
    np.add.at(total, links.first, flow)
    np.add.at(total, links.second, -flow)
    return total.reshape(grid.shape)


# Convergence


def orders(grids, mean, *, wrong=1.0):
    def error(grid):
        truth = smooth_diffusion(grid)
        return grid.norm(Darcy(grid, wrong * truth.coefficient, mean).solve(truth.load) - truth.solution)

    return observed_orders(error, grids)


@both_means
@pytest.mark.parametrize(
    ("dimension", "nodes"), [(1, (11, 21, 41, 81, 161)), (2, (11, 21, 41, 81, 161)), (3, (9, 13, 17, 25))]
)
def test_smooth_problems_converge_with_order_two(dimension, nodes, mean):
    grids = [Grid.uniform(count, dimension=dimension) for count in nodes]
    assert orders(grids, mean)[-1] >= 1.98
    assert orders(grids, mean, wrong=1.1)[-1] < 1  # a coefficient ten per cent off does not pass


@pytest.mark.parametrize("kind", [N, P], ids=["neumann", "periodic"])
@pytest.mark.parametrize("free_first", [True, False])
def test_free_axes_converge_with_order_two(kind, free_first):
    wave = np.pi * (2 if kind.periodic else 1)

    def error(grid):
        free, fixed = grid.coordinates if free_first else grid.coordinates[::-1]
        truth = np.sin(np.pi * fixed) * np.cos(wave * free)
        response = Darcy(grid, np.full(grid.shape, 3.0)).solve(3 * (np.pi**2 + wave**2) * truth)
        return grid.norm(response - truth)

    def box(intervals):
        axes = (Axis(intervals + (not kind.periodic), 1.0, kind), Axis(intervals + 1, 1.0, D))
        return Grid(axes if free_first else axes[::-1])

    assert observed_orders(error, [box(20), box(40), box(80)])[-1] >= 1.98


def test_a_neumann_wall_is_a_mirror():
    # Half of a symmetric specimen with a free wall in the plane of symmetry is the whole specimen.
    rng = np.random.default_rng(0)
    half = rng.uniform(1, 5, (11, 9))
    whole = np.concatenate([half[:0:-1], half])
    load = rng.standard_normal((11, 9))
    grid = Grid((Axis(21, 2.0, N), Axis(9, 1.0, D)))
    response = Darcy(Grid((Axis(11, 1.0, N), Axis(9, 1.0, D))), half).solve(load)
    mirrored = Darcy(grid, whole).solve(np.concatenate([load[:0:-1], load]))
    assert relative(mirrored[10:], response) < 1e-12


def test_a_periodic_specimen_may_start_anywhere():
    grid = Grid((Axis(9, 1.0, P), Axis(8, 1.0, D)))
    material, load = two_phase(grid), normal(grid.shape)
    rolled = Darcy(grid, np.roll(material, 4, axis=0)).solve(np.roll(load, 4, axis=0))
    assert relative(rolled, np.roll(Darcy(grid, material).solve(load), 4, axis=0)) < 1e-12


# The matrix and its inverse


@both_means
@every_box
def test_matrix_is_symmetric_to_the_last_bit_and_positive_definite(grid, mean):
    matrix = Darcy(grid, two_phase(grid), mean).matrix
    assert matrix.shape == (grid.unknown.sum(),) * 2
    assert not (matrix - matrix.T).toarray().any()
    assert np.linalg.eigvalsh(matrix.toarray())[0] > 0
    np.linalg.cholesky(matrix.toarray())


@every_box
def test_green_is_symmetric_positive_and_answers_every_load(grid):
    law, loads = Darcy(grid, two_phase(grid)), normal((4, *grid.shape))
    green, free = law.green(), grid.unknown.reshape(-1)
    assert np.array_equal(green, green.T)
    assert np.all(green[np.ix_(free, free)] > 0)
    assert not green[~free].any()
    answered = (loads * grid.weights).reshape(4, -1) @ green.T
    assert relative(answered.reshape(loads.shape), law.solve(loads)) < 1e-12


def test_one_dimensional_green_is_exact_at_the_nodes():
    grid = Grid.uniform(33, dimension=1, length=1.5)
    (x,) = grid.coordinates
    exact = np.minimum.outer(x, x) * (1.5 - np.maximum.outer(x, x)) / (1.5 * 7.0)
    assert relative(Darcy(grid, np.full(33, 7.0)).green(), exact) < 1e-12


# The jump from 12 to 3


def slab(grid, *, interface):
    """b = 12 up to the middle of the face behind node `interface`, 3 beyond."""
    axis = grid.axes[0]
    jump = axis.coordinates[interface] + axis.spacing / 2
    return np.where(grid.coordinates[0] < jump, 12.0, 3.0), jump


@pytest.mark.parametrize("interface", [3, 9, 17])
def test_slab_green_is_exact_with_harmonic_faces_only(interface):
    grid = Grid.uniform(21, dimension=1)
    material, jump = slab(grid, interface=interface)
    exact = np.stack([slab_green(grid, source=s, jump=jump, left=12.0, right=3.0) for s in range(21)], axis=1)
    assert relative(Darcy(grid, material, Harmonic()).green(), exact) < 1e-12
    assert relative(Darcy(grid, material, Arithmetic()).green(), exact) > 1e-3


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("source", [4, 15])
def test_flow_and_pressure_are_continuous_across_the_jump(dimension, source):
    grid = Grid((Axis(21, 1.0, D), Axis(7, 0.6, N))[:dimension])
    material, _ = slab(grid, interface=9)
    load = np.zeros(grid.shape)
    load[source] = 1 / grid.spacing[0]  # one unit per unit of area of the plane
    links = links_of(grid)
    across = links.axis == 0

    def measure(mean):
        law = Darcy(grid, material, mean)
        pressure = law.solve(load)
        flow = law.flow(pressure)
        assert np.max(np.abs(flow[~across]), initial=0) < 1e-12  # nothing runs along the planes
        flow = (flow[across] / links.area[across]).reshape(20, -1)
        for side in (slice(0, source), slice(source, 20)):
            assert np.max(np.ptp(flow[side], axis=0)) < 1e-10  # one of the sides holds the jump
        # Both phases' own slopes, without the face rule, carry the same flow: b ∂p/∂x is continuous.
        step = grid.spacing[0]
        slopes = np.diff(pressure.reshape(21, -1), axis=0) / step
        left, right = 12.0 * slopes[8], 3.0 * slopes[10]
        assert np.max(np.abs(left - right)) < 1e-10
        # The pressure at the jump, continued from either side.
        pressure = pressure.reshape(21, -1)
        gap = (pressure[9] + slopes[8] * step / 2) - (pressure[10] - slopes[10] * step / 2)
        return flow[0, 0], np.max(np.abs(gap))

    (_, jump), width = slab(grid, interface=9), grid.axes[0].length
    resistance = [np.minimum(x, jump) / 12 + max(x - jump, 0) / 3 for x in (grid.axes[0].coordinates[source], width)]
    exact_left_flow = -(resistance[1] - resistance[0]) / resistance[1]
    flow, gap = measure(Harmonic())
    assert flow == pytest.approx(exact_left_flow, rel=1e-10)
    assert gap < 1e-12
    flow, gap = measure(Arithmetic())  # conserves as well, but tears the pressure and so misses the flow
    assert abs(flow - exact_left_flow) > 1e-3
    assert gap > 1e-4


@both_means
@every_box
def test_every_free_cell_lets_out_what_its_source_puts_in(grid, mean):
    law, load = Darcy(grid, two_phase(grid, seed=3), mean), normal(grid.shape, seed=4)
    outflow, source = net_outflow(grid, law.flow(law.solve(load))), load * grid.weights
    assert relative(outflow[grid.unknown], source[grid.unknown]) < 1e-10
    assert relative(net_outflow(grid, law.flow(1.001 * law.solve(load)))[grid.unknown], source[grid.unknown]) > 1e-4
    assert abs(outflow.sum()) < 1e-12  # what the Dirichlet sides take is what the sources give


# Linearity, symmetry, sign


@every_box
def test_responses_are_linear_in_the_load(grid):
    law, (f, g) = Darcy(grid, two_phase(grid)), normal((2, *grid.shape))
    assert relative(law.solve(2 * f - 3 * g), 2 * law.solve(f) - 3 * law.solve(g)) < 1e-12


@both_means
@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_square_may_be_turned_and_mirrored(turns, mirrored, mean):
    grid = Grid.uniform(21)

    def moved(field):
        return np.rot90(np.flip(field, axis=0) if mirrored else field, turns)

    material, load = two_phase(grid), normal(grid.shape)
    response = Darcy(grid, material, mean).solve(load)
    assert relative(Darcy(grid, moved(material), mean).solve(moved(load)), moved(response)) < 1e-12
    if turns or mirrored:
        assert relative(Darcy(grid, material, mean).solve(moved(load)), moved(response)) > 1e-3


def test_axes_may_be_exchanged_with_their_boundaries():
    axes = Axis(6, 1.0, D), Axis(5, 0.7, N), Axis(7, 2.0, P)
    grid, turned = Grid(axes), Grid((axes[2], axes[0], axes[1]))
    material, load = two_phase(grid), normal(grid.shape)
    response = Darcy(turned, np.moveaxis(material, 2, 0)).solve(np.moveaxis(load, 2, 0))
    assert relative(response, np.moveaxis(Darcy(grid, material).solve(load), 2, 0)) < 1e-12


@every_box
def test_positive_loads_raise_the_pressure_everywhere_and_any_load_does_work(grid):
    law = Darcy(grid, two_phase(grid, seed=5))
    spots = np.zeros((grid.size, grid.size))
    np.fill_diagonal(spots, 1.0)
    spots = spots[grid.unknown.reshape(-1)].reshape(-1, *grid.shape)
    assert np.all(law.solve(spots)[:, grid.unknown] > 0)
    assert not law.solve(spots)[:, ~grid.unknown].any()
    loads = normal((20, *grid.shape), seed=6)
    assert np.all(grid.integrate(loads * law.solve(loads)) > 0)


def test_pressure_is_inverse_to_permeability():
    grid = Grid.uniform(15)
    material, load = two_phase(grid), normal(grid.shape)
    assert relative(Darcy(grid, 5 * material).solve(load), Darcy(grid, material).solve(load) / 5) < 1e-12


# Solving


@every_box
def test_residuals_are_small_and_tell_a_wrong_response(grid):
    law, loads = Darcy(grid, two_phase(grid)), normal((3, *grid.shape))
    responses, residual = law.checked_solve(loads)
    unknown = links_of(grid).unknown
    free, right = (field.reshape(len(loads), -1)[:, unknown] for field in (responses, loads * grid.weights))
    by_hand = (law.matrix @ free.T).T - right
    size = np.linalg.norm((loads * grid.weights)[:, grid.unknown], axis=1)
    assert np.all(np.linalg.norm(by_hand, axis=1) / size <= 1e-10)
    assert residual.shape == (3,)
    assert np.all(residual <= 1e-10)
    assert np.array_equal(responses, law.solve(loads))
    assert law.residual(loads, 1.001 * responses) == pytest.approx(1e-3, rel=1e-6)


def test_batch_axes_are_carried_along():
    grid = Grid.uniform(9)
    law, loads = Darcy(grid, two_phase(grid)), normal((2, 3, *grid.shape))
    responses = law.solve(loads)
    assert responses.shape == loads.shape
    assert relative(law.solve(loads[1, 2]), responses[1, 2]) < 1e-13
    assert law.residual(loads, responses).shape == (2, 3)
    assert law.residual(loads[1, 2], responses[1, 2]).shape == ()


def test_loads_on_dirichlet_nodes_do_nothing():
    grid = Grid.uniform(9)
    law, load = Darcy(grid, two_phase(grid)), normal(grid.shape)
    assert np.array_equal(law.solve(load), law.solve(np.where(grid.unknown, load, 1e6)))


def test_no_load_no_response_and_a_response_to_nothing_is_infinitely_wrong():
    grid = Grid.uniform(9)
    law, nothing = Darcy(grid, two_phase(grid)), np.zeros((1, 9, 9))
    responses, residual = law.checked_solve(nothing)
    assert not responses.any()
    assert residual.tolist() == [0.0]
    assert law.residual(nothing, np.ones((1, 9, 9))).tolist() == [np.inf]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_load_that_is_not_finite_never_leaves_as_a_solution(bad):
    grid = Grid.uniform(9)
    law, loads = Darcy(grid, two_phase(grid)), normal((3, *grid.shape))
    law.checked_solve(loads)
    loads[1, 4, 4] = bad
    with pytest.raises(SolverError) as error:
        law.checked_solve(loads)
    assert error.value.got == "nan"


def test_a_wrong_factor_never_leaves_as_a_solution():
    grid = Grid.uniform(9)
    law, other = Darcy(grid, two_phase(grid)), Darcy(grid, 1.0001 * two_phase(grid))
    law.__dict__["factor"] = other.factor  # where the cached property keeps it
    with pytest.raises(SolverError, match=r"pair 0 .*got 1\.00e-04"):
        law.checked_solve(np.ones((1, *grid.shape)))


@pytest.mark.parametrize("kinds", [(N,), (P,), (N, N), (N, P), (P, P, N)])
def test_without_a_dirichlet_axis_there_is_no_unique_response(kinds):
    grid = Grid(tuple(Axis(5, 1.0, kind) for kind in kinds))
    with pytest.raises(PhysicsError) as error:
        Darcy(grid, np.ones(grid.shape)).solve(np.ones(grid.shape))
    assert error.value.expected == "a Dirichlet axis"


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_permeability_that_is_not_positive_and_finite_is_refused(value):
    grid = Grid.uniform(5)
    permeability = np.ones(grid.shape)
    permeability[2, 3] = value
    with pytest.raises(PhysicsError):
        Darcy(grid, permeability)


def test_fields_of_another_grid_are_refused():
    grid = Grid.uniform(5)
    with pytest.raises(ShapeError) as error:
        Darcy(grid, np.ones((6, 5)))
    assert error.value.got == "shape (6, 5)"
    with pytest.raises(ShapeError) as error:
        Darcy(grid, np.ones((5, 5))).solve(np.ones((2, 6, 6)))
    assert "(2, 6, 6)" in error.value.got


def test_single_precision_and_integer_permeability_are_solved_in_double():
    grid = Grid.uniform(9)
    material, load = two_phase(grid), normal(grid.shape)
    expected = Darcy(grid, material).solve(load)
    for dtype in (np.float32, np.int64):
        assert np.array_equal(Darcy(grid, material.astype(dtype)).solve(load), expected)


@pytest.mark.slow
def test_a_million_nodes_are_solved_to_the_limit():
    grid = Grid.uniform(1024)
    law, loads = Darcy(grid, two_phase(grid)), normal((1, *grid.shape))
    start = time.perf_counter()
    responses, residual = law.checked_solve(loads)
    assert residual[0] <= 1e-10
    assert grid.integrate(loads * responses)[0] > 0
    assert time.perf_counter() - start < 280


def test_a_batch_of_materials_is_refused_rather_than_cut_to_its_first():
    grid = Grid.uniform(9)
    with pytest.raises(ShapeError) as error:
        Darcy(grid, np.ones((2, 9, 9)))
    assert "(2, 9, 9)" in error.value.got
    with pytest.raises(ShapeError, match=r"expected shape \(9, 9\)"):
        Darcy(grid, np.ones((9, 9))).flow(np.ones((2, 9, 9)))
