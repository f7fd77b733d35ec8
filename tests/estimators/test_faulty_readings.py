"""Faulty sensors and pairs on plates made apart from the package, by finite volumes."""

import numpy as np
import pytest
from scipy.interpolate import RectBivariateSpline

from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.estimators.inverse.faulty_readings import largest_group, most_pairs
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid
from tests.estimators.test_plates_of_finite_volumes import CENTRES, X, Y, responses

PAIRS, SENSORS, ONE, OTHER = 14, 60, 17, 30
GRID = Grid.uniform(21)
#: Coarse grids: seconds instead of tens of them.
ESTIMATOR = SensorInversion(material=24, solver=70)
INCLUSIONS = np.where((np.hypot(X - 0.4, Y - 0.6) < 0.2) | (np.hypot(X - 0.75, Y - 0.3) < 0.12), 9.0, 2.0)


def loads_at(x, y):
    sizes, waves = np.random.default_rng(5).standard_normal((PAIRS, 5, 5)), np.arange(1, 6)
    in_x, in_y = (np.sin(np.pi * waves[:, None, None] * one) for one in (x, y))
    return np.einsum("pij,ixy,jxy->pxy", sizes, in_x, in_y)


class Plate:
    """Readings with 1 % noise, at points."""

    def __init__(self, coefficient, points=None):
        rng = np.random.default_rng(6)
        self.points = rng.uniform(0.05, 0.95, (SENSORS, 2)) if points is None else points
        padded = np.concatenate([[0], CENTRES, [1]])
        fields = np.pad(responses(coefficient, loads_at(X, Y)), ((0, 0), (1, 1), (1, 1)))
        exact = np.stack([RectBivariateSpline(padded, padded, one, kx=1, ky=1).ev(*self.points.T) for one in fields])
        self.noise = 0.01 * float(np.sqrt(np.mean(exact**2)))
        self.readings = exact + self.noise * rng.standard_normal(exact.shape)

    def law(self, readings, *, stated=True, estimator=ESTIMATOR, points=None):
        return estimator.law(self.pairs(readings, noise=self.noise if stated else None, points=points))

    def pairs(self, readings, *, noise=-1, points=None):
        sensors, noise = Sensors.at(self.points if points is None else points), self.noise if noise == -1 else noise
        return SensorPairs.from_arrays(loads_at(*GRID.coordinates), readings, grid=GRID, sensors=sensors, noise=noise)


@pytest.fixture(scope="module")
def plate():
    return Plate(INCLUSIONS)


@pytest.fixture(scope="module")
def without_them(plate):
    """The law by the other sensors."""
    keep = np.setdiff1d(np.arange(SENSORS), [ONE, OTHER])
    return Plate.law(plate, plate.readings[:, keep], points=plate.points[keep])


def faults(law):
    return {one["number"]: (one["fault"], one["amount"]) for one in law.summary["faulty_sensors"]}


def left_out_pairs(law):
    return {one["number"]: (one["fault"], one["amount"]) for one in law.summary["faulty_pairs"]}


def test_nothing_is_left_out_where_nothing_is_wrong(plate):
    law = plate.law(plate.readings)
    assert "faulty_sensors" not in law.summary
    assert len(law.faulty_positions) == 0
    assert not law.bands.outlier_test.is_outlier


def wrong(plate, fault):
    readings = plate.readings.copy()
    match fault:
        case "stuck":
            readings[:, ONE] = 0.0
        case "gain":
            readings[:, ONE] *= -1
        case "offset":
            readings[:, ONE] += 15 * plate.noise
    return readings


@pytest.mark.parametrize(("fault", "amount"), [("stuck", 0.0), ("gain", -1.0), ("offset", 15.0)])
def test_one_faulty_sensor_is_left_out_and_its_fault_stated(plate, fault, amount):
    law = plate.law(wrong(plate, fault))
    ((number, (found, size)),) = faults(law).items()
    assert (number, found) == (ONE, fault)
    assert size == pytest.approx(amount * (plate.noise if fault == "offset" else 1), rel=0.1, abs=1e-12)
    np.testing.assert_allclose(law.faulty_positions, [plate.points[ONE]])
    assert not law.bands.outlier_test.is_outlier


@pytest.mark.parametrize("stated", [True, False])
def test_two_exchanged_sensors_leave_the_material_of_the_others(plate, without_them, stated):
    readings = plate.readings.copy()
    readings[:, [ONE, OTHER]] = readings[:, [OTHER, ONE]]
    law = plate.law(readings, stated=stated)
    assert faults(law) == {ONE: ("exchanged", OTHER), OTHER: ("exchanged", ONE)}
    loads = loads_at(*GRID.coordinates)[:3]
    np.testing.assert_allclose(
        law.solve(loads), without_them.solve(loads), atol=0.01 * np.abs(without_them.solve(loads)).max()
    )
    if stated:  # the estimate of the noise differs a little
        np.testing.assert_array_equal(law.log_coefficient, without_them.log_coefficient)


