"""Recommended loads of specimens with an outline: inside of it, and ranked by what their readings would tell."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.data.shapes import ShapedDarcyRecipe
from nipde.discovery.recommended_loads import recommend
from nipde.estimators.inverse.sensor_inversion import SensorInversion

NOISE = 0.01


def fitted(loads, *, shape="plate-with-hole", count=6, sensors=30):
    """Readings of a specimen at some nodes, and a smooth fit to them."""
    recipe = ShapedDarcyRecipe(nodes=21, pairs=count, refine=4, shape=shape, loads=loads, family="log-normal")
    system, specimen = recipe.build(5), recipe.specimen_of(5)
    wells = (system.loads[:, 0] != 0).any(0) & (loads == "wells")
    inside = np.flatnonzero(np.isfinite(system.responses[0, 0]) & ~wells)
    chosen = np.random.default_rng(0).choice(inside, sensors, replace=False)
    points = np.stack([x.ravel()[chosen] for x in recipe.grid.coordinates], -1)
    readings = system.responses.reshape(count, -1)[:, chosen].astype(float)
    size = NOISE * np.sqrt(np.mean(readings**2))
    pairs = SensorPairs.from_arrays(
        system.loads[:, 0], readings, grid=recipe.grid, sensors=Sensors.at(points), noise=size, specimen=specimen,
        outline=recipe.outline_of(5),
    )  # fmt: skip
    return SensorInversion(piecewise_constant=False, material=16, solver=40, longer_correlations=())(pairs), pairs


def test_gains_are_the_variance_that_a_reading_of_the_load_takes_away():
    """Against a second fit, to the pairs and to one more with exactly the readings that are predicted."""
    kernel, pairs = fitted("wells")
    law = kernel.laws[0]
    candidates, queries = np.zeros((2, 2, 21, 21))
    candidates[[0, 1], [14, 5], [4, 13]] = queries[[0, 1], [4, 15], [5, 12]] = 400.0
    found = law.posterior.reading_gains(candidates, queries)

    def variance(posterior):
        at = pairs.sensors.matrix(pairs.grid)
        exact = replace(posterior, relative_error=0.0, widened=1.0, others=())
        return np.sum((at @ exact.response_deviation(queries).reshape(2, -1).T) ** 2)

    for gain, load in zip(found, candidates, strict=True):
        predicted = law.readings(load[None], pairs.sensors.matrix)
        more = replace(
            pairs, loads=torch.cat([pairs.loads, torch.tensor(load)[None, None]]),
            readings=torch.cat([pairs.readings, torch.tensor(predicted)]),
        )  # fmt: skip
        before = law.posterior.best
        problem = before.problem.with_pairs(more, before)
        problem = problem.with_noise(np.hstack([before.problem.deviation, before.problem.deviation[:, :1]]))
        after = problem.candidate(before.fit.model, before.fit.parameters, steps=0)
        remaining = variance(replace(law.posterior, best=after)) / variance(law.posterior)
        assert gain == pytest.approx(1 - remaining, rel=0.05, abs=0.005)


@pytest.mark.parametrize(("loads", "shape", "kind"), [("wells", "plate-with-hole", "point"), ("middle", "L", "patch")])
def test_recommended_loads_act_inside_the_specimen(loads, shape, kind):
    kernel, pairs = fitted(loads, shape=shape)
    found = recommend(kernel, pairs, count=4)
    assert 1 <= len(found.names) <= 4
    assert all(name.startswith(kind) for name in found.names)
    assert np.all(found.loads[:, ~kernel.laws[0].inside] == 0)
    assert np.all(np.diff(found.gains) <= 0)
    assert 0 < found.gains[0] < 1
    total = pairs.grid.integrate(np.abs(found.loads))
    applied = pairs.grid.integrate(np.abs(pairs.loads[:, 0].numpy()) * kernel.laws[0].inside)
    assert total.max() <= applied.max() * (1 + 1e-9)


def test_nothing_is_recommended_where_only_the_outline_was_loaded():
    kernel, pairs = fitted("outline")
    assert recommend(kernel, pairs, count=4).names == ()
