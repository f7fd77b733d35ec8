"""Advection and diffusion: second order, conservative, and a kernel that knows upstream from downstream."""

import numpy as np
import pytest
from trial_fields import normal, relative

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discretisation.links import links_of
from nipde.errors import PhysicsError, ShapeError
from nipde.grid import Axis, Grid
from nipde.physics.advection import AdvectionDiffusion, asymmetry
from nipde.physics.darcy import Darcy
from tests.oracles.manufactured import observed_orders, smooth_transport

D, N, P = Dirichlet(), Neumann(), Periodic()
SPEED = 5.0


def swirl(grid, *, speed):
    """Round the middle; each component is constant along its own axis, so cells see no divergence at all."""
    x, y = grid.coordinates
    return speed * np.stack([-np.sin(np.pi * (y - 0.5)), np.sin(np.pi * (x - 0.5))])


def medium(grid, *, seed=0):
    return np.random.default_rng(seed).uniform(1, 2, grid.shape)


# Convergence


def orders(grids, *, direction=1.0):
    def error(grid):
        truth = smooth_transport(grid, speed=SPEED)
        law = AdvectionDiffusion(grid, truth.coefficient, direction * truth.velocity)
        return grid.norm(law.solve(truth.load) - truth.solution)

    return observed_orders(error, grids)


@pytest.mark.parametrize(
    ("dimension", "nodes"),
    [(1, (11, 21, 41, 81, 161)), (2, (11, 21, 41, 81, 161)), pytest.param(3, (9, 13, 17, 25), marks=pytest.mark.slow)],
)
def test_smooth_problems_converge_with_order_two(dimension, nodes):
    grids = [Grid.uniform(count, dimension=dimension) for count in nodes]
    coarsest = smooth_transport(grids[0], speed=SPEED)
    assert 0.3 < AdvectionDiffusion(grids[0], coarsest.coefficient, coarsest.velocity).peclet < 2
    assert min(orders(grids)) >= 1.9
    assert max(orders(grids, direction=-1.0)) < 0.5  # a stream the wrong way does not pass


def test_a_steady_stream_leaves_the_known_profile():
    # -b u″ + v u′ = 1 has u = (x - (e^{vx/b} - 1)/(e^{v/b} - 1))/v.
    b, v = 2.0, 9.0

    def error(grid):
        (x,) = grid.coordinates
        law = AdvectionDiffusion(grid, np.full(grid.shape, b), np.full((1, *grid.shape), v))
        return grid.norm(law.solve(np.ones(grid.shape)) - (x - np.expm1(v * x / b) / np.expm1(v / b)) / v)

    grids = [Grid.uniform(count, dimension=1) for count in (21, 41, 81)]
    assert min(observed_orders(error, grids)) >= 1.9
    assert error(grids[-1]) < 1e-4


@pytest.mark.parametrize("kind", [N, P], ids=["neumann", "periodic"])
def test_a_stream_between_dirichlet_walls_does_not_see_the_free_axis(kind):
    grid, line = Grid((Axis(21, 1.0, D), Axis(6, 0.5, kind))), Grid.uniform(21, dimension=1)
    velocity = np.stack([np.full(grid.shape, 3.0), np.zeros(grid.shape)])
    response = AdvectionDiffusion(grid, np.ones(grid.shape), velocity).solve(np.ones(grid.shape))
    expected = AdvectionDiffusion(line, np.ones(21), np.full((1, 21), 3.0)).solve(np.ones(21))
    assert relative(response, np.repeat(expected[:, None], 6, axis=1)) < 1e-12


# The kernel


def test_a_swirl_makes_the_kernel_one_sided_and_stillness_does_not():
    grid = Grid.uniform(11)
    assert asymmetry(AdvectionDiffusion(grid, medium(grid), swirl(grid, speed=10.0)).green()) > 0.05
    assert asymmetry(AdvectionDiffusion(grid, medium(grid), 0 * swirl(grid, speed=1.0)).green()) < 1e-12


