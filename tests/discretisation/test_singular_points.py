"""Where responses are singular on an outline, the power there, and that it balances in every cell nearby."""

import numpy as np
import pytest

from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart
from nipde.discretisation.singular_points import REACH, singular_points
from nipde.grid import Grid
from nipde.physics.conduction import Conduction
from nipde.shape import Shape

ELL = Shape.polygon(
    [(0.1, 0.1), (0.9, 0.1), (0.9, 0.5), (0.5, 0.5), (0.5, 0.9), (0.1, 0.9)],
    sides=("bottom", "right", "inner", "inner", "top", "left"),
)
DISC = Shape.disc((0.503, 0.497), 0.4, hole=0.15, vertices=2048).with_arc("held", 0.15, 0.4)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize(
    ("shape", "fixed", "exponents"),
    [
        (ELL, ["inner"], [1, 2 / 3, 1]),
        (ELL, [], [2 / 3]),
        (ELL, ["right"], [2 / 3, 1, 1]),
        (DISC, ["held"], [0.5, 0.5]),
        (DISC, ["hole 1"], []),
        (DISC.with_arc("other", 0.6, 0.7), ["held", "other"], [0.5] * 4),
    ],
)
def test_exponents_follow_from_angles_and_conditions(shape, fixed, exponents, mirrored):
    if mirrored:
        rings = tuple(ring[::-1] for ring in shape.rings)
        shape = Shape(rings, tuple((*names[-2::-1], names[-1]) for names in shape.sides))
    found = sorted(point.exponent for point in singular_points(shape, fixed))
    np.testing.assert_allclose(found, sorted(exponents), rtol=1e-2)


@pytest.mark.parametrize(("shape", "fixed"), [(ELL, ["inner"]), (ELL, ["right"]), (ELL, []), (DISC, ["held"])])
def test_powers_vanish_on_dirichlet_parts_and_do_not_pass_others(shape, fixed):
    for point in singular_points(shape, fixed):
        at = np.array([point.place.real, point.place.imag])
        for ring, names in zip(shape.rings, shape.sides, strict=True):
            ends = np.stack([ring, np.roll(ring, -1, 0)], axis=1)
            for side in np.flatnonzero(np.any(np.all(np.isclose(ends, at), axis=-1), axis=-1)):
                middle = ends[side].mean(0, keepdims=True)
                along = (ends[side, 1] - ends[side, 0])[None] / np.linalg.norm(ends[side, 1] - ends[side, 0])
                normal = along[:, ::-1] * [1, -1]
                length = np.linalg.norm(middle - at)
                if names[side] in fixed:
                    assert abs(point.power(middle)[0]) < 1e-2 * length**point.exponent
                else:
                    assert abs(point.slopes(middle, normal)[0]) < 1e-2 * length ** (point.exponent - 1)
                    assert abs(point.slopes(middle, along)[0]) > 0.3 * length ** (point.exponent - 1)


@pytest.mark.parametrize("nodes", [24, 41, 67])
def test_powers_balance_nearby_and_areas_stay_positive(nodes):
    grid = Grid.uniform(nodes)
    cells = cut_cells(grid, DISC, {"held": DirichletPart()})
    links, places, spacing = cells.links, cells.nodes, grid.spacing[0]
    assert np.all(links.area >= 0)
    for point in singular_points(DISC, ["held"]):
        starts = places[links.first]
        ends = np.where((links.second < 0)[:, None], starts + links.along, places[links.second])
        flow = links.area / links.length * (point.power(starts) - point.power(ends))
        out = np.bincount(links.first, flow, minlength=grid.size)
        out -= np.bincount(links.second[links.second >= 0], flow[links.second >= 0], minlength=grid.size)
        pieces = cells.pieces
        through = point.slopes(pieces.middle, pieces.normal) * pieces.length
        mine = np.abs(pieces.middle - places[pieces.cell]).max(axis=1) < 0.51 * spacing
        out -= np.bincount(pieces.cell, np.where(mine, through, 0.0), minlength=grid.size)
        near = cells.active.ravel() & (point.distance(places) < (REACH - 1.5) * spacing)
        assert np.abs(out[near]).max() < 5e-3 * spacing**point.exponent


def test_a_rectangle_on_grid_lines_keeps_its_areas():
    grid = Grid.uniform(21)
    rectangle = Shape.rectangle(0.8, 0.6, origin=(0.1, 0.2))
    cells = cut_cells(grid, rectangle, {"left": DirichletPart()})
    whole = np.isclose(cells.links.area, grid.spacing[0]) | np.isclose(cells.links.area, grid.spacing[0] / 2)
    assert np.all(whole | (cells.links.area < 1e-12))


def test_stairs_of_a_mask_are_no_worse(monkeypatch):
    grid = Grid.uniform(61)
    x, y = Grid.uniform(31).coordinates
    stairs = Shape.of_mask(np.hypot(x - 0.5, y - 0.5) < 0.4, Grid.uniform(31))
    radius = np.hypot(*[axis - 0.5 for axis in grid.coordinates])
    inside, exact = radius < 0.35, (0.16 - radius**2) / 4

    def error():
        law = Conduction(cut_cells(grid, stairs, {"rest": DirichletPart()}), lambda x, y: np.ones_like(x))
        return np.linalg.norm((law.solve(LoadCase(np.ones(grid.shape))).response - exact)[inside])

    ours = error()
    monkeypatch.setattr("nipde.discretisation.cut_cells.exact_near_singular_points", lambda links, *_, **__: links)
    assert ours < error()
