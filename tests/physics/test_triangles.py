"""Linear triangles on a specimen: against scikit-fem, exact solutions, and what the mesh must be."""

import numpy as np
import pytest
from skfem import Basis, BilinearForm, ElementTriP0, ElementTriP1, LinearForm, MeshTri, asm
from skfem.helpers import dot, grad

from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, RobinPart, Specimen, Terminal
from nipde.errors import PhysicsError
from nipde.physics.triangles import TriangleConduction, smaller_at_singular_points, triangulated
from nipde.shape import Shape

CENTRE = (0.5, 0.5)
SHAPES = {
    "disc": Shape.disc(CENTRE, 0.45),
    "ring": Shape.disc(CENTRE, 0.45, hole=0.15),
    "L": Shape.polygon([(0, 0), (1, 0), (1, 0.5), (0.5, 0.5), (0.5, 1), (0, 1)], sides=tuple("abcdef")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_mesh_follows_the_outline_and_its_parts(name):
    shape = SHAPES[name]
    mesh = triangulated(shape, 0.02)
    assert mesh.areas.sum() == pytest.approx(shape.region.area, rel=1e-3)
    assert mesh.areas.min() > 0.1 * mesh.areas.mean()
    for part, line in shape.parts.items():
        own = mesh.edges[[one == part for one in mesh.parts]]
        length = np.linalg.norm(np.diff(mesh.vertices[own], axis=1)[:, 0], axis=1).sum()
        assert length == pytest.approx(line.length, rel=1e-3)


def test_matrices_are_those_of_scikit_fem():
    mesh = triangulated(SHAPES["ring"], 0.05)
    b = np.random.default_rng(0).uniform(1, 5, len(mesh.triangles))
    other = MeshTri(mesh.vertices.T, mesh.triangles.T)
    basis = Basis(other, ElementTriP1())
    at = Basis(other, ElementTriP0()).interpolate(b)
    stiffness = asm(BilinearForm(lambda u, v, w: w.b * dot(grad(u), grad(v))), basis, b=at)
    assert abs(mesh.stiffness(b) - stiffness).max() < 1e-12
    assert abs(mesh.mass - asm(BilinearForm(lambda u, v, w: u * v), basis)).max() < 1e-15
    points = np.array([(0.7, 0.71), (0.3, 0.6), (0.5, 0.3)])
    assert abs(mesh.at(points) - basis.probes(points.T)).max() < 1e-10


def test_planes_are_exact_with_given_values_and_fluxes():
    shape = SHAPES["L"]
    mesh = triangulated(shape, 0.06)
    law = TriangleConduction(mesh, np.full(len(mesh.triangles), 3.0), Specimen(shape, {"f": DirichletPart()}))
    outwards = {"a": (0, -1), "b": (1, 0), "c": (0, 1), "d": (1, 0), "e": (0, 1)}
    case = LoadCase(
        values={"f": lambda x, y: 1 + 2 * x - y}, fluxes={part: 3 * (2 * n[0] - n[1]) for part, n in outwards.items()}
    )
    found = law.solve(np.zeros((len(mesh.vertices), 1)), [case])[:, 0]
    np.testing.assert_allclose(found, 1 + 2 * mesh.vertices[:, 0] - mesh.vertices[:, 1], atol=1e-10)


def test_a_disc_with_a_robin_rim_is_second_order():
    errors = []
    for spacing in (0.04, 0.02):
        mesh = triangulated(SHAPES["disc"], spacing)
        specimen = Specimen(SHAPES["disc"], {"rim": RobinPart(4.0)})
        law = TriangleConduction(mesh, np.full(len(mesh.triangles), 2.0), specimen)
        found = law.solve(mesh.mass @ np.ones((len(mesh.vertices), 1)), [LoadCase(values={"rim": 0.3})])[:, 0]
        r = np.hypot(*(mesh.vertices - CENTRE).T)
        errors.append(np.abs(found - (0.3 + 0.45 / 8 + (0.45**2 - r**2) / 8)).max())
    assert errors[1] < errors[0] / 3
    assert errors[1] < 2e-4


@pytest.mark.parametrize("spacing", [5.0, 6.0, 7.0, 8.0, 10.0, 12.0])
def test_oblique_sides_leave_no_flat_triangles_and_no_corner_is_cut(spacing):
    corners = [(0, 100), (260, 0), (600, 60), (1000, 0), (950, 330), (1000, 620), (780, 800), (420, 720), (40, 520)]
    shape = Shape.polygon(corners)
    mesh = triangulated(shape, spacing)
    assert mesh.areas.min() > 0.02 * spacing**2
    assert mesh.areas.sum() == pytest.approx(shape.region.area, rel=1e-9)


def test_terminals_and_crowded_outlines_are_refused():
    mesh = triangulated(SHAPES["disc"], 0.1)
    with pytest.raises(PhysicsError, match="terminal"):
        TriangleConduction(mesh, np.ones(len(mesh.triangles)), Specimen(SHAPES["disc"], {"rim": Terminal(0.1)}))
    spike = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0.55), (0.345, 0.5), (0, 0.45)]
    hole = [(0.35, 0.35), (0.65, 0.35), (0.65, 0.65), (0.35, 0.65)]
    with pytest.raises(PhysicsError, match="smaller spacing"):
        triangulated(Shape.polygon(spike, holes=[hole]), 0.1)


