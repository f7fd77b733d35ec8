"""Bodies told cell by cell: the same as those told otherwise, linear at rest, and what their terms weigh."""

import numpy as np
import pytest

from nipde.errors import PhysicsError, ShapeError
from nipde.grid import Axis, Grid
from nipde.physics.bodies import CellwiseBody, NeoHookean, TwoSegmentTissue
from nipde.physics.materials import Fibres, fibre_stress, lame_modulus, matrix_stresses, shear_modulus
from nipde.physics.quadrilaterals import mesh_of

BOX = Grid((Axis(7, 2.0), Axis(6, 1.5)))
CELLS = (6, 5)


def uneven(seed=0, low=0.5, high=3.0):
    return np.random.default_rng(seed).uniform(low, high, CELLS)


def body(*, families=1, seed=0):
    angles = np.random.default_rng(seed + 9).uniform(0, np.pi, (families, *CELLS))
    stiffness = np.random.default_rng(seed + 8).uniform(0.2, 1.0, (families, *CELLS))
    return CellwiseBody(BOX, uneven(seed), uneven(seed + 1), angles, stiffness)


def loads(count=3, size=0.1, seed=2):
    return size * np.random.default_rng(seed).standard_normal((count, 2, *BOX.shape))


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def test_without_fibres_it_is_neo_hookean():
    young = uneven()
    shear, lame = shear_modulus(young, 0.3), lame_modulus(young, 0.3)
    nothing = np.zeros((0, *CELLS))
    mine = CellwiseBody(BOX, shear, lame, nothing, nothing)
    assert relative(mine.solve(loads()), NeoHookean(BOX, young, 0.3).solve(loads())) < 1e-10
    np.testing.assert_allclose(mine.young, young, rtol=1e-12)


def test_fibres_that_hardly_stiffen_are_those_of_tissue():
    angles, young = (0.4, 0.4), 0.7
    tissue = TwoSegmentTissue(BOX, angles, 0.3, young, 0.3, Fibres(0.5, 1e-9))
    even = np.ones(CELLS)
    mine = CellwiseBody(
        BOX, shear_modulus(young * even, 0.3), young * even / (3 * 0.4), 0.4 * even[None], 0.5 * even[None]
    )
    assert relative(mine.solve(loads()), tissue.solve(loads())) < 1e-7


def test_forces_are_the_sum_of_those_of_its_terms():
    made, mesh = body(families=2), mesh_of(BOX, 1, 1)
    moved = 0.1 * np.random.default_rng(5).standard_normal((2, *BOX.shape))
    nodal = moved.reshape(2, -1).T
    gradient = np.einsum("eac,qak->eqck", nodal[mesh.elements], mesh.gradients)
    fibres = [fibre_stress(gradient, angle.reshape(-1, 1))[0] for angle in made.angles]
    amounts = [made.shear, made.bulk, *made.stiffness]
    units = [*matrix_stresses(gradient), *fibres]
    stress = sum(amount.reshape(-1, 1, 1, 1) * unit for amount, unit in zip(amounts, units, strict=True))
    forces = np.zeros_like(nodal)
    np.add.at(forces, mesh.elements, np.einsum("eqck,qak,q->eac", stress, mesh.gradients, mesh.weights))
    assert relative(forces.T.reshape(moved.shape), made.forces(moved)) < 1e-12


def test_small_strains_are_the_limit():
    gradient = np.random.default_rng(1).standard_normal((10, 2, 2))
    linear = matrix_stresses(gradient, finite=False)
    for size in (1e-3, 1e-4):
        assert relative(matrix_stresses(size * gradient) / size, linear) < 10 * size


def test_slope_by_the_angle():
    gradient = 0.2 * np.random.default_rng(1).standard_normal((50, 2, 2))
    angle, step = np.full(50, 0.7), 1e-6
    ahead, behind = (fibre_stress(gradient, angle + sign * step)[0] for sign in (1, -1))
    assert relative((ahead - behind) / (2 * step), fibre_stress(gradient, angle)[1]) < 1e-6


def test_at_rest_it_is_linear_and_slack():
    made = body(families=1)
    nothing = np.zeros((0, *CELLS))
    bare = CellwiseBody(BOX, made.shear, made.bulk, nothing, nothing)
    small = loads(size=1e-6)
    assert relative(made.solve_linearised(small), bare.solve(small)) < 1e-5
    assert relative(made.solve_linearised(7 * small), 7 * made.solve_linearised(small)) < 1e-12


def test_the_transpose_at_rest():
    made = body()
    one, other = loads(1), loads(1, seed=7)
    np.testing.assert_allclose(
        np.sum(other * made.solve_linearised(one)), np.sum(made.solve_linearised_transposed(other) * one), rtol=1e-10
    )


def test_shortfall_is_how_far_displacements_are_off():
    made = body(families=0)
    given = loads(size=1e-4)
    found = made.solve(given)
    assert np.linalg.norm(made.equilibrium_gap(given, found)) < 1e-7 * np.linalg.norm(found)
    off = made.equilibrium_gap(given, 0.9 * found)
    assert relative(off, 0.1 * found) < 1e-2


def test_what_cannot_be_a_body_is_refused():
    nothing = np.zeros((0, *CELLS))
    with pytest.raises(ShapeError):
        CellwiseBody(BOX, uneven()[1:], uneven(), nothing, nothing)
    with pytest.raises(PhysicsError):
        CellwiseBody(BOX, -uneven(), uneven(), nothing, nothing)
    with pytest.raises(PhysicsError) as error:
        CellwiseBody(BOX, uneven(), uneven(), nothing, nothing, refine=2).equilibrium_gap(loads(), loads())
    assert error.value.got == "stride 2"
