"""Two segments of fibres: the line and both directions, from the fibres of cells."""

import numpy as np
import pytest

from nipde.discovery.fibres import angle_between, two_segments
from nipde.grid import Grid
from nipde.physics.bodies import CellwiseBody

GRID = Grid.uniform(25)
ONE = np.ones((24, 24))


def body(angles, line, *, shaken=0.0):
    rng = np.random.default_rng(0)
    centre = (np.arange(24) + 0.5) / 24 - 0.5
    x, y = np.meshgrid(centre, centre, indexing="ij")
    angle = np.where(-np.sin(line) * x + np.cos(line) * y >= 0, *angles) + shaken * rng.standard_normal(ONE.shape)
    return CellwiseBody(GRID, ONE, ONE, angle[None], ONE[None])


@pytest.mark.parametrize("line", [0.0, 0.5, 1.3, 2.0, 3.0])
@pytest.mark.parametrize("shaken", [0.0, 0.2])
def test_directions_and_line(line, shaken):
    truth = (0.3, 1.9)
    found = two_segments(body(truth, line, shaken=shaken))
    # A line and the same line run through backwards change the sides.
    angles = found.angles if np.cos(found.line - line) > 0 else found.angles[::-1]
    assert max(angle_between(*both) for both in zip(angles, truth, strict=True)) < np.radians(1 + 10 * shaken)
    assert angle_between(found.line, line) < np.radians(2.5 + 10 * shaken)


def test_directions_are_the_same_forwards_and_backwards():
    assert angle_between(0.1, np.pi + 0.1) == pytest.approx(0.0, abs=1e-12)
    assert angle_between(0.1, np.pi - 0.1) == pytest.approx(0.2)
    assert angle_between(0.0, np.pi / 2) == pytest.approx(np.pi / 2)
