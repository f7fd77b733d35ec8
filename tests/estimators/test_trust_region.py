"""Steps within a trust region: their length, what they promise, and that interfaces reach their minimum."""

from dataclasses import replace

import numpy as np
import pytest

from nipde.context.sensors import Sensors
from nipde.estimators.inverse import output_error
from nipde.estimators.inverse.level_sets import LevelSetPhases
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.output_error import LinkSolver, SensorSystem, fit
from nipde.estimators.inverse.trust_region import QuadraticModel
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField

DATA, NODES, FINE = Grid.uniform(9), Grid.uniform(17), Grid.uniform(33)
PHASES, FIELD = LevelSetPhases(NODES), MaternField(NODES, deviation=0.7)
NOISE = 1e-3


def disc(centre, radius):
    """Level set of a disc in spacings, and two levels."""
    distance = np.hypot(*(x - c for x, c in zip(NODES.coordinates, centre, strict=True))) - radius
    return np.concatenate([distance.ravel() / NODES.spacing[0], [0.0, 1.4]])


@pytest.fixture(scope="module")
def solvers():
    """Readings of a disc at all inner nodes; a coarse solver for derivatives, and a fine one."""
    loads = GaussianField(1.0, waves=4, rms=1.0).sample(DATA, rng=np.random.default_rng(0), count=8)
    places = np.stack([x[1:-1, 1:-1].ravel() for x in DATA.coordinates], -1)
    system = SensorSystem(grid=DATA, loads=loads, sensors=Sensors.at(places), values=np.zeros((len(places), 8)),
                          weights=np.ones((len(places), 8)))  # fmt: skip
    coarse = LinkSolver(NODES, system, nodes=NODES, per_axis=3)
    fine = LinkSolver(FINE, system, nodes=NODES, per_axis=2)
    exact = fine.predicted(PHASES, disc((0.5, 0.5), 0.28))
    deviation = NOISE * np.sqrt(np.mean(exact**2))
    values = exact + deviation * np.random.default_rng(1).standard_normal(exact.shape)
    system = replace(system, values=values, weights=np.full(values.shape, deviation**-2))
    return coarse.with_system(system), fine.with_system(system)


def near(model, parameters, solvers):
    coarse, fine = solvers
    state = output_error._evaluated(model, parameters, fine)
    return QuadraticModel(coarse.linearised(model, parameters), state, fine.system)


def test_steps_are_as_long_as_the_radius_allows(solvers):
    start = disc((0.44, 0.55), 0.22)
    free, promised_most = near(PHASES, start, solvers).step(1e9)
    assert np.abs(free).max() > 1
    model = near(PHASES, start, solvers)
    for radius in (0.5, 0.2, 0.05):
        step, promised = model.step(radius)
        assert 0.8 * radius < np.abs(step).max() <= radius * (1 + 1e-12)
        assert 0 < promised < promised_most
        # More than the free step promises if it is shortened as a whole.
        of_active = free[model.prior.active] * radius / np.abs(free).max()
        assert promised > -2 * of_active @ (model.gradient + model.matrix @ of_active / 2)
        promised_most = promised


def test_what_a_step_promises_is_what_the_quadratic_model_falls_by(solvers):
    model = near(PHASES, disc((0.44, 0.55), 0.22), solvers)
    step, promised = model.step(0.3)
    of_active = step[model.prior.active]
    quadratic = model.gradient @ of_active + of_active @ model.matrix @ of_active / 2
    assert promised == pytest.approx(-quadratic, rel=1e-9)


def test_steps_of_a_field_are_shortened_as_a_whole(solvers):
    start = np.full(NODES.size, 3.0)
    free, _ = near(FIELD, start, solvers).step(1e9)
    short, _ = near(FIELD, start, solvers).step(0.1)
    np.testing.assert_allclose(short, free * 0.1 / np.abs(free).max(), rtol=1e-9)


@pytest.mark.parametrize(
    ("centre", "radius"), [((0.41, 0.57), 0.22), ((0.45, 0.53), 0.25), ((0.55, 0.55), 0.3), ((0.44, 0.55), 0.22)]
)
def test_an_interface_two_spacings_off_comes_near_its_place(solvers, centre, radius):
    """Steps that were halved as a whole ended at a χ² of 170 to 16,000, with levels off by up to 0.8."""
    coarse, fine = solvers
    found = fit(PHASES, disc(centre, radius), coarse=coarse, fine=fine, steps=30)
    assert found.chi_square < 20
    assert found.parameters[-2:] == pytest.approx([0.0, 1.4], abs=0.01)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_curvature_of_near_and_wide_parameters_is_one_positive_matrix(solvers, precision):
    """Levels change all links and have columns of their own; a node far from the interface changes hardly any."""
    coarse, fine = solvers
    linearised = coarse.linearised(PHASES, disc((0.5, 0.5), 0.28))
    curvature = linearised.curvature(fine.system, precision=precision)
    sizes = np.sqrt(np.diag(curvature))
    assert sizes.max() > 1e6 * sizes.min()
    assert not curvature[sizes == 0].any()
    kept = sizes > 0
    scaled = curvature[np.ix_(kept, kept)] / np.outer(sizes[kept], sizes[kept])
    assert np.linalg.eigvalsh(scaled)[0] > (-2e-5 if precision is np.float32 else -1e-9)