def test_asymmetry_is_that_of_the_frobenius_norm():
    assert asymmetry(np.array([[0.0, 1.0], [-1.0, 0.0]])) == pytest.approx(2.0)
    assert asymmetry(np.array([[1.0, 2.0], [2.0, 5.0]])) == 0


def test_looking_upstream_is_looking_down_the_reversed_stream():
    # Without divergence the adjoint of a stream is the stream reversed; exactly so on cells.
    grid = Grid.uniform(11)
    there, back = (AdvectionDiffusion(grid, medium(grid), swirl(grid, speed=s)).green() for s in (10.0, -10.0))
    assert relative(there.T, back) < 1e-12
    assert relative(there, back) > 0.05


def test_a_load_is_felt_downstream():
    grid = Grid.uniform(21, dimension=1)
    spot = np.eye(21)[10]
    for direction in (1, -1):
        response = AdvectionDiffusion(grid, np.ones(21), np.full((1, 21), 8.0 * direction)).solve(spot)
        assert direction * (response[15] - response[5]) > 0.1 * np.max(response)


def test_reversing_and_mirroring_the_stream_mirrors_the_response():
    grid = Grid.uniform(13)
    x, y = grid.coordinates
    velocity, material, load = np.stack([2 + y, x * y]), medium(grid), normal(grid.shape)
    response = AdvectionDiffusion(grid, material, velocity).solve(load)
    mirror = velocity[:, ::-1] * np.array([-1.0, 1.0])[:, None, None]
    assert relative(AdvectionDiffusion(grid, material[::-1], mirror).solve(load[::-1]), response[::-1]) < 1e-12


def test_green_answers_every_load():
    grid = Grid((Axis(9, 1.0, D), Axis(8, 2.0, N)))
    law, loads = AdvectionDiffusion(grid, medium(grid), normal((2, *grid.shape))), normal((4, *grid.shape))
    answered = (loads * grid.weights).reshape(4, -1) @ law.green().T
    assert relative(answered.reshape(loads.shape), law.solve(loads)) < 1e-12
    transposed = (loads * grid.weights).reshape(4, -1) @ law.green()
    assert relative(transposed.reshape(loads.shape), law.solve(loads)) > 1e-3


def test_without_a_stream_it_is_darcy():
    grid = Grid.uniform(13)
    still = AdvectionDiffusion(grid, medium(grid), np.zeros((2, *grid.shape)))
    load = normal(grid.shape)
    assert relative(still.solve(load), Darcy(grid, medium(grid)).solve(load)) < 1e-12


# Conservation


@pytest.mark.parametrize("kinds", [(D,), (D, D), (P, D), (D, N), (D, N, P)])
def test_every_free_cell_lets_out_what_its_source_puts_in(kinds):
    grid = Grid(tuple(Axis(7, 1.0 + 0.5 * place, kind) for place, kind in enumerate(kinds)))
    law = AdvectionDiffusion(grid, medium(grid), normal((grid.dimension, *grid.shape)))
    load, links = normal(grid.shape), links_of(grid)
    u = law.solve(load).reshape(-1)
    b, v = law.diffusivity.reshape(-1), law.velocity.reshape(grid.dimension, -1)
    # The flux, written out again from the equation: -b ∂u/∂n + v u on every face.
    on_face = 2 / (1 / b[links.first] + 1 / b[links.second])
    speed = (v[links.axis, links.first] + v[links.axis, links.second]) / 2
    flow = links.area * (
        on_face * (u[links.first] - u[links.second]) / links.distance + speed * (u[links.first] + u[links.second]) / 2
    )
    outflow = np.zeros(grid.size)
    np.add.at(outflow, links.first, flow)
    np.add.at(outflow, links.second, -flow)
    source = load * grid.weights
    assert relative(outflow.reshape(grid.shape)[grid.unknown], source[grid.unknown]) < 1e-10
    assert abs(outflow.sum()) < 1e-12


