"""Quadratic triangles for plane solids: against exact solutions and scikit-fem, with every kind of support."""

import numpy as np
import pytest
import skfem
import sympy
from skfem.models.elasticity import lame_parameters, linear_elasticity

from nipde.discretisation.parts import ClampedPart, GripPart, RollerPart, Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import PhysicsError
from nipde.physics.plane_elasticity import PlaneElasticity
from nipde.physics.plane_elements import PlaneElements, rigid_motions
from nipde.physics.triangles import Triangulation, triangulated
from nipde.shape import Shape

MODULUS, POISSON = 7.0, 0.3
SQUARE = Shape.rectangle(1.0, 1.0)
#: Slanted at the right and at the top.
SLANTED = Shape.polygon(
    [(0, 0), (1.2, 0), (0.9, 0.6), (0.4, 0.9), (0, 0.7)], sides=("bottom", "right", "slope", "top", "left")
)
CORNER = {"left": RollerPart("x"), "bottom": RollerPart("y")}
TENSION = SolidLoad(tractions={"right": (1.0, 0.0)})


def solid(specimen, *, spacing=0.2, modulus=MODULUS, plane="stress"):
    return PlaneElasticity.of(specimen, modulus, poisson=POISSON, spacing=spacing, plane=plane)


def solved(specimen, load, **more):
    """The solid, and displacements (node, 2)."""
    one = solid(specimen, **more)
    return one, one.solve([load])[:, 0].reshape(-1, 2)


def normals(shape):
    """Outwards, by side."""
    along = np.roll(shape.rings[0], -1, 0) - shape.rings[0]
    lengths = np.linalg.norm(along, axis=1)
    return dict(zip(shape.sides[0], np.stack([along[:, 1], -along[:, 0]], -1) / lengths[:, None], strict=True))


def reactions(one, displacement):
    """Forces (node, 2) that hold a solid as it is."""
    return (one.elements.stiffness(one._stiffness) @ displacement.ravel()).reshape(-1, 2)


def moment(arms, forces):
    return float(np.sum(arms[:, 0] * forces[:, 1] - arms[:, 1] * forces[:, 0]))


# Exact solutions


@pytest.mark.parametrize("shape", [SQUARE, SLANTED], ids=["square", "slanted"])
@pytest.mark.parametrize(
    ("plane", "along", "across"),
    [("stress", 1 / MODULUS, -POISSON / MODULUS),
     ("strain", (1 - POISSON**2) / MODULUS, -POISSON * (1 + POISSON) / MODULUS)],
    ids=["plane stress", "plane strain"],
)  # fmt: skip
def test_uniform_tension_is_exact(shape, plane, along, across):
    free = {side: normal for side, normal in normals(shape).items() if side not in CORNER}
    load = SolidLoad(tractions={side: (2 * normal[0], 0.0) for side, normal in free.items()})
    one, found = solved(Specimen(shape, CORNER), load, plane=plane)
    np.testing.assert_allclose(found, 2 * one.elements.nodes * (along, across), atol=1e-12)
    np.testing.assert_allclose(one.stresses(found.ravel()), np.tile([2.0, 0, 0], (len(one.modulus), 1)), atol=1e-11)
    points = np.array([(0.31, 0.22), (0.5, 0.51), (0.0, 0.0)])
    seen = one.displacements([load, load.scaled(-3.0)], points)
    np.testing.assert_allclose(seen[0], 2 * (points * (along, across)).T, atol=1e-12)
    np.testing.assert_allclose(seen[1], -3 * seen[0], atol=1e-12)


@pytest.mark.parametrize("plane", ["stress", "strain"])
def test_uniform_shear_is_exact_without_any_support(plane):
    tractions = {side: (normal[1], normal[0]) for side, normal in normals(SLANTED).items()}
    one, found = solved(Specimen(SLANTED), SolidLoad(tractions=tractions), plane=plane)
    np.testing.assert_allclose(one.stresses(found.ravel()), np.tile([0.0, 0, 1], (len(one.modulus), 1)), atol=1e-10)
    strain = one.elements.strain @ found.ravel()
    np.testing.assert_allclose(strain.reshape(-1, 3)[:, 2] * np.sqrt(2), 2 * (1 + POISSON) / MODULUS, atol=1e-10)


