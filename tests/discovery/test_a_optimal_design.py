"""Informative loads leave least unknown of the answers one wants, by a posterior that is written out here."""

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann
from nipde.context.pairs import Pairs
from nipde.context.sensors import Sensors
from nipde.discovery.a_optimal_design import CORRELATION, DEVIATION, Sensor, informative_loads, most_informative
from nipde.discovery.candidates import at_effort, wave_loads
from nipde.discretisation.links import Arithmetic, Harmonic
from nipde.errors import PairsError
from nipde.estimators.inverse.adjoint import AdjointGaussNewton
from nipde.grid import Axis, Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField

GRID = Grid((Axis(7, 1.0, Dirichlet()), Axis(6, 2.0, Neumann())))


def random_loads(grid, count, *, seed):
    return torch.tensor(GaussianField(1.0, rms=1.0).sample(grid, rng=np.random.default_rng(seed), count=count))[:, None]


def rock(grid, *, seed=0, mean=None):
    field = GaussianField(4.0).sample(grid, rng=np.random.default_rng(seed), count=1)[0]
    return Darcy(grid, np.exp(0.5 * field / np.abs(field).max()), Harmonic() if mean is None else mean)


def jacobian(medium, load):
    """∂u/∂ log b by central differences: free nodes × nodes."""
    step, size, columns = 1e-5, medium.grid.size, []
    for node in range(size):
        moved = [np.log(medium.permeability).reshape(-1) + sign * step * (np.arange(size) == node) for sign in (1, -1)]
        up, down = (
            Darcy(medium.grid, np.exp(log).reshape(medium.grid.shape), medium.face_mean).solve(load) for log in moved
        )
        columns.append((up - down)[medium.grid.unknown] / (2 * step))
    return np.stack(columns, 1)


def left(medium, loads, queries, *, share, relative):
    free = medium.grid.unknown
    answers, responses = (medium.solve(fields[:, 0].numpy())[:, free] for fields in (queries, loads))
    level = share * np.sqrt(np.mean((responses if relative else answers) ** 2))
    told = [jacobian(medium, load[0].numpy()) / level for load in loads]
    precision = np.eye(medium.grid.size) / DEVIATION**2 + sum(one.T @ one for one in told)
    wanted = [
        jacobian(medium, query[0].numpy()) / np.linalg.norm(answer)
        for query, answer in zip(queries, answers, strict=True)
    ]
    return sum(float(np.trace(one @ np.linalg.solve(precision, one.T))) for one in wanted) / len(wanted)


@pytest.mark.parametrize("relative", [False, True], ids=["sensor", "relative"])
@pytest.mark.parametrize("mean", [Harmonic(), Arithmetic()], ids=["harmonic", "arithmetic"])
def test_gains_are_those_of_the_posterior(mean, relative):
    medium, queries, candidates = rock(GRID, mean=mean), random_loads(GRID, 3, seed=1), wave_loads(GRID, 4)
    applied = random_loads(GRID, 1, seed=2)
    told = {"share": 0.05, "relative": relative}
    ranking = most_informative(medium, candidates, queries, sensor=Sensor(**told))
    before = left(medium, applied[:0], queries, share=1.0, relative=False)
    for gain, load in zip(ranking.gains, candidates, strict=True):
        assert float(gain) == pytest.approx(1 - left(medium, load[None], queries, **told) / before, rel=1e-4)
    if not relative:  # then the level depends on what is measured together
        after = most_informative(medium, candidates, queries, sensor=Sensor(**told), applied=applied)
        first = left(medium, applied, queries, **told)
        both = left(medium, torch.cat([applied, candidates[:1]]), queries, **told)
        assert float(after.gains[0]) == pytest.approx(1 - both / first, rel=1e-4)


