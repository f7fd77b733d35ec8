"""Materials that vary in one direction: profile, segments, direction, deviations; found from few sensors."""

from dataclasses import replace
from math import log, pi

import numpy as np
import pytest
import scipy.sparse as sparse

from nipde.context.pairs import Pairs
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.estimators.inverse.layers import Graded, Layers, direction_of, segments
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Axis, Grid
from nipde.kernels.refined import RefinedKernel

GRID = Grid((Axis(31, 2.0), Axis(16, 1.0)))
AT_NODES = sparse.eye_array(GRID.size, format="csr")
POINTS = np.stack([x.ravel() for x in GRID.coordinates], -1)


def across(angle):
    """Distance from the centre along a direction, in spacings."""
    return (POINTS - [1.0, 0.5]) @ [np.cos(angle), np.sin(angle)] / GRID.spacing[0]


@pytest.mark.parametrize("angle", [0.0, 0.4, 2.0])
def test_layers_lie_between_lines_across_the_direction(angle):
    model = Layers(GRID, angle=angle)
    parameters = np.array([0.0, 1.0, 2.0, -0.5, 3.1, -4.2])
    s = across(angle)
    expected = np.where(s < -4.2, 1.0, np.where(s < 3.1, 0.5, 2.5))
    np.testing.assert_array_equal(model.sharp(parameters, AT_NODES), expected)
    far = np.minimum(np.abs(s + 4.2), np.abs(s - 3.1)) > 1
    np.testing.assert_allclose(model.at_nodes(parameters)[far], expected[far], atol=2e-3)
    np.testing.assert_allclose(model.levels(parameters), [1.0, 0.5, 2.5])


def test_the_first_parameter_turns_the_direction():
    turned = Layers(GRID, angle=0.4)
    parameters = np.array([0.3 * turned.reach, 1.0, 2.0, 3.1])
    assert turned.direction(parameters) == pytest.approx(0.7)
    other = Layers(GRID, angle=0.7)
    np.testing.assert_allclose(turned.at_nodes(parameters), other.at_nodes(np.array([0.0, 1.0, 2.0, 3.1])))


@pytest.mark.parametrize(
    "model", [Graded(GRID, angle=0.4, knots=41), Layers(GRID, angle=0.4)], ids=["graded", "layers"]
)
def test_on_another_grid_the_material_stays(model):
    rng = np.random.default_rng(0)
    parameters = rng.standard_normal(42) if isinstance(model, Graded) else np.array([2.0, 1.0, 0.7, -0.4, 1.1, -5.0])
    finer, moved = model.moved(parameters, to=GRID.refine(3))
    points = rng.uniform([0.1, 0.1], [1.9, 0.9], (200, 2))
    np.testing.assert_allclose(finer.at(moved, points), model.at(parameters, points), atol=1e-9)


def test_a_profile_is_that_of_the_field():
    model = Graded(GRID, angle=0.4)
    field = np.sin(across(0.4) / 4)
    np.testing.assert_allclose(model.at_nodes(model.start(field)), field, atol=0.15)


def test_segments_are_those_of_least_squares_and_cost():
    rng = np.random.default_rng(1)
    values = np.repeat([0.0, 1.0, 0.2], [20, 7, 13]) + 0.03 * rng.standard_normal(40)
    assert segments(values, cost=0.3) == [20, 27]
    assert segments(values, cost=100.0) == []

    def total(ends, cost):
        return sum(part.size * part.var() + cost for part in np.split(values, ends)) - cost

    for cost in (0.01, 0.05, 0.3):
        best = total(segments(values, cost=cost), cost)
        assert all(
            best <= total(sorted({*rng.integers(1, 40, count)}), cost) + 1e-12 for count in (1, 2, 3) for _ in range(50)
        )


def test_the_direction_of_most_change():
    everywhere = np.ones(GRID.size, dtype=bool)
    angle, share = direction_of(GRID, np.sin(across(0.4) / 4), everywhere)
    assert angle % pi == pytest.approx(0.4, abs=0.02)
    assert share < 1e-3
    x, y = POINTS.T
    assert direction_of(GRID, np.sin(4 * x) + np.sin(4 * y), everywhere)[1] > 0.5