def test_rigid_motions_give_no_strain_and_stretching_does():
    elements = solid(Specimen(SLANTED)).elements
    motions = rigid_motions(elements.nodes).reshape(-1, 3)
    assert np.abs(elements.strain @ motions).max() < 1e-12
    stretched = elements.strain @ (elements.nodes * (1.0, -1.0)).ravel()
    np.testing.assert_allclose(
        stretched.reshape(-1, 3), np.tile([0, np.sqrt(2), 0], (len(elements.points), 1)), atol=1e-12
    )


def test_a_given_rotation_of_a_clamped_part_turns_the_specimen_without_stress():
    turn = SolidLoad(displacements={"left": lambda x, y: np.stack([0.2 - y, x], -1)})
    one, found = solved(Specimen(SLANTED, {"left": ClampedPart()}), turn)
    x, y = one.elements.nodes.T
    np.testing.assert_allclose(found, np.stack([0.2 - y, x], -1), atol=1e-11)
    assert np.abs(one.stresses(found.ravel())).max() < 1e-9


def test_the_solution_turns_with_the_specimen():
    angle = np.deg2rad(30)
    turn = np.array([(np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))])
    mesh, force = triangulated(SLANTED, 0.15), np.array([0.7, -0.4])
    turned = Triangulation(mesh.vertices @ turn.T, mesh.triangles, mesh.edges, mesh.parts)
    shape = Shape.polygon(SLANTED.rings[0] @ turn.T, sides=SLANTED.sides[0])
    found = []
    for this, outline, traction in ((mesh, SLANTED, force), (turned, shape, turn @ force)):
        elements = PlaneElements(this, Specimen(outline, {"left": ClampedPart()}))
        modulus = np.exp(np.random.default_rng(0).standard_normal(len(elements.points)))
        load = SolidLoad(tractions={"slope": tuple(traction)}, body=tuple(traction))
        found.append(PlaneElasticity(elements, modulus, POISSON).solve([load]).reshape(-1, 2))
    assert np.abs(found[0]).max() > 0.1
    np.testing.assert_allclose(found[1], found[0] @ turn.T, atol=1e-11)


@pytest.mark.parametrize("plane", ["stress", "strain"])
def test_a_smooth_solution_is_of_third_order(plane):
    x, y = sympy.symbols("x y")
    u = sympy.Matrix([sympy.sin(2 * x + y) + x * y**2, sympy.cos(x - 2 * y) - x**3])
    modulus = 2 + sympy.sin(x + y)
    slopes = u.jacobian((x, y))
    strain = (slopes + slopes.T) / 2
    second = modulus / (2 * (1 + POISSON))
    first = modulus * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    if plane == "stress":
        first = 2 * first * second / (first + 2 * second)
    stress = first * strain.trace() * sympy.eye(2) + 2 * second * strain
    force = [-sum(sympy.diff(stress[row, k], axis) for k, axis in enumerate((x, y))) for row in (0, 1)]

    def numbers(expressions):
        each = [sympy.lambdify((x, y), one) for one in expressions]
        return lambda *at: np.stack([one(*at) for one in each], -1)

    exact, body, stiff = numbers(u), numbers(force), sympy.lambdify((x, y), modulus)
    specimen = Specimen(SLANTED, dict.fromkeys(SLANTED.sides[0], ClampedPart()))
    load = SolidLoad(displacements=dict.fromkeys(SLANTED.sides[0], exact), body=body)
    mesh, errors = triangulated(SLANTED, 0.2), []
    for _ in range(3):
        elements = PlaneElements(mesh, specimen)
        one = PlaneElasticity(elements, stiff(*elements.points.T), POISSON, plane)
        seen = one.displacements([load], elements.points)[0].T
        errors.append(np.sqrt(np.sum(elements.weights[:, None] * (seen - exact(*elements.points.T)) ** 2)))
        mesh = mesh.refined()
    assert errors[0] < 1e-2
    assert np.log2(np.array(errors[:-1]) / errors[1:]).min() > 2.7


