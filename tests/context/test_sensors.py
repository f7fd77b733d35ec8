"""Sensors: H is a selection at nodes and an average over discs; pairs keep what was measured and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.boundary import Neumann, Periodic
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.errors import GridError, PairsError, ShapeError
from nipde.grid import Axis, Grid

GRID = Grid((Axis(6, 1.0), Axis(5, 2.0, Neumann())))


# H


def test_at_nodes_of_the_grid_the_matrix_selects():
    mask = np.random.default_rng(0).random(GRID.shape) < 0.5
    for chosen, sensors in (
        (GRID.unknown, Sensors.at_nodes(GRID)),
        (GRID.unknown & mask, Sensors.at_nodes(GRID, mask=mask)),
    ):
        expected = np.eye(GRID.size)[chosen.ravel()]
        assert len(sensors) == len(expected) == chosen.sum()
        np.testing.assert_allclose(sensors.matrix(GRID).toarray(), expected, atol=1e-12)


def test_the_same_sensors_select_on_a_finer_grid():
    fine = GRID.refine(3)
    field = np.random.default_rng(1).standard_normal(fine.shape)
    expected = fine.restrict(field, to=GRID)[GRID.unknown]
    np.testing.assert_allclose(Sensors.at_nodes(GRID).matrix(fine) @ field.ravel(), expected, atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_average_of_a_linear_function_is_its_value_at_the_centre(dimension):
    grid = Grid(tuple(Axis(5 + place, 1.0 + place) for place in range(dimension)))
    centres = np.random.default_rng(2).uniform(0.3, 0.7, (6, dimension))
    field = 1.0 + sum((2 + place) * x for place, x in enumerate(grid.coordinates))
    rows = Sensors.at(centres, radius=0.25).matrix(grid)
    np.testing.assert_allclose(rows @ field.ravel(), 1 + centres @ (2 + np.arange(dimension)), rtol=1e-12)
    points = Sensors.at(centres).matrix(grid)
    assert np.all(np.diff(rows.indptr) >= np.diff(points.indptr))
    assert np.abs(rows - points).max() > 0.05  # wider than a point


def test_the_average_of_a_bend_is_that_of_the_disc():
    grid = Grid.uniform(81)
    field = grid.coordinates[0] ** 2
    found = Sensors.at([[0.5, 0.5]], radius=0.2).matrix(grid) @ field.ravel()
    # The mean of x² over a disc is its value at the centre and radius² / 4; the points stand on a coarse lattice.
    assert float(found[0]) == pytest.approx(0.25 + 0.04 / 4, abs=0.04 / 4 * 0.25)


def test_points_and_discs_may_stand_side_by_side():
    centres = np.array([[0.31, 0.9], [0.5, 1.1], [0.62, 0.7]])
    mixed = Sensors(centres, np.array([0.0, 0.2, 0.0])).matrix(GRID).toarray()
    points, discs = (Sensors.at(centres, radius=radius).matrix(GRID).toarray() for radius in (0.0, 0.2))
    np.testing.assert_allclose(mixed, [points[0], discs[1], points[2]], atol=1e-14)
    assert not np.allclose(points[1], discs[1])


def test_a_disc_over_the_side_averages_what_is_inside():
    rows = Sensors.at([[0.02, 1.0]], radius=0.3).matrix(GRID)
    assert float(rows.sum()) == pytest.approx(1.0)
    assert float((rows @ GRID.coordinates[0].ravel())[0]) > 0.02


@pytest.mark.parametrize("centre", [0.0, 0.02, 0.97])
def test_a_disc_over_a_periodic_end_goes_on_at_the_other(centre):
    grid = Grid((Axis(12, 1.0, Periodic()), Axis(9, 1.0)))
    rows, moved = (Sensors.at([[at % 1.0, 0.5]], radius=0.2).matrix(grid).toarray()[0] for at in (centre, centre + 0.5))
    rolled = np.roll(rows.reshape(grid.shape), 6, axis=0)  # half a period
    np.testing.assert_allclose(rolled.ravel(), moved, atol=1e-12)
    assert rows.reshape(grid.shape)[1].sum() > 0.05
    assert rows.reshape(grid.shape)[-1].sum() > 0.05


def test_sensors_outside_or_of_the_wrong_shape_are_refused():
    with pytest.raises(GridError):
        Sensors.at([[0.5, 2.5]]).matrix(GRID)
    for points, radii in ((np.ones((3, 2)), np.zeros(2)), (np.ones(3), np.zeros(3)), (np.ones((0, 2)), np.zeros(0))):
        with pytest.raises(ShapeError) as error:
            Sensors(points, radii)
        assert error.value.remedy == "give one row per sensor"


# Pairs


@pytest.fixture
def pairs():
    fields = torch.randn(2, 4, 1, *GRID.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Pairs(GRID, *fields, noise=0.3)


def test_a_mask_keeps_exactly_the_measured_nodes_and_gaps_are_nan(pairs):
    mask = torch.rand(4, 1, *GRID.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    mask[:, 0, 2, 3] = False  # no pair
    mask[:, 0, 2, 2] = torch.tensor([True, False, True, True])  # one pair lacks it
    hidden = torch.where(mask, pairs.responses, torch.inf)
    found = SensorPairs.of(replace(pairs, responses=hidden, mask=mask))
    somewhere = mask.any(0)[0].numpy() & GRID.unknown
    np.testing.assert_allclose(found.sensors.points, np.stack([x[somewhere] for x in GRID.coordinates], -1))
    assert not somewhere[2, 3]
    expected = np.where(mask[:, 0], pairs.responses[:, 0], np.nan)[:, somewhere]
    np.testing.assert_array_equal(found.readings.numpy(), expected)
    middle = int(np.flatnonzero(np.flatnonzero(somewhere) == np.ravel_multi_index((2, 2), GRID.shape))[0])
    assert torch.isnan(found.readings[:, middle]).tolist() == [False, True, False, False]
    assert (found.count, found.noise) == (4, 0.3)
    assert torch.equal(found.loads, pairs.loads)


def test_without_a_mask_every_unknown_node_is_a_sensor(pairs):
    found = SensorPairs.of(pairs.to(dtype=torch.float32))
    assert found.readings.dtype == torch.float64
    np.testing.assert_allclose(found.readings, pairs.responses[:, 0][:, torch.tensor(GRID.unknown)], rtol=1e-6)
    rows = found.sensors.matrix(GRID) @ pairs.responses[2, 0].ravel().numpy()
    np.testing.assert_allclose(rows, found.readings[2], rtol=1e-6)


def test_arrays_come_without_a_component_and_pairs_are_taken_with_their_noise(pairs):
    sensors = Sensors.at_nodes(GRID)
    noise = np.arange(1.0, 1 + 4 * len(sensors)).reshape(4, -1)
    given = SensorPairs.from_arrays(
        pairs.loads[:, 0].numpy(), np.ones((4, len(sensors))), grid=GRID, sensors=sensors, noise=noise
    )
    assert torch.equal(given.loads, pairs.loads)
    some = given.take([3, 1])
    assert some.count == 2
    np.testing.assert_array_equal(some.noise.numpy(), noise[[3, 1]])
    per_sensor = replace(given, noise=torch.tensor(noise[0])).take([3, 1])
    np.testing.assert_array_equal(per_sensor.noise.numpy(), noise[0])


def sensor_pairs(pairs, **changes):
    found = SensorPairs.of(pairs)
    fields = {name: getattr(found, name) for name in ("loads", "sensors", "readings", "noise")}
    return SensorPairs(GRID, **{**fields, **changes})


def test_errors_name_their_type(pairs):
    good = sensor_pairs(pairs)
    gap = good.readings.clone()
    gap[0, 0] = torch.nan
    count, loads = len(good.sensors), good.loads
    endless = loads.clone()
    endless[0, 0, 2, 2] = torch.inf
    refused = [
        (ShapeError, {"loads": loads[:, 0]}),
        (ShapeError, {"loads": torch.cat([loads, loads], dim=1)}),
        (ShapeError, {"loads": loads[..., :-1]}),
        (ShapeError, {"loads": loads[:3]}),
        (ShapeError, {"readings": good.readings[:, 1:]}),
        (PairsError, {"loads": endless}),
        (PairsError, {"readings": torch.full_like(gap, torch.nan)}),
        (PairsError, {"noise": -1.0}),
        (PairsError, {"noise": float("nan")}),
        (PairsError, {"noise": torch.ones(count - 1)}),
        (PairsError, {"noise": torch.ones(2, 4, count)}),
        (PairsError, {"covariance": torch.eye(count - 1)}),
        (PairsError, {"readings": gap, "covariance": torch.eye(count)}),
    ]
    for kind, changes in refused:
        with pytest.raises(kind):
            sensor_pairs(pairs, **changes)
    for changes in ({"readings": gap}, {"noise": 0.0}, {"noise": torch.ones(count)}, {"covariance": torch.eye(count)}):
        sensor_pairs(pairs, **changes)


def test_only_one_system_of_scalar_fields_with_something_measured_has_sensors(pairs):
    batch = replace(pairs, loads=pairs.loads[None], responses=pairs.responses[None])
    vector = replace(pairs, responses=pairs.responses.expand(-1, 2, -1, -1))
    outside = replace(pairs, mask=~torch.tensor(GRID.unknown))
    for other in (batch, vector, outside):
        with pytest.raises(PairsError):
            SensorPairs.of(other)
    assert SensorPairs.of(batch.system(0)).count == 4
