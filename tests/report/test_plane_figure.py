import numpy as np
import pytest
from matplotlib import pyplot

import nipde
from nipde.errors import ShapeError
from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Measurement
from nipde.measurements.units import Units
from nipde.report.measurement_figure import measurement_figure
from nipde.report.system_figure import Panel, system_figure

BOX = Grid((Axis(6, 5.0), Axis(4, 3.0), Axis(5, 8.0)))


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def drawn(figure):
    """Arrays and limits of all maps, in the order of the figure."""
    meshes = [place.collections[0] for place in figure.axes if place.get_title()]
    return [np.ma.filled(mesh.get_array(), np.nan) for mesh in meshes], [mesh.get_clim() for mesh in meshes]


def measurement(grid, mask=None):
    loads, responses = np.random.default_rng(0).standard_normal((2, 3, *grid.shape))
    pairs = nipde.Pairs.from_arrays(loads, responses, grid=grid, mask=mask)
    return Measurement(pairs, Units("m", "W/m^3", "K"), (10.0,) * grid.dimension, (), ()), responses


def test_a_measured_box_is_drawn_on_planes_through_its_largest_response():
    mask = np.ones((3, *BOX.shape), bool)
    mask[1, 0] = False
    found, responses = measurement(BOX, mask)
    responses = np.where(mask, responses, np.nan)[1]
    i, j, k = np.unravel_index(np.nanargmax(np.abs(responses)), BOX.shape)
    figure = measurement_figure(found, pair=1)
    arrays, limits = drawn(figure)
    assert len(arrays) == 6
    for array, plane in zip(arrays[3:], (responses[:, :, k], responses[:, j], responses[i]), strict=True):
        np.testing.assert_array_equal(array, plane.T)
    assert len(set(limits[3:])) == 1
    assert limits[3][1] == np.nanmax(np.abs(responses))
    assert figure.axes[3].get_title() == f"z = {10 + 2 * k:g} m"


def test_a_system_of_three_axes_is_drawn_on_planes_through_the_middle():
    rng = np.random.default_rng(0)
    phases, load = rng.choice([3.0, 12.0], (1, *BOX.shape)), rng.standard_normal((1, *BOX.shape))
    figure = system_figure(BOX, [Panel("hidden", "1", phases), Panel("load", "W", load)], title="system 0")
    arrays, limits = drawn(figure)
    np.testing.assert_array_equal(arrays[0], (phases[0, :, :, 2] > 5).T)
    np.testing.assert_array_equal(arrays[4], load[0, :, 2].T)
    np.testing.assert_array_equal(arrays[5], load[0, 3].T)
    assert len(set(limits[3:])) == 1


def test_a_line_has_no_such_figure():
    with pytest.raises(ShapeError) as error:
        measurement_figure(measurement(Grid.uniform(5, dimension=1))[0])
    assert error.value.expected == "two axes or three"
