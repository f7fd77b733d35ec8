"""Conductances below the grid: layers give resistances in series and in parallel, interfaces act before they arrive."""

import numpy as np
import pytest

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discretisation.links import Harmonic, links_of
from nipde.discretisation.subcells import subcells_of
from nipde.estimators.inverse.level_sets import LevelSetPhases
from nipde.grid import Axis, Grid

D, N, P = Dirichlet(), Neumann(), Periodic()
GRIDS = [
    Grid(tuple(Axis(5 + place, 1.0 + 0.5 * place, kind) for place, kind in enumerate(kinds)))
    for kinds in [(D,), (D, D), (D, P), (D, N, P)]
]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "-".join(a.boundary.name for a in grid.axes))


def positions(cells, grid):
    """Where the points of the subcells are: coordinates, interpolated; of axes that are not periodic."""
    return [cells.interpolation @ x.ravel() for x in grid.coordinates]


@every_grid
@pytest.mark.parametrize("per_axis", [1, 2, 3])
def test_a_constant_coefficient_gives_s_b(grid, per_axis):
    cells, factor = subcells_of(grid, grid.refine(2), per_axis), links_of(grid).factor
    log = cells.interpolation @ np.full(grid.refine(2).size, np.log(7.0))
    assert len(log) == len(factor) * per_axis**grid.dimension
    conductances, slopes = cells.conductances(log)
    np.testing.assert_allclose(conductances, 7.0 * factor, rtol=1e-12)
    # b everywhere times 1 + ε is c times 1 + ε.
    np.testing.assert_allclose(cells.gathered(slopes).sum(axis=1), conductances, rtol=1e-12)


@pytest.mark.parametrize("place", [0, 1], ids=["x", "y"])
@pytest.mark.parametrize("edge", [0.375, 0.5, 0.3125, 0.0625], ids=["link", "node", "quarter", "side"])
def test_layers_are_in_series_across_a_link_and_parallel_along_it(place, edge):
    grid, low, high = Grid.uniform(5), 2.0, 30.0
    cells, links = subcells_of(grid, grid, 4), links_of(grid)
    log = np.log(np.where(positions(cells, grid)[place] < edge, low, high))
    node = grid.coordinates[place].ravel()[links.first]
    along = links.axis == place
    start = np.where(along, node, np.maximum(node - 0.125, 0))
    end = np.where(along, node + 0.25, np.minimum(node + 0.125, 1))
    share = np.clip((edge - start) / (end - start), 0, 1)
    series, parallel = 1 / (share / low + (1 - share) / high), share * low + (1 - share) * high
    assert np.any((share > 0) & (share < 1))
    expected = links.factor * np.where(along, series, parallel)
    np.testing.assert_allclose(cells.conductances(log)[0], expected, rtol=1e-12)


def test_one_point_or_one_dimension_has_no_parallel_layers():
    grid = Grid((Axis(4, 3.0),))
    cells = subcells_of(grid, grid, 2)
    first, second = np.array([1.0, 2.0, 5.0]), np.array([4.0, 2.0, 0.5])
    log = np.log(np.stack([first, second], axis=1)).ravel()
    np.testing.assert_allclose(cells.conductances(log)[0], Harmonic()(first, second), rtol=1e-14)


def test_points_of_a_periodic_axis_go_around_its_end():
    grid = Grid((Axis(5, 1.0), Axis(4, 1.0, P)))
    cells, links = subcells_of(grid, grid, 2), links_of(grid)
    only = np.zeros(grid.shape)
    only[:, 0] = 1.0
    reached = np.abs(cells.gathered(np.ones(len(links.first) * 4)) @ (cells.interpolation @ only.ravel())) > 1e-12
    columns = np.stack([links.first, links.second]) % 4
    across, along = links.axis == 0, links.axis == 1
    # Cells reach half a spacing to both sides: those of the columns 3, 0, 1; links those that end at 0.
    np.testing.assert_array_equal(reached[across], np.isin(columns[0][across], (3, 0, 1)))
    np.testing.assert_array_equal(reached[along], (columns[:, along] == 0).any(axis=0))


@every_grid
def test_derivatives_are_those_of_finite_differences(grid):
    rng, cells = np.random.default_rng(0), subcells_of(grid, grid, 2)
    log = rng.standard_normal(cells.interpolation.shape[0])
    direction = rng.standard_normal(len(log))
    up, down = (cells.conductances(log + step * direction)[0] for step in (1e-5, -1e-5))
    found = cells.gathered(cells.conductances(log)[1]) @ direction
    np.testing.assert_allclose(found, (up - down) / 2e-5, rtol=1e-7, atol=1e-7 * np.abs(found).max())


def test_a_moving_interface_changes_conductances_continuously():
    grid, nodes = Grid.uniform(9, dimension=1), Grid.uniform(17, dimension=1)
    model, cells, links = LevelSetPhases(nodes), subcells_of(grid, nodes, 3), links_of(grid)

    def conductances(places):
        levels = np.log([1.0, 9.0])
        found = []
        for at in places:
            level_set = (at - nodes.coordinates[0]) / nodes.spacing[0]
            parameters = np.concatenate([level_set, levels[:1], np.diff(levels)])
            found.append(cells.conductances(model.log_coefficient(parameters, cells.interpolation)[0])[0])
        return np.array(found)

    largest = []
    for count in (401, 801):
        moved = conductances(np.linspace(0.3, 0.7, count))
        steps = np.diff(moved, axis=0)
        assert steps.min() >= -1e-12  # more of the better conductor everywhere
        largest.append(steps.max() / (8 * links.factor.max()))  # over the whole change from 1 to 9
    assert largest[0] < 0.03
    assert largest[1] < 0.6 * largest[0]
    # The interface never rests: between nodes it still acts.
    assert np.all(np.diff(conductances(np.linspace(0.3, 0.7, 17)).sum(axis=1)) > 1e-3 * links.factor.max())