def test_a_refined_mesh_is_the_same_specimen():
    mesh = triangulated(SHAPES["ring"], 0.05)
    finer = mesh.refined()
    np.testing.assert_allclose(finer.areas.reshape(-1, 4), np.repeat(mesh.areas[:, None] / 4, 4, axis=1), rtol=1e-9)
    assert len(finer.edges) == 2 * len(mesh.edges)
    b = np.random.default_rng(0).uniform(1, 5, len(mesh.triangles))
    plane = mesh.vertices @ (2.0, -1.0), finer.vertices @ (2.0, -1.0)
    energies = [u @ one.stiffness(k) @ u for u, one, k in zip(plane, (mesh, finer), (b, np.repeat(b, 4)), strict=True)]
    assert energies[0] == pytest.approx(energies[1], rel=1e-9)


def test_moments_of_quadratic_functions_are_exact():
    mesh = triangulated(SHAPES["ring"], 0.1)
    basis = Basis(MeshTri(mesh.vertices.T, mesh.triangles.T), ElementTriP1(), intorder=4)

    def function(x, y):
        return x**2 - 2 * x * y + y

    wanted = asm(LinearForm(lambda v, w: function(*w.x) * v), basis)
    found = mesh.moments(lambda points: function(*points.T)[:, None])[:, 0]
    np.testing.assert_allclose(found, wanted, atol=1e-15)
    assert abs(mesh.mass @ function(*mesh.vertices.T) - wanted).max() > 1e-7


@pytest.mark.parametrize("margin", [-4.0, 6.0])
def test_divided_triangles_fit_their_neighbours_and_lie_in_their_parents(margin):
    mesh = triangulated(SHAPES["ring"], 0.05)
    places = np.array([(0.95, 0.5), (0.5, 0.65)])
    finer, within = mesh.refined_near(places, radius=0.15, times=3, margin=margin)
    assert len(mesh.triangles) < len(finer.triangles) < 3 * len(mesh.triangles)
    np.testing.assert_allclose(np.bincount(within, finer.areas), mesh.areas, rtol=1e-9)
    sides, counts = np.unique(
        np.sort(finer.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0, return_counts=True
    )
    outline = {tuple(side) for side in np.sort(finer.edges, axis=1).tolist()}
    assert {tuple(side) for side in sides[counts == 1].tolist()} == outline
    assert counts.max() == 2
    assert finer.areas.min() < mesh.areas.min() / 30
    for part, line in SHAPES["ring"].parts.items():
        own = finer.edges[[one == part for one in finer.parts]]
        assert np.linalg.norm(np.diff(finer.vertices[own], axis=1)[:, 0], axis=1).sum() == pytest.approx(
            line.length, rel=1e-2
        )


def test_ends_of_dirichlet_parts_need_smaller_triangles():
    """r^½ cos (χ / 2) is the singular response where a Dirichlet part of a straight side ends."""
    shape = Shape.polygon([(-1, 0), (0, 0), (1, 0), (1, 1), (-1, 1)], sides=("free", "held", "rim", "rim", "rim"))

    def exact(x, y):
        return np.sqrt(x + 1j * y).imag

    specimen = Specimen(shape, {"held": DirichletPart(), "rim": DirichletPart()})
    case, at = LoadCase(values={"rim": exact, "held": exact}), np.array([(-0.5, 0.3), (0.1, 0.2), (0.5, 0.6)])
    coarse = triangulated(shape, 0.05)
    errors = []
    for mesh in (coarse, smaller_at_singular_points(coarse, specimen)[0]):
        law = TriangleConduction(mesh, np.ones(len(mesh.triangles)), specimen)
        found = mesh.at(at) @ law.solve(np.zeros((len(mesh.vertices), 1)), [case])[:, 0]
        errors.append(np.abs(found - exact(*at.T)).max())
    assert errors[1] < errors[0] / 5


def test_corners_of_a_mask_stay_as_they_are_and_a_single_one_does_not():
    steps = [(1 - across / 20, up / 20) for up in range(1, 21) for across in (up - 1, up)]
    shape = Shape.polygon([(0, 0), (1, 0), *steps])
    for one, grows in ((shape, False), (SHAPES["L"], True)):
        mesh = triangulated(one, 0.02)
        finer, _ = smaller_at_singular_points(mesh, Specimen(one, {}))
        assert (len(finer.triangles) > len(mesh.triangles)) == grows


def test_smaller_triangles_beside_short_supports_leave_no_side_with_a_vertex_within():
    shape = Shape.rectangle(1.0, 0.4).with_part("support", lambda x, y: (y < 1e-9) & (x > 0.04) & (x < 0.1))
    specimen = Specimen(shape, {"support": DirichletPart()})
    for spacing in (0.01, 0.013, 0.02, 0.03):
        mesh, _ = smaller_at_singular_points(triangulated(shape, spacing), specimen)
        ends, number = mesh.sides
        single = ends[np.bincount(number.ravel()) == 1]
        assert {tuple(side) for side in single.tolist()} == {
            tuple(side) for side in np.sort(mesh.edges, axis=1).tolist()
        }
