import numpy as np
import pytest

from nipde.errors import MeasurementError
from nipde.grid import Axis, Grid
from nipde.measurements.gridding import Gridded
from nipde.measurements.rigid_motion import fit, remove_rigid_motion, rigid_motions
from nipde.measurements.units import Units

GRID = Grid((Axis(9, 4.0), Axis(7, 2.0)))
UNITS = Units("mm", "N", "mm")


def gridded(values, mask=None):
    return Gridded(
        GRID, (0.0, 0.0), values, np.ones(values.shape, bool) if mask is None else mask, None, interpolated=False
    )


def gaps(shape, seed=0):
    return np.random.default_rng(seed).random(shape) > 0.2


def amounts(data):
    motions = rigid_motions(GRID, data.response.shape[1])
    return dict(zip(motions, fit(data, np.stack(list(motions.values()))).T, strict=True))


def test_a_motion_in_the_plane_is_removed():
    x, y = GRID.coordinates
    moved = np.stack([0.3 - 0.01 * y, -0.2 + 0.01 * x])[None]
    data = gridded(moved, gaps(moved.shape))
    sizes = amounts(data)
    assert list(sizes) == ["shift along x", "shift along y", "rotation xy"]
    np.testing.assert_allclose(list(sizes.values()), [[0.3], [-0.2], [0.01]], atol=1e-12)
    rest, notes = remove_rigid_motion(data, UNITS)
    assert np.abs(rest.response).max() < 1e-12
    assert [note.kind for note in notes] == ["reading"]


def test_what_is_left_does_not_move():
    rng = np.random.default_rng(1)
    data = gridded(rng.standard_normal((3, 2, *GRID.shape)), gaps((3, 2, *GRID.shape)))
    once, _ = remove_rigid_motion(data, UNITS)
    twice, _ = remove_rigid_motion(once, UNITS)
    np.testing.assert_allclose(twice.response, once.response, atol=1e-12)
    assert max(np.abs(size).max() for size in amounts(once).values()) < 1e-12
    assert (once.response[~data.mask] == 0).all()


def test_one_component_loses_a_plane():
    x, y = GRID.coordinates
    data = gridded((1 + 2 * x - 3 * y)[None, None])
    sizes = amounts(data)
    assert list(sizes) == ["shift", "slope along x", "slope along y"]
    np.testing.assert_allclose(list(sizes.values()), [[1], [2], [-3]], atol=1e-10)
    assert np.abs(remove_rigid_motion(data, UNITS)[0].response).max() < 1e-10


def test_too_few_points_are_refused():
    mask = np.zeros((1, 1, *GRID.shape), bool)
    mask[0, 0, :2, :2] = True
    with pytest.raises(MeasurementError) as error:
        remove_rigid_motion(gridded(np.ones(mask.shape), mask), UNITS)
    assert "6" in error.value.expected
    assert error.value.got == 4
    with pytest.raises(MeasurementError) as error:
        remove_rigid_motion(gridded(np.ones((1, 3, *GRID.shape))), UNITS)
    assert error.value.got == 3
