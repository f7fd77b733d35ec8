"""The simulated tank: its views against solves of moved bodies; the score of the challenge."""

import numpy as np
import pytest
import shapely

from benchmarks.tank import PIXELS, score, tank
from benchmarks.tank_learned import measure
from benchmarks.tank_simulations import drawn_tank, subnodes, turned
from nipde.errors import NipdeError
from nipde.training.electrode_phantoms import Phantoms, all_electrodes, phases_at, resistances


class Drawn:
    """A generator that draws what it is told."""

    def __init__(self, *values):
        self.values = list(values)

    def integers(self, _):
        return self.values.pop(0)


@pytest.fixture(scope="module")
def solver():
    return all_electrodes(tank(), 2 / 41)


def seen(solver, move):
    bodies = [(shapely.Point(*move(0.5, 0.2)).buffer(0.25), 1), (shapely.Point(*move(-0.1, -0.6)).buffer(0.2), -1)]
    matrix = resistances(solver, 100.0 ** phases_at(solver.mesh.centres, bodies))[None]
    points = subnodes()
    return Phantoms(matrix, matrix, phases_at(points.reshape(-1, 2), bodies).reshape(1, *points.shape[:2]))


@pytest.mark.parametrize(
    ("quarters", "mirrored", "move", "tolerance"),
    [
        (0, 1, lambda x, y: (-x, y), 1e-3),
        (1, 0, lambda x, y: (-y, x), 0.15),  # the mesh is not that of the turned tank
        (3, 1, lambda x, y: (y, x), 0.15),
    ],
)
def test_a_view_is_what_electrodes_see_of_moved_bodies(solver, quarters, mirrored, move, tolerance):
    still, moved = seen(solver, lambda x, y: (x, y)), seen(solver, move)
    view = turned(still, Drawn(quarters, mirrored))
    assert np.mean(view.phases != moved.phases) < 1e-3
    difference = np.abs(still.resistances - moved.resistances).max()
    assert np.abs(view.resistances - moved.resistances).max() < tolerance * difference


def test_drawn_electrodes_are_near_those_of_the_tank():
    drawn, given = drawn_tank(np.random.default_rng(0)), tank()
    for name in given.conditions:
        one, other = drawn.shape.parts[name].centroid, given.shape.parts[name].centroid
        assert 0 < one.distance(other) < 0.05
        assert drawn.conditions[name].impedance < 0.01


def test_the_score_is_1_for_the_truth_alone():
    known = np.zeros((PIXELS, PIXELS), dtype=int)
    known[60:120, 60:120], known[150:200, 100:160] = 1, 2
    assert score(known, known) == pytest.approx(1.0)
    assert score(known, np.roll(known, 20, axis=0)) < 0.9
    assert score(known, np.zeros_like(known)) < 0.2


def test_without_data_it_says_where_they_are_published(tmp_path):
    with pytest.raises(NipdeError, match="Zenodo"):
        measure(data=tmp_path)