def kirsch(x, y):
    """Stresses σx, σy and τ of an infinite plate with a hole of radius 1 under unit tension along x."""
    r, a = np.hypot(x, y), np.arctan2(y, x)
    return np.stack([
        1 - r**-2 * (1.5 * np.cos(2 * a) + np.cos(4 * a)) + 1.5 * r**-4 * np.cos(4 * a),
        -(r**-2) * (0.5 * np.cos(2 * a) - np.cos(4 * a)) - 1.5 * r**-4 * np.cos(4 * a),
        -(r**-2) * (0.5 * np.sin(2 * a) + np.sin(4 * a)) + 1.5 * r**-4 * np.sin(4 * a),
    ], axis=-1)  # fmt: skip


def test_stresses_around_a_hole_are_those_of_kirsch():
    def traction(x, y):
        along_x, along_y, shear = kirsch(x, y).T
        normal = np.stack([x, y], -1) / np.hypot(x, y)[:, None]
        return np.stack(
            [along_x * normal[:, 0] + shear * normal[:, 1], shear * normal[:, 0] + along_y * normal[:, 1]], -1
        )

    specimen = Specimen(Shape.disc((0.0, 0.0), 5.0, hole=1.0))
    errors, peaks = [], []
    for spacing in (0.5, 0.25):
        one, found = solved(specimen, SolidLoad(tractions={"rim": traction}), spacing=spacing)
        stresses, weights = one.stresses(found.ravel()), one.elements.weights[:, None]
        exact = kirsch(*one.elements.points.T)
        errors.append(np.sqrt(np.sum(weights * (stresses - exact) ** 2) / np.sum(weights * exact**2)))
        peaks.append(stresses[:, 0].max())
    assert errors[1] < 0.4 * errors[0]
    assert errors[1] < 0.02
    assert peaks[1] == pytest.approx(3.0, abs=0.25)


# scikit-fem


@pytest.mark.parametrize("plane", ["stress", "strain"])
def test_a_modulus_that_jumps_gives_the_displacements_of_scikit_fem(plane):
    specimen, mesh = Specimen(SLANTED, {"left": ClampedPart(), "bottom": RollerPart("y")}), triangulated(SLANTED, 0.15)
    modulus = np.random.default_rng(0).choice([1.0, 20.0], len(mesh.triangles))
    elements = PlaneElements(mesh, specimen)
    load = SolidLoad(tractions={"slope": lambda x, y: np.stack([1 + y, x**2 - y], -1)}, body=(0.3, -0.5))
    found = PlaneElasticity(elements, np.repeat(modulus, 12), POISSON, plane).solve([load]).reshape(-1, 2)

    triangles = skfem.MeshTri(*(np.ascontiguousarray(each.T) for each in (mesh.vertices, mesh.triangles)))
    basis = skfem.Basis(triangles, skfem.ElementVector(skfem.ElementTriP2()))
    first, second = lame_parameters(1.0, POISSON)
    unit = linear_elasticity(2 * first * second / (first + 2 * second) if plane == "stress" else first, second)
    matrix = skfem.BilinearForm(lambda u, v, w: w["modulus"] * unit.form(u, v, w)).assemble(
        basis, modulus=basis.with_element(skfem.ElementTriP0()).interpolate(modulus)
    )
    a, b = SLANTED.rings[0][[2, 3]]
    slope = triangles.facets_satisfying(
        lambda x: np.abs((x[0] - a[0]) * (b[1] - a[1]) - (x[1] - a[1]) * (b[0] - a[0])) < 1e-9, boundaries_only=True
    )
    right = skfem.LinearForm(lambda v, w: 0.3 * v[0] - 0.5 * v[1]).assemble(basis)
    right += skfem.LinearForm(lambda v, w: (1 + w.x[1]) * v[0] + (w.x[0] ** 2 - w.x[1]) * v[1]).assemble(
        skfem.FacetBasis(triangles, basis.elem, facets=slope)
    )
    left = basis.get_dofs(lambda x: x[0] < 1e-9).all()
    bottom = basis.get_dofs(lambda x: x[1] < 1e-9).all(["u^2"])
    u = skfem.solve(*skfem.condense(matrix, right, D=np.union1d(left, bottom)))
    # by the position of its unknowns
    expected, size = np.zeros_like(found), np.abs(u).max()
    for axis, name in enumerate(("u^1", "u^2")):
        mine = np.concatenate([basis.nodal_dofs[axis], basis.facet_dofs[axis]])
        at = basis.doflocs[:, mine].T
        near = np.linalg.norm(at[:, None] - elements.nodes, axis=-1).argmin(axis=1)
        assert len(np.unique(near)) == len(elements.nodes), name
        expected[near, axis] = u[mine]
    assert np.abs(found - expected).max() < 1e-10 * size


