import numpy as np

from benchmarks.generation import _five_points, bare_seconds
from nipde.data.darcy import DarcyRecipe
from nipde.data.plan import Plan
from nipde.grid import Grid
from nipde.physics.darcy import Darcy


def test_the_bare_baseline_solves_the_same_equation():
    rng, grid = np.random.default_rng(0), Grid.uniform(9)
    permeability, load = np.where(rng.random((9, 9)) < 0.5, 12.0, 3.0), rng.standard_normal((9, 9))
    response = Darcy(grid, permeability).solve(load)
    inside = (slice(1, -1),) * 2
    np.testing.assert_allclose(_five_points(permeability) @ response[inside].ravel(), load[inside].ravel() / 64)


def test_the_bare_baseline_takes_time_in_proportion_to_its_work():
    few, many = (bare_seconds(Plan(DarcyRecipe(nodes=11), systems=systems)) for systems in (10, 200))
    assert many > 5 * few > 0
