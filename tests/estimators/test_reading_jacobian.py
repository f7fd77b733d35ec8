"""Both forms of the readings' Jacobian against all of its entries; and readings in units of their errors."""

from dataclasses import replace

import numpy as np
import pytest

from nipde.context.sensors import Sensors
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.estimators.inverse import reading_jacobian
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.nuisance import Nuisance
from nipde.estimators.inverse.output_error import LinkSolver, SensorSystem
from nipde.estimators.inverse.reading_jacobian import JacobianByGreens, JacobianBySolves, jacobian_of
from nipde.estimators.inverse.whitened_readings import WhitenedReadings
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.shape import Shape

DATA, NODES, PAIRS, SENSORS = Grid.uniform(9), Grid.uniform(13), 3, 11
FORMS = pytest.mark.parametrize("form", [JacobianBySolves, JacobianByGreens])


def system_of(seed=0, **more):
    rng = np.random.default_rng(seed)
    loads = GaussianField(1.0, waves=4, rms=1.0).sample(DATA, rng=rng, count=PAIRS)
    values = rng.standard_normal((SENSORS, PAIRS))
    weights = 1e4 * rng.uniform(0.5, 2, values.shape) * (rng.random(values.shape) < 0.8)
    sensors = Sensors.at(rng.uniform(0.35, 0.65, (SENSORS, 2)))
    return SensorSystem(grid=DATA, loads=loads, sensors=sensors, values=values, weights=weights, **more)


def linearised(system, *, seed=1):
    log = GaussianField(2.0, rms=0.5).sample(NODES, rng=np.random.default_rng(seed), count=1).ravel()
    return LinkSolver(NODES, system, nodes=NODES, per_axis=2).linearised(MaternField(NODES), log)


@pytest.fixture(scope="module", params=["box", "disc"])
def near(request):
    if request.param == "box":
        return linearised(system_of())
    disc = Shape.disc((0.5, 0.5), 0.42)
    cases = (LoadCase(values={"rim": 0.3}),) * PAIRS
    return linearised(system_of(specimen=Specimen(disc, {"rim": DirichletPart()}), outline=cases))


@FORMS
def test_products_are_those_of_the_whole_matrix(form, near):
    rng, jacobian = np.random.default_rng(2), form(near)
    whole = np.zeros((NODES.size, SENSORS, PAIRS))
    whole[near.active] = near.jacobian
    changes, values = rng.standard_normal((4, NODES.size)), rng.standard_normal((4, SENSORS, PAIRS))
    forward, adjoint = jacobian.jvp(changes), jacobian.vjp(values)
    scale = np.abs(forward).max()
    np.testing.assert_allclose(forward, np.einsum("kn,nsp->ksp", changes, whole), atol=1e-9 * scale)
    np.testing.assert_allclose(adjoint, np.einsum("nsp,ksp->kn", whole, values), atol=1e-9 * np.abs(adjoint).max())
    np.testing.assert_allclose(np.sum(forward * values), np.sum(adjoint * changes), rtol=1e-10)


def test_solves_are_counted(near):
    by_solves, by_greens = JacobianBySolves(near), JacobianByGreens(near)
    for one in (by_solves, by_greens):
        one.vjp(one.jvp(np.ones((5, NODES.size))))
    assert by_solves.solves == 2 * 5 * PAIRS
    assert by_greens.solves == SENSORS


def test_many_sensors_are_left_to_solves(near, monkeypatch):
    assert isinstance(jacobian_of(near), JacobianByGreens)
    monkeypatch.setattr(reading_jacobian, "MOST_SENSORS", SENSORS - 1)
    assert isinstance(jacobian_of(near), JacobianBySolves)


@pytest.mark.parametrize("kinds", [(), ("gain",), ("gain", "offset")])
def test_whitening_is_a_root_of_the_precision(kinds):
    system = system_of()
    system = replace(system, nuisance=Nuisance.of(kinds, system.values))
    white, units = WhitenedReadings.of(system), np.eye(SENSORS * PAIRS).reshape(-1, SENSORS, PAIRS)
    root = white(units)
    precision = np.stack([system.weighted(unit).ravel() for unit in units])
    np.testing.assert_allclose(root @ root.T, precision, atol=1e-10 * precision.max())
    back = white.transposed(units.reshape(len(units), -1)).reshape(len(units), -1)
    np.testing.assert_allclose(back, root.T, atol=1e-12 * root.max())
