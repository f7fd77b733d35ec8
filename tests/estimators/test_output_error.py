"""Output error at sensors: derivatives and priors against finite differences, and where phases begin."""

import numpy as np
import pytest

from nipde.context.sensors import Sensors
from nipde.estimators.inverse import linearised_readings
from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.layers import Graded, Layers
from nipde.estimators.inverse.level_sets import LevelSetPhases, clusters
from nipde.estimators.inverse.material_models import JumpPenalty, MaternField
from nipde.estimators.inverse.output_error import LinkSolver, SensorSystem, fit
from nipde.estimators.inverse.readings import separable
from nipde.estimators.inverse.trust_region import QuadraticModel
from nipde.grid import Axis, Grid
from nipde.physics.random_fields import GaussianField

DATA, NODES, FINE = Grid.uniform(9), Grid.uniform(13), Grid.uniform(25)
PAIRS = 3
MODELS = {
    "smooth": MaternField(NODES, deviation=0.7, correlation=5.0),
    "edges": JumpPenalty(NODES, kind="edges", weight=0.8, scale=0.1),
    "total variation": JumpPenalty(NODES, weight=0.8, scale=0.1),
    "tikhonov": JumpPenalty(NODES, kind="tikhonov", weight=0.8, scale=0.5),
    "two phases": LevelSetPhases(NODES, interfaces=1),
    "three phases": LevelSetPhases(NODES, interfaces=2, stiffness=0.3),
    "graded": Graded(NODES, angle=0.7, knots=15),
    "graded, smooth": Graded(NODES, angle=0.7, knots=15, order=2),
    "layers": Layers(NODES, angle=0.7),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def parameters_of(model, *, seed=0):
    """log b around 1, or interfaces across the box."""
    rng = np.random.default_rng(seed)
    if isinstance(model, Graded):
        return np.concatenate([[0.3], 1 + rng.standard_normal(model.knots)])
    if isinstance(model, Layers):
        return np.array([0.3, 1.0, 0.8, -0.5, 0.9, -4.0, -1.2, 3.1])
    if not isinstance(model, LevelSetPhases):
        return 1 + 0.5 * GaussianField(2.0, rms=1.0).sample(NODES, rng=rng, count=1).ravel()
    x, y = NODES.coordinates
    sets = [(x + 0.2 * np.sin(5 * y) - 0.3 - 0.3 * k).ravel() / NODES.spacing[0] for k in range(model.interfaces)]
    return np.concatenate([*sets, [0.3], 1.0 + 0.2 * np.arange(model.interfaces)])


@pytest.fixture(scope="module")
def system():
    rng = np.random.default_rng(3)
    loads = GaussianField(1.0, waves=4, rms=1.0).sample(DATA, rng=rng, count=PAIRS)
    sensors = Sensors(rng.uniform(0.15, 0.85, (14, 2)), np.where(np.arange(14) < 10, 0.0, 0.1))
    weights = np.outer(rng.uniform(0.5, 2, 14), rng.uniform(0.5, 2, PAIRS)) * 1e4
    return SensorSystem(
        grid=DATA, loads=loads, sensors=sensors, values=0.01 * rng.standard_normal((14, PAIRS)), weights=weights
    )


@pytest.fixture(scope="module")
def solver(system):
    return LinkSolver(FINE, system, nodes=NODES, per_axis=2)


def slopes_of(function, parameters, directions, *, step=1e-4):
    """The slow oracle: central differences along every direction, one row each."""
    found = []
    for direction in directions:
        up, down = (np.asarray(function(parameters + sign * step * direction)) for sign in (1, -1))
        found.append((up - down) / (2 * step))
    return np.array(found)


# Misfit


@every_model
@pytest.mark.parametrize("few", [0, linearised_readings.FEW], ids=["links", "Jacobian"])
def test_gradient_and_curvature_are_those_of_finite_differences(model, system, solver, few, monkeypatch):
    monkeypatch.setattr(linearised_readings, "FEW", few)
    parameters, rng = parameters_of(model), np.random.default_rng(4)
    near = solver.linearised(model, parameters)
    np.testing.assert_allclose(near.predicted, solver.predicted(model, parameters), rtol=1e-12)
    places = np.union1d(rng.choice(len(parameters), min(80, len(parameters)), replace=False), len(parameters) - 1)
    jacobian = slopes_of(lambda state: solver.predicted(model, state), parameters, np.eye(len(parameters))[places])

    # ½ Σ w r², weights of any kind
    weights = rng.uniform(0, 2e4, system.weights.shape)

    def misfit(state):
        return np.sum(weights * (system.values - solver.predicted(model, state)) ** 2) / 2

    found = near.gradient(weights * (system.values - near.predicted))
    expected = slopes_of(misfit, parameters, np.eye(len(parameters))[places])
    np.testing.assert_allclose(found[places], expected, atol=1e-5 * np.abs(expected).max())

    # Jᵀ w J, weights of sensors times weights of pairs
    inside, here = np.isin(places, near.active), np.flatnonzero(np.isin(near.active, places))
    exact = np.einsum("asp,sp,bsp->ab", jacobian[inside], system.weights, jacobian[inside], optimize=True)
    curvature = near.curvature(system)
    np.testing.assert_allclose(curvature[np.ix_(here, here)], exact, atol=1e-5 * np.abs(exact).max())
    assert np.abs(jacobian[~inside]).max(initial=0.0) < 1e-6 * np.abs(jacobian).max()


@every_model
def test_single_precision_gives_the_same_curvature(model, system, solver, monkeypatch):
    monkeypatch.setattr(linearised_readings, "FEW", 0)
    near = solver.linearised(model, parameters_of(model))
    double, single = (near.curvature(system, precision=kind) for kind in (np.float64, np.float32))
    assert single.dtype == np.float64
    gap = np.abs(single - double).max() / np.abs(double).max()
    assert gap < 1e-5
    assert gap > 1e-12 or isinstance(model, Layers)  # these change many links each: by solves, in double precision


def test_weights_that_are_products_are_taken_apart_exactly_and_others_keep_their_sums(system):
    sensors, pairs = separable(system.weights)
    np.testing.assert_allclose(np.outer(sensors, pairs), system.weights, rtol=1e-12)
    holed = system.weights * (np.random.default_rng(6).random(system.weights.shape) < 0.6)
    near = np.outer(*separable(holed))
    assert not np.allclose(near, holed)
    for axis in (0, 1):
        np.testing.assert_allclose(near.sum(axis), holed.sum(axis), rtol=1e-12)


def test_a_parameter_beyond_every_interface_is_not_active(solver):
    model = MODELS["two phases"]
    near = solver.linearised(model, parameters_of(model))
    far = np.flatnonzero(parameters_of(model)[: NODES.size] > 6)
    assert len(far)
    assert not np.isin(far, near.active).any()
    assert np.isin([NODES.size, NODES.size + 1], near.active).all()  # the levels


@pytest.mark.parametrize("name", MODELS)
def test_steps_find_the_material_that_made_the_readings(name, system, solver):
    model = MODELS[name]
    truth = parameters_of(model)
    values = solver.predicted(model, truth)
    deviation = 0.003 * np.sqrt(np.mean(values**2))
    exact = SensorSystem(
        grid=DATA,
        loads=system.loads,
        sensors=system.sensors,
        values=values,
        weights=np.full(values.shape, deviation**-2),
    )
    aware = solver.with_system(exact)
    start = truth.copy()
    if isinstance(model, LevelSetPhases):
        start[: NODES.size] += 1.0
        start[-1] += 0.3
    elif isinstance(model, Layers):
        start += 0.15 * np.array([3.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    else:
        start[:] = truth.mean()
    before = np.sum(((values - solver.predicted(model, start)) / deviation) ** 2) / values.size
    found = fit(model, start, coarse=aware, fine=aware, steps=15)
    assert before > 30
    assert found.chi_square < 1
    np.testing.assert_allclose(found.residual, values - solver.predicted(model, found.parameters), atol=1e-12)


# Priors


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_a_prior_is_that_of_its_penalty(name):
    model = MODELS[name]
    parameters, rng = parameters_of(model), np.random.default_rng(7)
    parameters = parameters + 0.1 * rng.standard_normal(len(parameters))
    precision, gradient = model.quadratic(parameters)
    directions = np.vstack([rng.standard_normal((6, len(parameters))), np.ones(len(parameters))])
    expected = slopes_of(model.penalty, parameters, directions, step=1e-5)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(directions @ gradient, expected, atol=1e-6 * np.abs(expected).max())
    assert np.linalg.eigvalsh(precision.toarray()).min() > 0


@pytest.mark.parametrize("name", ["smooth", "two phases", "three phases"])
def test_the_precision_of_a_quadratic_prior_is_the_slope_of_its_gradient(name):
    model, rng = MODELS[name], np.random.default_rng(8)
    parameters = parameters_of(model)
    direction = rng.standard_normal(len(parameters))
    direction -= direction.mean()
    (precision, here), (_, there) = model.quadratic(parameters), model.quadratic(parameters + direction)
    expected = precision @ direction
    np.testing.assert_allclose(there - here, expected, atol=1e-5 * np.abs(expected).max())


def test_the_precision_of_a_student_prior_bounds_it_from_above():
    model = MODELS["edges"]
    here = parameters_of(model)
    precision, gradient = model.quadratic(here)
    np.testing.assert_allclose(precision @ here, gradient, atol=1e-5)
    rng, gaps = np.random.default_rng(9), []
    for size in (0.01, 0.1, 1.0):
        there = here + size * rng.standard_normal(len(here))
        bound = model.penalty(here) + (there @ precision @ there - here @ precision @ here) / 2
        gaps.append(bound - model.penalty(there))
    assert min(gaps) > 0
    assert gaps[0] < 0.1 * model.penalty(here)  # and touches it


def test_a_matern_field_has_its_deviation_and_correlation():
    grid = Grid.uniform(33)
    model = MaternField(grid, deviation=0.7, correlation=12.0)
    covariance = np.linalg.inv(model.quadratic(np.zeros(grid.size))[0].toarray())
    middle = np.ravel_multi_index((16, 16), grid.shape)
    assert covariance[middle, middle] == pytest.approx(0.7**2, rel=0.08)  # a spacing is 0.4 / κ
    # κ r K₁(κ r) at κ r = 1.5
    away = np.ravel_multi_index((20, 16), grid.shape)
    assert covariance[middle, away] == pytest.approx(0.7**2 * 1.5 * 0.27739, rel=0.02)


# Phases


@pytest.mark.parametrize("place", [0, 1], ids=["x", "y"])
def test_an_interface_begins_where_a_field_of_two_values_jumps(place):
    model, x = LevelSetPhases(NODES), NODES.coordinates[place] / NODES.spacing[place]
    parameters = model.start(np.where(x.ravel() < 4.5, -1.0, 2.0))
    (level_set,), levels = model.parts(parameters)
    np.testing.assert_allclose(levels, [-1, 3])
    np.testing.assert_allclose(level_set, x.ravel() - 4.5, atol=0.1)
    np.testing.assert_array_equal(model.sharp(parameters, np.eye(NODES.size)), np.where(x.ravel() < 4.5, -1.0, 2.0))


def test_of_three_values_come_two_interfaces_and_no_interface_stays_far():
    x = NODES.coordinates[0].ravel() / NODES.spacing[0]
    model = LevelSetPhases(NODES, interfaces=2)
    sets, levels = model.parts(model.start(np.select([x < 3.5, x < 8.5], [0.0, 1.0], 4.0)))
    np.testing.assert_allclose(levels, [0, 1, 3])
    for level_set, (low, high), share in zip(sets, ((3, 4), (8, 9)), (0.5, 0.5), strict=True):
        crossing = np.interp(0, level_set.reshape(NODES.shape)[:, 6], np.arange(13))
        assert low < crossing < high
        assert crossing == pytest.approx(low + share, abs=0.1)
    (empty,), _ = LevelSetPhases(NODES).parts(LevelSetPhases(NODES).start(np.zeros(NODES.size)))
    assert np.abs(empty).min() >= 13


def test_a_level_set_moves_to_another_grid_with_its_interface():
    model, parameters = MODELS["two phases"], parameters_of(MODELS["two phases"])
    other, moved = model.moved(parameters, to=FINE)
    assert other.grid == FINE
    points = np.random.default_rng(1).uniform(0, 1, (500, 2))
    np.testing.assert_array_equal(other.at(moved, points) > 1, model.at(parameters, points) > 1)
    # The width is a share of the spacing: half as wide on a grid twice as fine.
    steepness = [np.abs(np.diff(one.parts(state)[0][0].reshape(one.grid.shape), axis=0)).max() * (one.grid.shape[0] - 1)
                 for one, state in ((model, parameters), (other, moved))]  # fmt: skip
    assert steepness[1] == pytest.approx(2 * steepness[0], rel=1e-9)


def test_clusters_are_medians_and_bear_outliers():
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(0, 0.1, 300), rng.normal(5, 0.1, 50), [5.9, 5.8]])
    assert clusters(values, 2) == pytest.approx([0, 5], abs=0.05)
    assert clusters(np.array([1.0, 1.0, 1.0]), 2).tolist() == [1.0, 1.0]


def test_a_box_that_is_not_square_has_the_same_derivatives():
    data, nodes = (Grid((Axis(count, 1.0), Axis(2 * count - 1, 2.5))) for count in (6, 8))
    rng = np.random.default_rng(3)
    loads = rng.standard_normal((2, *data.shape))
    system = SensorSystem(
        grid=data, loads=loads, sensors=Sensors.at_nodes(data), values=np.zeros((36, 2)), weights=np.ones((36, 2))
    )
    solver, model = LinkSolver(nodes, system, nodes=nodes, per_axis=3, interpolation="cosine"), MaternField(nodes)
    parameters, direction = rng.standard_normal((2, nodes.size))
    near = solver.linearised(model, parameters)
    up, down = (np.sum(solver.predicted(model, parameters + step * direction) ** 2) / 2 for step in (1e-5, -1e-5))
    assert float(near.gradient(-near.predicted) @ direction) == pytest.approx((up - down) / 2e-5, rel=1e-6)


def test_a_step_that_rounding_spoils_is_taken_in_double_precision():
    """A level weighs 10⁶ times as much as a level set: in single precision its rounding is below 0 elsewhere."""
    size = NODES.size
    exact = np.zeros((size, size))
    exact[0, 0] = 1e6

    asked = []

    class Near:
        active = np.arange(size)

        def gradient(self, weighted):
            return np.ones(size)

        def curvature(self, system, *, precision):
            asked.append(precision)
            return exact - (10.0 * np.eye(size) if precision is np.float32 else 0.0)

    class System:
        nuisance = None

        def weighted(self, residual):
            return residual

    model = MaternField(NODES, deviation=30.0)
    state = Fit(model, np.zeros(size), 1.0, 0.0, np.zeros(1))
    step, _ = QuadraticModel(Near(), state, System()).step(1.0)
    assert asked == [np.float32, np.float64]
    assert np.isfinite(step).all()