# Supports


@pytest.mark.parametrize("rotates", [False, True])
def test_a_grip_moves_rigidly_under_its_force(rotates):
    def modulus(x, y):
        return 1 + 5 * (y > 0.5)

    force = np.array([0.6, 0.25])
    held = {"left": ClampedPart(), "right": GripPart(rotates=rotates)}
    one, found = solved(Specimen(SQUARE, held), SolidLoad(forces={"right": tuple(force)}), modulus=modulus)
    grip = one.elements.nodes_of("right")
    arms = one.elements.nodes[grip] - one.elements.nodes[grip].mean(axis=0)
    motion = np.linalg.lstsq(rigid_motions(arms).reshape(-1, 3), found[grip].ravel(), rcond=None)[0]
    np.testing.assert_allclose(rigid_motions(arms) @ motion, found[grip], atol=1e-12)
    assert (abs(motion[2]) > 0.01) if rotates else (np.ptp(found[grip], axis=0).max() < 1e-12)
    holding = reactions(one, found)
    np.testing.assert_allclose(holding[grip].sum(axis=0), force, atol=1e-11)
    assert (abs(moment(arms, holding[grip])) < 1e-11) == rotates
    np.testing.assert_allclose(holding[one.elements.nodes_of("left")].sum(axis=0), -force, atol=1e-11)


@pytest.mark.parametrize("rotates", [False, True])
def test_a_grip_is_the_clamped_part_whose_reactions_are_its_force(rotates):
    force, count = np.array([0.6, 0.25, 0.0]), 3 if rotates else 2
    clamped = solid(Specimen(SQUARE, {"left": ClampedPart(), "right": ClampedPart()}))
    grip, nodes = clamped.elements.nodes_of("right"), clamped.elements.nodes
    middle = nodes[grip].mean(axis=0)

    def moved(kind):
        return lambda x, y: rigid_motions(np.stack([x, y], -1) - middle)[:, :, kind]

    units = clamped.solve([SolidLoad(displacements={"right": moved(kind)}) for kind in range(count)])
    holding = [reactions(clamped, unit)[grip] for unit in units.T]
    resistance = np.array([[*one.sum(axis=0), moment(nodes[grip] - middle, one)] for one in holding]).T
    sizes = np.linalg.solve(resistance[:count], force[:count])
    held = Specimen(SQUARE, {"left": ClampedPart(), "right": GripPart(rotates=rotates)})
    found = solid(held).solve([SolidLoad(forces={"right": (0.6, 0.25)})])[:, 0]
    assert np.abs(found).max() > 0.05
    np.testing.assert_allclose(found, units @ sizes, atol=1e-12)


