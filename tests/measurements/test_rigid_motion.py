import numpy as np
import pytest

from nipde.errors import MeasurementError
from nipde.grid import Axis, Grid
from nipde.measurements.rigid_motion import motion_names, remove_rigid_motion

GRID = Grid((Axis(9, 4.0), Axis(7, 2.0)))


def gaps(shape, seed=0):
    return np.random.default_rng(seed).random(shape) > 0.2


def test_a_motion_in_the_plane_is_found_and_removed():
    x, y = GRID.coordinates
    moved = np.stack([0.3 - 0.01 * y, -0.2 + 0.01 * x])[None]
    mask = gaps(moved.shape)
    cleaned, motion = remove_rigid_motion(moved, mask, GRID)
    assert motion_names(GRID, 2) == ("shift along x", "shift along y", "rotation xy")
    np.testing.assert_allclose(motion, [[0.3, -0.2, 0.01]], atol=1e-12)
    assert np.abs(cleaned).max() < 1e-12


def test_what_is_left_does_not_move():
    rng = np.random.default_rng(1)
    values, mask = rng.standard_normal((3, 2, *GRID.shape)), gaps((3, 2, *GRID.shape))
    once, _ = remove_rigid_motion(values, mask, GRID)
    twice, motion = remove_rigid_motion(once, mask, GRID)
    np.testing.assert_allclose(twice, once, atol=1e-12)
    assert np.abs(motion).max() < 1e-12
    assert (once[~mask] == 0).all()


def test_one_component_loses_a_plane():
    x, y = GRID.coordinates
    cleaned, motion = remove_rigid_motion((1 + 2 * x - 3 * y)[None, None], np.ones((1, 1, *GRID.shape), bool), GRID)
    assert motion_names(GRID, 1) == ("shift", "slope along x", "slope along y")
    np.testing.assert_allclose(motion, [[1, 2, -3]], atol=1e-10)
    assert np.abs(cleaned).max() < 1e-10


def test_too_few_points_are_refused():
    mask = np.zeros((1, 1, *GRID.shape), bool)
    mask[0, 0, :2, :2] = True
    with pytest.raises(MeasurementError, match="at least 6 measured"):
        remove_rigid_motion(np.ones(mask.shape), mask, GRID)
    with pytest.raises(MeasurementError, match="1 or 2 components"):
        remove_rigid_motion(np.ones((1, 3, *GRID.shape)), np.ones((1, 3, *GRID.shape), bool), GRID)