@pytest.mark.parametrize("kinds", [(N,), (P,), (N, P), (N, N, P)])
def test_a_closed_vessel_keeps_its_content(kinds):
    grid = Grid(tuple(Axis(6, 1.0, kind) for kind in kinds))
    matrix = AdvectionDiffusion(grid, medium(grid), normal((grid.dimension, *grid.shape))).matrix
    assert np.max(np.abs(matrix.sum(axis=0))) < 1e-13
    with pytest.raises(PhysicsError) as error:
        AdvectionDiffusion(grid, medium(grid), normal((grid.dimension, *grid.shape))).solve(np.ones(grid.shape))
    assert error.value.expected == "a Dirichlet axis"


def test_residuals_are_small_and_tell_a_wrong_response():
    grid = Grid.uniform(21)
    law, loads = AdvectionDiffusion(grid, medium(grid), swirl(grid, speed=20.0)), normal((3, *grid.shape))
    responses, residual = law.checked_solve(loads)
    assert np.all(residual <= 1e-10)
    unknown = links_of(grid).unknown
    free, right = (field.reshape(len(loads), -1)[:, unknown] for field in (responses, loads * grid.weights))
    by_hand = (law.matrix @ free.T).T - right
    assert np.max(np.abs(by_hand)) <= 1e-10 * np.max(np.abs(loads * grid.weights))
    assert law.residual(loads, 1.001 * responses) == pytest.approx(1e-3, rel=1e-6)


# Refusals


def test_peclet_number_is_the_largest_over_all_faces():
    grid = Grid((Axis(5, 1.0, D), Axis(9, 1.0, D)))
    velocity = np.stack([np.full(grid.shape, 2.0), np.full(grid.shape, -6.0)])
    law = AdvectionDiffusion(grid, np.full(grid.shape, 4.0), velocity)
    assert law.peclet == pytest.approx(max(2 * 0.25, 6 * 0.125) / 4)


def test_a_stream_too_fast_for_the_grid_is_refused_and_the_remedy_works():
    grid, speed = Grid.uniform(11), 90.0
    with pytest.raises(PhysicsError) as error:
        AdvectionDiffusion(grid, np.ones(grid.shape), swirl(grid, speed=speed))
    assert error.value.got == "9"
    fine = grid.refine(5)
    assert AdvectionDiffusion(fine, np.ones(fine.shape), swirl(fine, speed=speed)).peclet < 2


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_a_diffusivity_that_is_not_positive_is_refused(value):
    grid = Grid.uniform(5)
    diffusivity = np.ones(grid.shape)
    diffusivity[2, 3] = value
    with pytest.raises(PhysicsError):
        AdvectionDiffusion(grid, diffusivity, np.zeros((2, *grid.shape)))


def test_fields_of_another_grid_are_refused():
    grid = Grid.uniform(5)
    with pytest.raises(ShapeError, match=r"got shape \(6, 5\)"):
        AdvectionDiffusion(grid, np.ones((6, 5)), np.zeros((2, 5, 5)))
    with pytest.raises(ShapeError, match=r"got shape \(2, 6, 5\)"):
        AdvectionDiffusion(grid, np.ones((5, 5)), np.zeros((2, 6, 5)))


@pytest.mark.parametrize("components", [1, 3, 4])
def test_a_velocity_has_one_component_per_axis(components):
    with pytest.raises(ShapeError, match=r"expected shape \(2, 9, 9\)"):
        AdvectionDiffusion(Grid.uniform(9), np.ones((9, 9)), np.zeros((components, 9, 9)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_velocity_that_is_not_finite_is_refused(value):
    with pytest.raises(PhysicsError) as error:
        AdvectionDiffusion(Grid.uniform(9), np.ones((9, 9)), np.full((2, 9, 9), value))
    assert not np.isfinite(error.value.got)
