"""Cut cells: what they hold of region and outline, and that rectangles on grid lines give the five-point stencil."""

import numpy as np
import pytest

from nipde.boundary import Dirichlet, Neumann
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, NeumannPart, RobinPart, Terminal
from nipde.errors import GridError
from nipde.grid import Axis, Grid
from nipde.physics.conduction import Conduction
from nipde.physics.darcy import Darcy
from nipde.shape import Shape

CENTRE = (0.503, 0.497)
SHAPES = {
    "disc": Shape.disc(CENTRE, 0.37, vertices=1024),
    "ring": Shape.disc(CENTRE, 0.41, hole=0.13, vertices=1024),
    "rectangle": Shape.rectangle(0.61, 0.33, origin=(0.123, 0.217)),
    "triangle": Shape.polygon([(0.11, 0.13), (0.87, 0.31), (0.43, 0.91)], sides=("low", "right", "left")),
    "box": Shape.rectangle(1, 1),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def constant(x, y):
    return np.full_like(x, 2.5)


@every_shape
@pytest.mark.parametrize("nodes", [13, 24])
def test_volumes_sum_to_the_area_within_neumann_outlines(shape, nodes):
    grid = Grid((Axis(nodes, 1.0), Axis(nodes + 4, 1.0)))
    cells = cut_cells(grid, shape, {})
    assert np.sum(cells.measure) == pytest.approx(shape.region.area, rel=1e-10)
    assert np.array_equal(cells.volume[cells.active], cells.measure[cells.active])
    left_out = (cells.measure > 0) & ~cells.active  # each holds less than 0.1 % of a cell
    assert np.sum(cells.volume) == pytest.approx(
        shape.region.area, rel=1e-10, abs=1e-3 * np.prod(grid.spacing) * left_out.sum()
    )
    assert np.all(cells.measure[left_out] <= 1e-3 * np.prod(grid.spacing))


def test_cells_of_dirichlet_outlines_are_whole():
    grid = Grid.uniform(24)
    cells = cut_cells(grid, SHAPES["disc"], {"rim": DirichletPart()})
    assert cells.volume[cells.active] == pytest.approx(np.prod(grid.spacing), rel=1e-10)
    assert np.array_equal(cells.active.ravel(), SHAPES["disc"].contains(cells.nodes))
    assert np.sum(cells.measure) == pytest.approx(SHAPES["disc"].region.area, rel=1e-10)


@every_shape
def test_pieces_are_as_long_as_the_outline(shape):
    cells = cut_cells(Grid.uniform(19), shape, {})
    for part, line in shape.parts.items():
        mine = np.array([name == part for name in cells.pieces.part])
        assert np.sum(cells.pieces.length[mine]) == pytest.approx(line.length, rel=1e-10)
    assert np.all(cells.active.ravel()[cells.pieces.cell])


def test_pieces_on_dirichlet_parts_are_left_out():
    shape = SHAPES["ring"]
    cells = cut_cells(Grid.uniform(19), shape, {"rim": DirichletPart()})
    assert set(cells.pieces.part) == {"hole 1"}
    assert np.sum(cells.pieces.length) == pytest.approx(shape.parts["hole 1"].length, rel=1e-10)


def test_pieces_along_cell_edges_have_their_own_length():
    # One side runs along edges of cells, the others do not; all are one part.
    shape = Shape.polygon([(0.25, 0.21), (0.46875, 0.21), (0.46875, 0.77), (0.25, 0.77)])
    pieces = cut_cells(Grid.uniform(17), shape, {}).pieces
    x, y = pieces.middle.T
    stretch = (y > 4.5 / 16) & (y < 10.5 / 16)  # six rows of cells
    assert np.sum(pieces.length[stretch & (x > 0.4)]) == pytest.approx(6 / 16, rel=1e-9)
    assert np.sum(pieces.length[stretch & (x < 0.4)]) == pytest.approx(6 / 16, rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("nodes", [19, 33])
def test_normals_point_outwards(shape, nodes):
    pieces = cut_cells(Grid.uniform(nodes), shape, {}).pieces
    assert np.linalg.norm(pieces.normal, axis=1) == pytest.approx(1.0)
    step = 0.1 * pieces.length[:, None]  # beyond the bow of an arc over its chord
    inside, outside = (shape.contains(pieces.middle + sign * step * pieces.normal) for sign in (-1, 1))
    assert not np.any(outside)
    assert np.all(inside)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_lengths_and_normals_obey_the_divergence_theorem(shape):
    # ∮ n ds = 0 and ∮ x·n ds = 2 · area.
    pieces = cut_cells(Grid.uniform(33), shape, {}).pieces
    flow = pieces.length[:, None] * pieces.normal
    assert np.linalg.norm(flow.sum(axis=0)) < 0.01 * pieces.length.sum()
    assert np.sum(flow * pieces.middle) == pytest.approx(2 * shape.region.area, rel=0.02)


def test_normals_of_arcs_are_radial():
    shape = SHAPES["ring"].with_part("upper", lambda x, y: y > CENTRE[1]).with_arc("lower", 0.5, 1.0)
    pieces = cut_cells(Grid.uniform(41), shape, {"hole 1": DirichletPart(), "upper": RobinPart(1.0)}).pieces
    radial = (pieces.middle - CENTRE) / np.linalg.norm(pieces.middle - CENTRE, axis=1, keepdims=True)
    sign = np.where(np.hypot(*(pieces.middle - CENTRE).T) > 0.3, 1, -1)
    assert np.sum(radial * pieces.normal, axis=1) * sign == pytest.approx(1.0, abs=2e-3)


# Rectangles on grid lines


def responses(grid, shape, conditions, load):
    law = Conduction(cut_cells(grid, shape, conditions), constant)
    return law, law.solve(LoadCase(load)).response


@pytest.mark.parametrize("nodes", [(16, 16), (12, 19)])
def test_a_dirichlet_box_is_the_five_point_stencil(nodes):
    grid = Grid((Axis(nodes[0], 1.0), Axis(nodes[1], 1.5)))
    load = np.random.default_rng(0).standard_normal(grid.shape)
    shape = Shape.rectangle(1.0, 1.5)
    law, found = responses(grid, shape, dict.fromkeys(shape.parts, DirichletPart()), load)
    darcy = Darcy(grid, np.full(grid.shape, 2.5))
    assert np.array_equal(law.cells.active, grid.unknown)
    assert found[grid.unknown] == pytest.approx(darcy.solve(load)[grid.unknown], rel=1e-10, abs=1e-13)
    ours, theirs = (np.linalg.eigvalsh(one.matrix.toarray()) for one in (law, darcy))
    assert ours == pytest.approx(theirs, rel=1e-10)


def test_insulated_sides_are_a_neumann_axis():
    grid = Grid((Axis(13, 1.0, Neumann()), Axis(18, 1.2, Dirichlet())))
    load = np.random.default_rng(1).standard_normal(grid.shape)
    conditions = {"bottom": DirichletPart(), "top": DirichletPart(), "left": NeumannPart()}  # right: not named
    law, found = responses(grid, Shape.rectangle(1.0, 1.2), conditions, load)
    assert np.array_equal(law.cells.active, grid.unknown)
    exact = Darcy(grid, np.full(grid.shape, 2.5)).solve(load)
    assert found[grid.unknown] == pytest.approx(exact[grid.unknown], rel=1e-10, abs=1e-13)


@pytest.mark.parametrize(("nodes", "tolerance"), [(17, 1e-12), (21, 2e-3)])
def test_a_rectangle_of_nodes_within_a_larger_box_is_the_same(nodes, tolerance):
    # Where the spacing is rounded, nodes on the outline may lie inside by 1e-17; links then have a least length.
    whole, step = Grid.uniform(nodes), 1 / (nodes - 1)
    part = Grid((Axis(9, 8 * step), Axis(11, 10 * step)))  # from node (3, 5)
    load, around = np.random.default_rng(2).standard_normal(part.shape), np.ones(whole.shape)
    around[3:12, 5:16] = load
    shape = Shape.rectangle(8 * step, 10 * step, origin=(3 * step, 5 * step))
    _, found = responses(whole, shape, dict.fromkeys(shape.parts, DirichletPart()), around)
    exact = Darcy(part, np.full(part.shape, 2.5)).solve(load)
    assert found[4:11, 6:15] == pytest.approx(exact[1:-1, 1:-1], abs=tolerance * np.abs(exact).max())
    found[4:11, 6:15] = np.nan
    assert np.nanmax(np.abs(found), initial=0) <= tolerance * np.abs(exact).max()


def test_every_active_cell_is_linked():
    # Of random polygons: a cell without a link makes the matrix singular.
    for seed in (40, 92, 115, 130):
        rng = np.random.default_rng(seed)
        count = rng.integers(3, 9)
        angle, radius = np.sort(rng.uniform(0, 2 * np.pi, count)), rng.uniform(0.1, 0.48, count)
        corners = 0.5 + radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        shape = Shape.polygon(corners, sides=[f"side {number}" for number in range(count)])
        kinds = [DirichletPart(), NeumannPart(), RobinPart(1.0), Terminal(0.1)]
        law = Conduction(
            cut_cells(Grid.uniform(21), shape, {name: kinds[rng.integers(4)] for name in shape.parts}), constant
        )
        eigenvalues = np.linalg.eigvalsh(law.matrix.toarray())
        assert eigenvalues[0] > 1e-10 * eigenvalues[-1]


# Links


@pytest.mark.parametrize("condition", [RobinPart(2.0), Terminal(0.5)], ids=["robin", "terminal"])
def test_contacts_cover_the_part(condition):
    shape = SHAPES["disc"]
    links = cut_cells(Grid.uniform(25), shape, {"rim": condition}).links
    mine = links.second < 0
    assert np.sum(links.area[mine]) == pytest.approx(shape.parts["rim"].length, rel=1e-10)
    assert np.all(links.contact[mine] == 0.5)
    assert np.all(links.contact[~mine] == 0)


def test_links_to_dirichlet_parts_end_on_them():
    cells = cut_cells(Grid.uniform(25), SHAPES["ring"], {"rim": DirichletPart(), "hole 1": DirichletPart()})
    for number, radius in ((0, 0.41), (1, 0.13)):
        mine = cells.links.second == -1 - number
        ends = cells.nodes[cells.links.first[mine]] + cells.links.along[mine]
        assert mine.sum() > 8
        assert np.hypot(*(ends - CENTRE).T) == pytest.approx(radius, rel=1e-4)


# Refused


@pytest.mark.parametrize("origin", [(-0.1, 0.2), (0.6, 0.2), (0.2, 0.8)])
def test_a_shape_outside_the_box_is_refused(origin):
    with pytest.raises(GridError, match=r"expected a shape within 0 … \[1\.0, 1\.0\], got .*: take a larger box"):
        cut_cells(Grid.uniform(9), Shape.rectangle(0.5, 0.5, origin=origin), {})


def test_conditions_of_unknown_parts_are_refused():
    with pytest.raises(GridError) as refused:
        cut_cells(Grid.uniform(9), Shape.rectangle(1, 1), {"lid": DirichletPart(), "left": DirichletPart()})
    assert refused.value.expected == "parts among bottom, right, top, left"
    assert refused.value.got == "lid"
    assert refused.value.remedy == "name the part on the shape first"


def test_shapes_need_a_plane_grid():
    with pytest.raises(GridError, match="expected a grid of two axes, got 3"):
        cut_cells(Grid.uniform(5, dimension=3), Shape.rectangle(1, 1), {})


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_contacts_need_a_finite_positive_number(value):
    for kind in (RobinPart, Terminal):
        with pytest.raises(GridError, match="> 0"):
            kind(value)