def test_clamped_parts_rollers_and_grips_move_as_they_are_given():
    conditions = {"left": ClampedPart(), "bottom": RollerPart("y"), "top": GripPart()}
    given = SolidLoad(displacements={"left": lambda x, y: np.stack([0.1 * y, 0.2 + x], -1), "bottom": (5.0, 0.05)})
    one, found = solved(Specimen(SQUARE, conditions), given)
    x, y = one.elements.nodes.T
    left, bottom, top = (one.elements.nodes_of(part) for part in ("left", "bottom", "top"))
    inner = left[y[left] > 0]  # with the corner of the grip
    np.testing.assert_allclose(found[inner], np.stack([0.1 * y[inner], np.full(len(inner), 0.2)], -1), atol=1e-12)
    np.testing.assert_allclose(found[np.setdiff1d(bottom, left), 1], 0.05, atol=1e-12)
    assert np.abs(found[bottom, 0]).max() < 1  # the other component of a roller is free
    assert np.ptp(found[np.setdiff1d(top, left)], axis=0).max() < 1e-12
    rest = np.setdiff1d(np.arange(len(x)), np.concatenate([left, bottom, top]))
    assert np.abs(reactions(one, found)[rest]).max() < 1e-11


@pytest.mark.parametrize("order", [("left", "bottom"), ("bottom", "left")], ids=["first", "last"])
def test_where_a_roller_meets_a_clamped_part_that_counts_more(order):
    specimen, given = Specimen(SQUARE, {"left": ClampedPart(), "bottom": RollerPart("y")}), {"left": (0.1, 0.2)}
    load = SolidLoad(displacements={part: given.get(part, (0.0, 0.05)) for part in order})
    one, found = solved(specimen, load)
    left = one.elements.nodes_of("left")
    np.testing.assert_allclose(found[left], np.tile(given["left"], (len(left), 1)), atol=1e-12)


def test_pulling_a_clamped_part_is_the_tension_that_it_needs():
    conditions = {**CORNER, "right": RollerPart("x")}
    one, found = solved(Specimen(SQUARE, conditions), SolidLoad(displacements={"right": (0.03, 9.0)}))
    np.testing.assert_allclose(found, one.elements.nodes * (0.03, -0.03 * POISSON), atol=1e-12)
    right = one.elements.nodes_of("right")
    assert reactions(one, found)[right, 0].sum() == pytest.approx(0.03 * MODULUS, rel=1e-10)


def test_forces_of_a_load_have_the_resultant_and_the_moment_of_its_densities():
    elements = solid(Specimen(SLANTED)).elements
    (ax, ay), (bx, by) = SLANTED.rings[0][[2, 3]]
    length = np.hypot(bx - ax, by - ay)
    assert elements.lengths("slope") == pytest.approx(length, rel=1e-12)
    traction = SolidLoad(tractions={"slope": lambda x, y: np.stack([x, 2 * y], -1)})
    total = elements.forces(traction).reshape(-1, 2).sum(axis=0)
    np.testing.assert_allclose(total, [length * (ax + bx) / 2, length * (ay + by)], rtol=1e-12)
    body = elements.forces(SolidLoad(body=(1.0, -2.0))).reshape(-1, 2)
    area, centre = SLANTED.region.area, np.array(SLANTED.region.centroid.coords[0])
    np.testing.assert_allclose(body.sum(axis=0), [area, -2 * area], rtol=1e-12)
    assert moment(elements.nodes, body) == pytest.approx(area * (-2 * centre[0] - centre[1]), rel=1e-12)


# Balance


def test_without_supports_loads_must_be_in_balance():
    free = solid(Specimen(SQUARE))
    pulled = SolidLoad(tractions={"right": (1.0, 0.0), "left": (-1.0, 0.0)})
    stresses = free.stresses(free.solve([pulled])[:, 0])
    np.testing.assert_allclose(stresses, np.tile([1.0, 0, 0], (len(stresses), 1)), atol=1e-10)
    turning = SolidLoad(tractions={"right": (0.0, 1.0), "left": (0.0, -1.0)})
    for load in (
        TENSION,
        turning,
        SolidLoad(body=(0.0, -1.0)),
        SolidLoad(tractions={**pulled.tractions, "top": (0, 1)}),
    ):
        with pytest.raises(PhysicsError, match=r"expected loads in balance.*got .*%.*: clamp a part"):
            free.solve([load])


