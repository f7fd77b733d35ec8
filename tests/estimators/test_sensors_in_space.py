"""Output error over three axes: a few sensors in a block, and in a core that is not a box."""

import numpy as np
import pytest

from nipde.boundary import Neumann
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.discretisation import links
from nipde.discretisation.domain import OutlineData, domain_of, right_side
from nipde.discretisation.link_solver import MultigridInverse, inverse_of
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.errors import SolverError
from nipde.estimators.inverse.inverse_problem import InverseProblem
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Axis, Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField
from nipde.prism import Prism
from nipde.shape import Shape

ESTIMATOR = SensorInversion(material=8, solver=12, phases=(), longer_correlations=(), steps=4)
CORE = Specimen(Prism.over(Shape.disc((0.5, 0.5), 0.4), low=0.1, high=0.9), {"back": DirichletPart()})


def smooth(x, y, z):
    return 2 * np.exp(0.6 * np.sin(3 * x + 1) * np.cos(2 * y) + 0.5 * z)


@pytest.fixture(scope="module")
def block():
    """Readings from a grid twice as fine, 1 % noise; the last two loads are held out."""
    rng, grid = np.random.default_rng(0), Grid.uniform((9,) * 3)
    fine = grid.refine(2)
    loads = GaussianField(2.0, waves=4, rms=1.0).sample(fine, rng=rng, count=10)
    responses = Darcy(fine, smooth(*fine.coordinates)).solve(loads)
    sensors = Sensors.at(rng.uniform(0.1, 0.9, (40, 3)))
    readings = (sensors.matrix(fine) @ responses.reshape(10, -1).T).T
    noise = 0.01 * float(np.sqrt(np.mean(readings**2)))
    known = {"grid": grid, "sensors": sensors, "noise": noise}
    seen = readings + noise * rng.standard_normal(readings.shape)
    return SensorPairs.from_arrays(fine.restrict(loads, to=grid), seen, **known), readings


def test_a_block_from_forty_sensors(block):
    pairs, exact = block
    law = ESTIMATOR(pairs.take(list(range(8)))).laws[0]
    held_out = pairs.take([8, 9])
    found = law.readings(held_out.loads[:, 0].numpy(), pairs.sensors.matrix)
    assert np.linalg.norm(found - exact[8:]) / np.linalg.norm(exact[8:]) < 0.03
    truth = np.log(smooth(*pairs.grid.coordinates))[1:-1, 1:-1, 1:-1]
    error = np.abs(law.log_coefficient[1:-1, 1:-1, 1:-1] - truth)
    assert error.mean() < 0.12
    assert np.mean(error < 1.645 * law.posterior.log_deviation()[1:-1, 1:-1, 1:-1]) > 0.8
    assert law.summary["chi_square"] < 1.2
    assert any("three axes" in reason for reason in law.summary["outside"])


def test_grids_have_the_intervals_that_are_asked_for(block):
    problem = InverseProblem.of(block[0], material=8, solver=32)  # the cube root of 8³ is a little below 8
    assert problem.nodes.shape == (9,) * 3
    assert problem.fine.grid.shape == (33,) * 3


def test_a_step_that_multigrid_cannot_solve_is_shortened(block, monkeypatch):
    pairs, solve, calls = block[0].take([0, 1]), MultigridInverse.solve, []

    def failing(self, rhs):
        calls.append(1)
        if len(calls) == 2:  # the first trial
            raise SolverError("not solved", expected="a residual near the precision", got="others")
        return solve(self, rhs)

    monkeypatch.setattr(links, "FACTORED", 600)
    problem = InverseProblem.of(pairs, material=8, solver=16)
    model, start = MaternField(problem.nodes), np.zeros(problem.nodes.size)
    monkeypatch.setattr(MultigridInverse, "solve", failing)
    fit = problem.minimised(model, start, steps=2)
    assert len(calls) > 2
    assert np.isfinite(fit.chi_square)


def test_a_core_heated_at_its_rim_and_end():
    rng = np.random.default_rng(1)
    cases = [
        LoadCase(fluxes={"rim": lambda x, y, z, k=k: 1 + np.cos(k * z + 3 * x) + y, "front": 0.3 * k}) for k in range(7)
    ]
    angle, away = 2 * np.pi * rng.random(40), 0.38 * np.sqrt(rng.random(40))
    places = [0.5 + away * np.cos(angle), 0.5 + away * np.sin(angle), rng.uniform(0.15, 0.88, 40)]
    sensors, grid = Sensors.at(np.stack(places, axis=-1)), Grid(tuple(Axis(9, 1.0, Neumann()) for _ in range(3)))
    fine = domain_of(grid.refine(4), CORE)
    conductances = fine.cells.conductances(smooth(*np.moveaxis(fine.cells.points(), -1, 0)))
    outline, difference = OutlineData.of(cases, fine), fine.links.difference[:, fine.links.unknown]
    nothing = np.zeros((len(fine.links.unknown), len(cases)))
    responses = inverse_of(fine.links, conductances).solve(right_side(nothing, outline, difference, conductances))
    exact = (sensors.matrix(fine.grid) @ (fine.to_nodes @ responses)).T
    noise = 0.005 * float(np.sqrt(np.mean(exact**2)))
    pairs = SensorPairs.from_cases(
        cases[:6], exact[:6] + noise * rng.standard_normal(exact[:6].shape), grid=grid, sensors=sensors, specimen=CORE,
        noise=noise,
    )  # fmt: skip
    law = ESTIMATOR(pairs).laws[0]
    found = law.readings(np.zeros((1, *grid.shape)), sensors.matrix, cases[6:])
    assert np.linalg.norm(found - exact[6:]) / np.linalg.norm(exact[6:]) < 0.02
    inside = CORE.shape.holds_nodes(grid)
    error = np.abs(law.log_coefficient[inside] - np.log(smooth(*(x[inside] for x in grid.coordinates))))
    assert np.median(error) < 0.1
    assert np.mean(error < 1.645 * law.posterior.log_deviation()[inside]) > 0.8