def test_a_sensor_at_another_place_than_stated_is_left_out(plate):
    points = plate.points.copy()
    points[ONE] += 0.08
    law = plate.law(plate.readings, points=points)
    assert faults(law) == {ONE: ("unknown", None)}


def test_the_fit_to_all_pairs_leaves_out_the_same_sensors(plate):
    pairs = plate.pairs(wrong(plate, "stuck"))
    kernel = ESTIMATOR.continued(ESTIMATOR(pairs.take(range(11))), pairs)
    assert list(faults(kernel.laws[0])) == [ONE]
    assert kernel.laws[0].summary["readings"] == PAIRS * (SENSORS - 1)


def test_a_detail_that_one_sensor_alone_sees_is_no_fault():
    """A small inclusion of a tenth of the coefficient, with one sensor in it."""
    points = np.random.default_rng(6).uniform(0.05, 0.95, (SENSORS, 2))
    points[ONE] = 0.5, 0.2
    apart = np.linalg.norm(points - points[ONE], axis=1)
    points = points[(apart == 0) | (apart > 0.1)]
    plate = Plate(np.where(np.hypot(X - 0.5, Y - 0.2) < 0.04, 0.2, 2.0), points)
    assert "faulty_sensors" not in plate.law(plate.readings).summary


def test_a_wrong_load_is_left_out(plate):
    readings = plate.readings.copy()
    readings[3] *= 1.3
    law = plate.law(readings)
    ((number, (fault, amount)),) = left_out_pairs(law).items()
    assert (number, fault) == (3, "gain")
    assert amount == pytest.approx(1.3, rel=0.01)
    assert law.faulty_pairs == (3,)
    assert law.summary["readings"] == (PAIRS - 1) * SENSORS
    assert not law.bands.outlier_test.is_outlier


def test_exchanged_pairs_and_a_dead_sensor_are_left_out_together(plate):
    readings = wrong(plate, "stuck")
    readings[[3, 8]] = readings[[8, 3]]
    law = plate.law(readings)
    assert left_out_pairs(law) == {3: ("exchanged", 8), 8: ("exchanged", 3)}
    assert list(faults(law)) == [ONE]
    assert not law.bands.outlier_test.is_outlier


def test_sensors_and_pairs_without_any_reading_are_no_faults(plate):
    readings = wrong(plate, "stuck")
    readings[:, 2] = readings[5] = np.nan
    law = plate.law(readings)
    assert list(faults(law)) == [ONE]
    assert left_out_pairs(law) == {}


def test_a_fault_in_later_pairs_is_noticed_by_the_fit_to_all(plate):
    readings = plate.readings.copy()
    readings[12] *= -1
    pairs = plate.pairs(readings)
    kernel = ESTIMATOR.continued(ESTIMATOR(pairs.take(range(11))), pairs)
    assert left_out_pairs(kernel.laws[0]) == {12: ("gain", pytest.approx(-1, rel=0.02))}


def test_as_many_faulty_pairs_as_may_be_left_out():
    assert [most_pairs(count) for count in (4, 5, 8, 30, 50)] == [0, 1, 2, 3, 5]


@pytest.mark.slow
def test_a_wrong_law_does_not_turn_sensors_into_faulty_ones(plate):
    """A reaction that nobody states: many sensors are off, and the alarm stays."""
    readings = plate.readings * (1 + 0.3 * np.sin(2 * np.pi * plate.points[:, 0]))
    law = plate.law(readings)
    assert "faulty_sensors" not in law.summary
    assert law.bands.outlier_test.is_outlier


@pytest.mark.parametrize("options", [{"faults": False}, {"nuisance": ("offset",)}])
def test_the_option_keeps_all_readings(plate, options):
    keep = SensorInversion(material=16, solver=40, phases=(), **options)
    law = plate.law(wrong(plate, "stuck"), estimator=keep)
    assert "faulty_sensors" not in law.summary
    assert law.bands.outlier_test.is_outlier


def test_a_group_of_neighbours():
    points = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), -1).reshape(-1, 2)
    assert largest_group(points, np.array([], dtype=int)) == 0
    assert largest_group(points, np.array([0, 35])) == 1
    assert largest_group(points, np.array([14, 15, 35])) == 2
    assert largest_group(points, np.array([14, 15, 16])) == 3