@pytest.mark.parametrize(
    ("conditions", "load"),
    [({"left": RollerPart("x")}, SolidLoad(tractions={"right": (1.0, 0.5)})),
     ({"left": RollerPart("x"), "right": RollerPart("x")}, SolidLoad(body=(0.0, -1.0))),
     ({"right": GripPart()}, SolidLoad(forces={"right": (1.0, 0.0)})),
     ({"left": GripPart(), "right": GripPart()}, SolidLoad(forces={"left": (-1.0, 0.0), "right": (2.0, 0.0)}))],
    ids=["one roller", "two rollers", "a grip", "two grips"],
)  # fmt: skip
def test_loads_must_be_in_balance_along_what_supports_leave_free(conditions, load):
    with pytest.raises(PhysicsError, match="balance"):
        solid(Specimen(SQUARE, conditions)).solve([load])


def test_a_support_that_stops_some_motions_needs_balance_in_the_others_only():
    one, found = solved(Specimen(SQUARE, {"left": RollerPart("x")}), TENSION)
    np.testing.assert_allclose(one.stresses(found.ravel())[:, 0], 1.0, atol=1e-10)
    grips = Specimen(SQUARE, {"left": GripPart(), "right": GripPart()})
    one, found = solved(grips, SolidLoad(forces={"left": (-2.0, 0.0), "right": (2.0, 0.0)}))
    np.testing.assert_allclose(np.mean(one.stresses(found.ravel()), axis=0)[0], 2.0, atol=0.1)
    right = one.elements.nodes_of("right")
    np.testing.assert_allclose(reactions(one, found)[right].sum(axis=0), [2.0, 0.0], atol=1e-10)


# Refused


@pytest.mark.parametrize(
    ("load", "expected", "got"),
    [(SolidLoad(tractions={"nowhere": (1.0, 0.0)}), "tractions on a NeumannPart", "no such part"),
     (SolidLoad(tractions={"left": (1.0, 0.0)}), "tractions on a NeumannPart", "'left', a ClampedPart"),
     (SolidLoad(forces={"top": (1.0, 0.0)}), "forces on a GripPart", "'top', a NeumannPart"),
     (SolidLoad(displacements={"right": (1.0, 0.0)}), "displacements on a ClampedPart or RollerPart", "a GripPart"),
     (SolidLoad(tractions={"top": (np.nan, 0.0)}), "finite loads", "others"),
     (SolidLoad(tractions={"top": lambda x, y: np.stack([1 / (x * 0), y], -1)}), "finite loads", "others"),
     (SolidLoad(displacements={"left": (np.inf, 0.0)}), "finite loads", "others"),
     (SolidLoad(body=(0.0, np.nan)), "finite loads", "others"),
     (SolidLoad(forces={"right": (np.nan, 0.0)}), "finite loads", "others"),
     (SolidLoad(tractions={"top": (1.0, 0.0, 0.0)}), "two components", r"\(3,\)"),
     (SolidLoad(body=lambda x, y: np.stack([x, y])), "two components", r"\(2, ")],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_load_that_cannot_be_is_refused_and_says_why(load, expected, got):
    one = solid(Specimen(SQUARE, {"left": ClampedPart(), "right": GripPart()}), spacing=0.4)
    with pytest.raises(PhysicsError, match=got) as refused:
        one.solve([load])
    assert expected in refused.value.expected
    assert refused.value.remedy


def test_a_condition_on_a_part_that_is_not_there_is_refused():
    with pytest.raises(PhysicsError, match=r"a part among bottom, left, right, top, got 'hole 1': name a part"):
        solid(Specimen(SQUARE, {"hole 1": ClampedPart()})).solve([TENSION])


@pytest.mark.parametrize("modulus", [0.0, -1.0, np.nan, np.inf])
def test_a_modulus_that_is_not_positive_is_refused(modulus):
    with pytest.raises(PhysicsError, match="modulus"):
        solid(Specimen(SQUARE), modulus=lambda x, y: np.where(x < 0.5, modulus, 1.0))
