"""The closed-form truths, derived a second time with computer algebra."""

import numpy as np
import pytest
import sympy

from nipde.boundary import Neumann
from nipde.grid import Axis, Grid
from tests.oracles.manufactured import observed_orders, slab_green, smooth_diffusion, smooth_transport


def derived(grid, speed):
    """b, p, v and the load -∇·(b∇p) + ∇·(v p), from the formulas in the docstrings, at the nodes."""
    x = sympy.symbols("x0:3", real=True)[: grid.dimension]
    b = 2 + sympy.prod(sympy.sin(2 * sympy.pi * x_a + a) for a, x_a in enumerate(x))
    p = sympy.prod(sympy.sin((a + 1) * sympy.pi * x_a) for a, x_a in enumerate(x))
    v = [speed * (a + 1) * sympy.cos(sympy.pi * x_a) for a, x_a in enumerate(x)]
    load = sum(sympy.diff(-b * sympy.diff(p, x_a) + v_a * p, x_a) for x_a, v_a in zip(x, v, strict=True))

    def at_nodes(formula):
        return np.broadcast_to(sympy.lambdify(x, formula, "numpy")(*grid.coordinates), grid.shape)

    return at_nodes(b), at_nodes(p), np.stack([at_nodes(component) for component in v]), at_nodes(load)


def largest_difference(truth, expected):
    fields = (truth.coefficient, truth.solution, truth.velocity, truth.load)
    return max(np.max(np.abs(field - other)) for field, other in zip(fields, expected, strict=True))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_diffusion_load_is_the_one_algebra_derives(dimension):
    grid = Grid.uniform(8, dimension=dimension)
    assert largest_difference(smooth_diffusion(grid), derived(grid, 0)) < 1e-10
    assert largest_difference(smooth_diffusion(grid), derived(grid, 0.01)) > 1e-3  # the check sees a wrong law


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_transport_load_is_the_one_algebra_derives(dimension):
    grid = Grid.uniform(8, dimension=dimension)
    assert largest_difference(smooth_transport(grid, speed=1.5), derived(grid, 1.5)) < 1e-10
    assert largest_difference(smooth_transport(grid, speed=1.5), derived(grid, -1.5)) > 1  # against the stream


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_truths_are_well_posed(dimension):
    grid = Grid.uniform(9, dimension=dimension)
    truth = smooth_transport(grid, speed=1.0)
    assert truth.coefficient.min() >= 1
    assert np.max(np.abs(truth.solution[~grid.unknown])) < 1e-14
    assert np.max(np.abs(truth.solution)) > 0.5
    divergence = sum(np.gradient(truth.velocity[a], grid.spacing[a], axis=a) for a in range(dimension))
    assert np.max(np.abs(divergence)) > 1  # the harder case: the flow is not free of divergence


@pytest.mark.parametrize("source", [2, 6, 10])
def test_slab_response_is_driven_by_one_unit_load(source):
    grid = Grid.uniform(13, dimension=1, length=2.4)
    (axis,) = grid.axes
    jump = axis.coordinates[6] + axis.spacing / 2
    p = slab_green(grid, source=source, jump=jump, left=12.0, right=3.0)
    assert p[0] == 0
    assert abs(p[-1]) < 1e-15
    faces = np.arange(12)
    pure = faces != 6  # the face that holds the jump has no single b
    flow = (np.where(faces < 6, 12.0, 3.0) * (p[:-1] - p[1:]) / axis.spacing)[pure]
    left_of_source = (faces < source)[pure]
    for side in (left_of_source, ~left_of_source):
        assert np.ptp(flow[side]) < 1e-13
    assert flow[-1] - flow[0] == pytest.approx(1.0, rel=1e-13)


def test_slab_response_is_reciprocal_and_needs_a_single_axis():
    grid = Grid.uniform(11, dimension=1)
    columns = [slab_green(grid, source=node, jump=0.33, left=12.0, right=3.0) for node in range(11)]
    assert np.max(np.abs(np.stack(columns) - np.stack(columns).T)) < 1e-16
    with pytest.raises(ValueError, match="too many values"):
        slab_green(Grid((Axis(5), Axis(5, boundary=Neumann()))), source=1, jump=0.5, left=1.0, right=2.0)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.5])
def test_observed_order_reads_the_power_of_the_spacing(order):
    grids = [Grid.uniform(nodes) for nodes in (6, 11, 31)]
    assert observed_orders(lambda grid: 7 * grid.spacing[0] ** order, grids) == pytest.approx([order, order])
