"""Islands of a phase that the readings do not ask for, as beside wells."""

from functools import cache

import numpy as np
import pytest

import nipde.estimators.inverse.sensor_inversion as inversion
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.estimators.inverse.islands import filled, islands_of
from nipde.estimators.inverse.level_sets import LevelSetPhases
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid

NODES = Grid.uniform(41)
MODEL = LevelSetPhases(NODES, interfaces=2)


def with_islands():
    """A straight interface, islands of 1 and 5 nodes, and a large one; the other level set has none."""
    x, y = (axis / NODES.spacing[0] for axis in NODES.coordinates)
    first = x - 19.5
    for centre, radius in (((30, 10), 0.7), ((10, 30), 1.2), ((30, 30), 7)):
        distance = np.hypot(x - centre[0], y - centre[1]) - radius
        first = np.minimum(first, distance) if centre[0] > 20 else np.maximum(first, -distance)
    return np.concatenate([first.ravel(), (y - 50).ravel(), [0.0, 1.0, 1.0]])


def test_islands_are_small_and_the_smallest_is_first():
    islands = islands_of(MODEL, with_islands())
    assert [number for number, _ in islands] == [0, 0]
    assert [int(island.sum()) for _, island in islands] == [1, 5]
    assert islands[0][1][30, 10]
    assert islands[1][1][10, 30]


def test_the_phase_around_an_island_fills_it_and_nothing_else_changes():
    parameters = with_islands()
    after = filled(MODEL, parameters, islands_of(MODEL, parameters))
    assert not islands_of(MODEL, after)
    before, (first, second) = MODEL.parts(parameters)[0], MODEL.parts(after)[0]
    changed = (first > 0) != (before[0] > 0)
    assert changed.sum() == 6
    np.testing.assert_array_equal(second, before[1])
    far = np.hypot(*[axis / NODES.spacing[0] - 30 for axis in NODES.coordinates]).ravel() < 12
    np.testing.assert_array_equal(first[far], before[0][far])


def test_one_island_of_two_can_be_filled():
    parameters = with_islands()
    small, large = islands_of(MODEL, parameters)
    left = islands_of(MODEL, filled(MODEL, parameters, [small]))
    np.testing.assert_array_equal([one[1] for one in left], [large[1]])


@cache
def beside_wells():
    recipe = ReferenceDarcyRecipe(nodes=21, pairs=16, refine=8, family="two-phase", loads="wells", precision="float64")
    system = recipe.build(5)
    pairs = Pairs.from_arrays(system.loads, system.responses, grid=Grid.uniform(21))
    return with_white_noise(pairs, share=0.01, seed=3)


def found_of():
    fit = SensorInversion(material=30, solver=80, phases=(2,))(beside_wells()).laws[0].posterior.best.fit
    return len(islands_of(fit.model, fit.parameters)), fit.chi_square


def test_wells_leave_no_islands(monkeypatch):
    count, chi_square = found_of()
    monkeypatch.setattr(inversion, "without_islands", lambda found, steps: found)
    before, worse = found_of()
    assert (count, before) == (0, pytest.approx(6, abs=3))
    assert chi_square < worse
