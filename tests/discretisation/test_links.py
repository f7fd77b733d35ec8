"""Links between cells: they tile the box, and every matrix assembled from them conserves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nipde.boundary import BOUNDARIES, Dirichlet, Neumann, Periodic
from nipde.discretisation.links import Arithmetic, Harmonic, links_of
from nipde.grid import Axis, Grid
from nipde.physics.darcy import Darcy

D, N, P = Dirichlet(), Neumann(), Periodic()
GRIDS = [
    Grid(tuple(Axis(4 + place, 1.0 + 0.5 * place, kind) for place, kind in enumerate(kinds)))
    for kinds in [(D,), (N,), (P,), (D, D), (D, N), (P, D), (N, P), (D, D, D), (D, N, P), (P, P, N)]
]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "-".join(a.boundary.name for a in grid.axes))
positive = st.floats(1e-3, 1e3)


def outflow_by_hand(grid, conductance, transport):
    """The slow oracle: one loop over the links, on all nodes, then the free ones."""
    links, matrix = links_of(grid), np.zeros((grid.size, grid.size))
    for first, second, c, t in zip(links.first, links.second, conductance, transport, strict=True):
        for column, share in ((first, c + t / 2), (second, -c + t / 2)):
            matrix[first, column] += share
            matrix[second, column] -= share
    return matrix[np.ix_(links.unknown, links.unknown)]


@settings(max_examples=50, deadline=None)
@given(a=positive, b=positive, scale=positive)
def test_means_lie_between_and_treat_both_sides_alike(a, b, scale):
    for mean in (Harmonic(), Arithmetic()):
        assert min(a, b) * (1 - 1e-12) <= mean(a, b) <= max(a, b) * (1 + 1e-12)
        assert mean(a, b) == mean(b, a)
        assert mean(scale * a, scale * b) == pytest.approx(scale * mean(a, b))
    assert Harmonic()(a, b) <= Arithmetic()(a, b) * (1 + 1e-12)


def test_the_two_means_of_the_two_phases():
    assert Harmonic()(12.0, 3.0) == 4.8
    assert Arithmetic()(12.0, 3.0) == 7.5


@every_grid
def test_every_neighbour_pair_shares_exactly_one_face(grid):
    links = links_of(grid)
    expected = sum(axis.intervals * grid.size // axis.nodes for axis in grid.axes)
    pairs = {frozenset(pair) for pair in zip(links.first.tolist(), links.second.tolist(), strict=True)}
    assert len(links.first) == len(pairs) == expected
    start, end = (np.stack(np.unravel_index(nodes, grid.shape)) for nodes in (links.first, links.second))
    steps = (end - start) % np.array(grid.shape)[:, None]
    assert np.array_equal(steps, links.axis == np.arange(grid.dimension)[:, None])


@every_grid
def test_faces_of_each_axis_tile_the_box(grid):
    links = links_of(grid)
    for place, axis in enumerate(grid.axes):
        mine = links.axis == place
        assert np.sum(links.area[mine] * links.distance[mine]) == pytest.approx(grid.volume, rel=1e-13)
        assert np.all(links.distance[mine] == axis.spacing)


@every_grid
def test_assembly_equals_the_loop_over_faces(grid):
    rng, links = np.random.default_rng(0), links_of(grid)
    conductance, transport = rng.random(len(links.first)), rng.standard_normal(len(links.first))
    still = links.assemble(conductance=conductance).toarray()
    moving = links.assemble(conductance=conductance, transport=transport).toarray()
    assert np.max(np.abs(still - outflow_by_hand(grid, conductance, 0 * transport))) < 1e-14
    assert np.max(np.abs(moving - outflow_by_hand(grid, conductance, transport))) < 1e-14
    assert np.max(np.abs(moving - still)) > 0.1


@pytest.mark.parametrize("kinds", [(N,), (P,), (N, P), (P, N, N)])
def test_what_leaves_one_cell_enters_another(kinds):
    grid = Grid(tuple(Axis(5, 1.0, kind) for kind in kinds))
    rng, links = np.random.default_rng(1), links_of(grid)
    matrix = links.assemble(conductance=rng.random(len(links.first)), transport=rng.standard_normal(len(links.first)))
    assert np.max(np.abs(matrix.sum(axis=0))) < 1e-13
    assert np.max(np.abs(matrix.sum(axis=1))) > 0.1  # only the columns: a flow carries even a constant about


def test_velocity_crosses_a_face_as_the_mean_of_its_nodes():
    grid = Grid((Axis(3), Axis(4, boundary=Periodic())))
    links, velocity = links_of(grid), np.random.default_rng(2).standard_normal((2, *grid.shape))
    found = links.normal_velocity(velocity)
    along_x, along_y = links.axis == 0, links.axis == 1
    assert np.array_equal(found[along_x].reshape(2, 4), (velocity[0, :-1] + velocity[0, 1:]) / 2)
    assert np.array_equal(found[along_y].reshape(3, 4), (velocity[1] + np.roll(velocity[1], -1, axis=1)) / 2)


@pytest.mark.parametrize("kinds", [(D, D), (D, D, D), (D, N, D)])
def test_no_coefficient_in_a_corner_is_ever_read_and_every_other_one_is(kinds):
    grid = Grid(tuple(Axis(5, 1.0, kind) for kind in kinds))
    before = Darcy(grid, np.ones(grid.shape)).matrix.toarray()
    read = np.zeros(grid.shape, dtype=bool)
    for node in np.ndindex(grid.shape):
        permeability = np.ones(grid.shape)
        permeability[node] = 100.0
        read[node] = not np.array_equal(before, Darcy(grid, permeability).matrix.toarray())
    assert np.array_equal(read, ~grid.corners)


def test_faces_are_built_once_per_grid():
    assert links_of(Grid.uniform(5)) is links_of(Grid.uniform(5))
    assert links_of(Grid.uniform(5)) is not links_of(Grid.uniform(5, boundary=BOUNDARIES["neumann"]))