def test_phases_are_counted_if_layers_share_their_values():
    model = Layers(GRID)
    two = np.array([0.0, 1.0, 1.5, -1.45, 1.44, -1.5, -9.0, -4.0, 2.0, 6.0])

    def sure(rows):
        return np.zeros(rows.shape[0])

    assert model.phases(two, sure) == 2
    several = np.array([0.0, 1.0, 0.7, 0.6, 0.8, -1.2, -9.0, -4.0, 2.0, 6.0])  # five values
    assert model.phases(several, sure) == 1
    assert model.phases(np.array([0.0, 1.0, 0.7, 2.0]), sure) == 2
    # The value of the last layer is 1.0 instead of 2.5, and hardly known.
    two[5] = 0.0
    assert model.phases(two, sure) == 2
    two[5] = -0.7
    assert model.phases(two, sure) == 3
    assert model.phases(two, lambda rows: np.asarray(0.5**2 * rows[:, [5]].toarray().ravel() ** 2)) == 2


def test_small_steps_and_thin_layers_may_be_left_out():
    model = Layers(GRID)
    plain = np.array([0.1, 1.0, 2.0, -1.5, 3.1, -4.2])
    assert model.simpler(plain) is None
    small = np.array([0.1, 1.0, 2.0, 0.05, -1.5, 3.1, 9.0, -4.2])
    np.testing.assert_allclose(model.simpler(small), [0.1, 1.0, -1.5, 2.0, -4.2, 3.1])
    thin = np.array([0.1, 1.0, 2.0, 0.4, -1.5, 3.1, 3.3, -4.2])
    np.testing.assert_allclose(model.simpler(thin), [0.1, 1.0, -1.5, 2.4, -4.2, 3.1])
    assert model.simpler(np.array([0.0, 1.0, 0.01, 3.0])) is None  # one interface stays: graded and smooth have none


def test_the_variance_of_log_b_is_that_of_draws():
    model = Layers(GRID, angle=0.4, width=0.05)
    mean = np.array([0.0, 1.0, 2.0, -1.5, 3.1, -4.2])
    deviation = np.array([0.3, 0.1, 0.1, 0.1, 0.8, 0.8])
    draws = mean + deviation * np.random.default_rng(2).standard_normal((4000, 6))
    empirical = np.var([model.sharp(draw, AT_NODES) for draw in draws], axis=0)

    def variance(rows):
        return np.asarray(((rows @ sparse.diags_array(deviation)).power(2)).sum(axis=1)).ravel()

    found = model.log_variance(mean, AT_NODES, variance)
    away = np.abs(across(0.4) - 3.1) > 0.5  # of two interfaces at one place each says its own
    np.testing.assert_allclose(found[away], empirical[away], atol=0.12)
    assert np.corrcoef(found, empirical)[0, 1] > 0.98


@pytest.fixture(scope="module")
def stripes():
    """Noisy pairs of twelve sensors, and the cells of the mesh behind them."""
    recipe = ReferenceDarcyRecipe(nodes=11, pairs=12, refine=8, family="stripes", precision="float64")
    system = recipe.build(2)
    grid = recipe.grid
    seen = np.zeros(grid.shape, dtype=bool)
    seen.flat[np.random.default_rng(3).choice(np.flatnonzero(grid.unknown), 25, replace=False)] = True
    size = 0.01 * float(np.sqrt(np.mean(system.responses[:, 0, seen] ** 2)))
    noisy = system.responses + size * np.random.default_rng(4).standard_normal(system.responses.shape)
    pairs = Pairs.from_arrays(system.loads, noisy, grid=grid, mask=np.broadcast_to(seen, noisy[:, 0].shape), noise=size)
    return pairs, system.fine[0]


def test_stripes_are_found_from_25_sensors(stripes):
    pairs, fine = stripes
    kernel = SensorInversion(material=24, solver=70)(pairs)
    assert isinstance(kernel, RefinedKernel)
    law = kernel.laws[0]
    assert law.summary["model"] == "layers"
    assert law.summary["criteria"]["layers"] < 0.7 * law.summary["criteria"]["smooth"]
    assert law.summary["layers"]["phases"] == kernel.phases == 2
    off = np.abs(np.log(law.map_of(fine.shape)) - np.log(fine))[8:-8, 8:-8]
    assert off.mean() < 0.1
    assert off.mean() < 0.1 * log(fine.max() / fine.min())
    rows, columns = np.gradient(np.log(fine))
    slopes = np.stack([rows.ravel(), columns.ravel()])
    axes = np.linalg.eigh(slopes @ slopes.T)[1]
    truth = np.degrees(np.arctan2(axes[1, 1], axes[0, 1])) % 180
    apart = abs(law.summary["layers"]["direction"] - truth)
    assert min(apart, 180 - apart) < 2


def test_without_phases_only_graded_materials_are_tried(stripes):
    found = replace(SensorInversion(material=24, solver=70), piecewise_constant=False)(stripes[0])
    assert set(found.laws[0].summary["criteria"]) == {"smooth", "graded"}