@pytest.mark.parametrize("least", [0.0, 0.02], ids=["share", "stated"])
def test_gains_at_few_sensors_are_those_of_the_posterior(least):
    """Of a correlated material, written out; queries count at all nodes."""
    medium, queries, candidates = rock(GRID), random_loads(GRID, 3, seed=1), wave_loads(GRID, 4)
    at, applied = Sensors.at(np.array([[0.3, 0.4], [0.55, 1.2], [0.8, 1.9]])), random_loads(GRID, 1, seed=2)
    rows, free = at.matrix(GRID).toarray(), GRID.unknown
    points = np.stack([x.ravel() for x in GRID.coordinates], -1)
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    precision = np.linalg.inv(DEVIATION**2 * np.exp(-apart / (CORRELATION * np.sqrt(2.0))))
    answers = medium.solve(queries[:, 0].numpy())
    noise = max(0.05 * np.sqrt(np.mean((rows @ answers.reshape(3, -1).T) ** 2)), least)
    wanted = [
        jacobian(medium, query[0].numpy()) / np.linalg.norm(answer[free])
        for query, answer in zip(queries, answers, strict=True)
    ]

    def variance(*loads):
        read = [rows[:, free.ravel()] @ jacobian(medium, load[0].numpy()) / noise for load in loads]
        known = precision + sum(one.T @ one for one in read)
        return sum(float(np.trace(one @ np.linalg.solve(known, one.T))) for one in wanted)

    ranking = most_informative(
        medium, candidates, queries, sensor=Sensor(0.05, least=least, at=at), applied=applied, effort=None
    )
    before = variance(applied[0])
    for gain, load in zip(ranking.gains, candidates, strict=True):
        assert float(gain) == pytest.approx(1 - variance(applied[0], load) / before, rel=1e-4)


def test_a_load_tells_less_the_second_time():
    medium, queries, candidates = rock(GRID), random_loads(GRID, 5, seed=1), wave_loads(GRID, 5)
    fresh = most_informative(medium, candidates, queries, sensor=Sensor(0.01))
    again = most_informative(medium, candidates, queries, sensor=Sensor(0.01), applied=candidates[fresh.best][None])
    assert again.best != fresh.best
    assert 0 < float(again.gains[fresh.best]) < 0.5 * float(fresh.gains[fresh.best])


@pytest.mark.slow
def test_descended_loads_leave_less_than_random_ones_and_than_waves():
    grid = Grid.uniform(9)
    medium, queries = Darcy(grid, np.ones(grid.shape)), random_loads(grid, 40, seed=1)
    for relative in (False, True):
        sensor = Sensor(0.01, relative)
        chosen = informative_loads(medium, queries, count=4, sensor=sensor, steps=80)
        assert chosen.shape == (4, 1, *grid.shape)
        asked = {"share": 0.01, "relative": relative}
        ours = left(medium, chosen, queries[:5], **asked)
        others = [left(medium, at_effort(grid, loads), queries[:5], **asked)
                  for loads in (random_loads(grid, 4, seed=5), wave_loads(grid, 4))]  # fmt: skip
        assert ours < 0.8 * min(others)
        assert torch.equal(chosen, informative_loads(medium, queries, count=4, sensor=sensor, steps=80))


def test_under_noise_of_their_own_responses_they_serve_an_inversion():
    """Of a rock that is not even, by a method that has no part in the choice."""
    grid = Grid.uniform(11)
    queries, law = random_loads(grid, 40, seed=1), rock(grid, seed=3)
    chosen = informative_loads(
        Darcy(grid, np.ones(grid.shape)), queries, count=5, sensor=Sensor(0.01, relative=True), steps=80
    )
    truth = torch.tensor(law.solve(queries[:, 0].numpy()))[:, None]
    errors = []
    for loads in (random_loads(grid, 5, seed=7), chosen):
        responses = torch.tensor(law.solve(loads[:, 0].numpy()))[:, None]
        level = float(0.01 * responses.square().mean().sqrt())
        noise = torch.randn(responses.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        found = AdjointGaussNewton()(Pairs(grid, loads, responses + level * noise, noise=level)) @ queries
        errors.append(float(((found - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()))
    assert errors[1] < 0.7 * errors[0]


def test_what_makes_no_sense_is_refused():
    medium = rock(GRID)
    with pytest.raises(PairsError) as error:
        Sensor(-0.1)
    assert error.value.got == -0.1
    with pytest.raises(PairsError) as error:
        Sensor(0.1, least=-1.0)
    assert error.value.got == -1.0
    with pytest.raises(PairsError) as error:
        informative_loads(medium, wave_loads(GRID, 3), count=0, sensor=Sensor(0.01))
    assert error.value.got == "count=0, steps=300"
