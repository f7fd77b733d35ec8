"""Neo-Hookean bodies: patch test, consistency, objectivity, convergence, and two codes that are not ours."""

import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from trial_fields import body_loads, relative, shaken

from benchmarks.mechanics_published import DISTANCES, ENERGIES, bitmap
from nipde import physics
from nipde.boundary import Neumann
from nipde.errors import MissingExtraError, PhysicsError, ShapeError, SolverError
from nipde.grid import Axis, Grid
from nipde.physics import elastic
from nipde.physics.bodies import NeoHookean, modulus_of_bitmap
from nipde.physics.materials import lame_modulus
from nipde.physics.newton import Newton
from nipde.physics.supports import CONFINED_COMPRESSION, EQUIBIAXIAL_EXTENSION, SHEAR, UNIAXIAL_EXTENSION, Support
from tests.oracles.manufactured import observed_orders

TIGHT = Newton(tolerance=1e-12)
BOX = Grid((Axis(6, 1.0), Axis(5, 0.7)))
PIXELS = Grid.uniform(29, length=28.0)
every_mesh = pytest.mark.parametrize(("degree", "refine"), [(1, 1), (1, 2), (2, 1)], ids=["Q4", "Q4 fine", "Q9"])


def patchy(grid=BOX, *, seed=0, **options):
    cells = tuple(axis.intervals for axis in grid.axes)
    modulus = np.random.default_rng(seed).uniform(1, 100, cells)
    return NeoHookean(grid, modulus, **options)


def digit(number=0, **options):
    return NeoHookean(PIXELS, modulus_of_bitmap(bitmap(number)), **options)


# Energy, forces, tangent


@every_mesh
def test_forces_are_the_slope_of_the_energy_and_the_tangent_that_of_the_forces(degree, refine):
    body, step = patchy(degree=degree, refine=refine), 1e-5
    u, direction = shaken(body, size=0.01), shaken(body, seed=1, size=0.1)
    slope = (body.energy(u + step * direction) - body.energy(u - step * direction)) / (2 * step)
    assert np.sum(body.forces(u) * direction) == pytest.approx(slope, rel=1e-7)
    change = (body.forces(u + step * direction) - body.forces(u - step * direction)) / (2 * step)
    flat = np.moveaxis(direction, 0, -1).reshape(-1)
    assert relative(body.tangent(u) @ flat, np.moveaxis(change, 0, -1).reshape(-1)) < 1e-7


@every_mesh
def test_forces_have_no_difference_error_against_complex_steps(degree, refine):
    body = patchy(degree=degree, refine=refine)
    u, direction = shaken(body, size=0.02), shaken(body, seed=1, size=1.0)
    mesh, material = body.mesh, body.material
    nodes = np.moveaxis(u + 1e-30j * direction, 0, -1).reshape(-1, 2)[mesh.elements]
    F = np.eye(2) + np.einsum("elc,pla->epca", nodes, mesh.gradients)
    J = F[..., 0, 0] * F[..., 1, 1] - F[..., 0, 1] * F[..., 1, 0]
    psi = material.shear / 2 * ((F * F).sum((-1, -2)) - 2 - 2 * np.log(J))
    psi = psi + material.bulk / 2 * ((J**2 - 1) / 2 - np.log(J))
    exact = np.sum(psi * mesh.weights)
    assert body.energy(u) == pytest.approx(exact.real, rel=1e-12)
    assert np.sum(body.forces(u) * direction) == pytest.approx(exact.imag / 1e-30, rel=1e-12)
    assert body.smallest_jacobian(u) == pytest.approx(J.real.min(), rel=1e-12)


@every_mesh
def test_the_tangent_is_symmetric_and_positive_at_rest_but_for_three_rigid_motions(degree, refine):
    body = patchy(degree=degree, refine=refine)
    matrix = body.tangent(np.zeros((2, *body.mesh.shape))).toarray()
    assert np.array_equal(matrix, matrix.T)
    values = np.linalg.eigvalsh(matrix)
    assert np.all(np.abs(values[:3]) < 1e-12 * values[-1])
    assert values[3] > 1e-6 * values[-1]


@every_mesh
def test_rigid_rotation_costs_nothing_and_turns_the_forces_along(degree, refine):
    body = patchy(degree=degree, refine=refine)
    turn = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    x, stiffness = body.mesh.coordinates, np.max(body.modulus)
    rotated = np.einsum("ij,jxy->ixy", turn, x) - x + 3.0
    assert abs(body.energy(rotated)) < 1e-12 * stiffness
    assert np.max(np.abs(body.forces(rotated))) < 1e-12 * stiffness
    u = shaken(body, size=0.02)
    both = np.einsum("ij,jxy->ixy", turn, x + u) - x
    assert body.energy(both) == pytest.approx(body.energy(u), rel=1e-12)
    assert relative(body.forces(both), np.einsum("ij,jxy->ixy", turn, body.forces(u))) < 1e-12
    assert relative(body.forces(both), body.forces(u)) > 0.1


def test_tiny_strains_do_not_drown_in_rounding():
    body = patchy()
    u = shaken(body, size=1.0)
    large, small = (body.energy(size * u) / size**2 for size in (1e-5, 1e-9))
    assert small == pytest.approx(large, rel=1e-3)
    assert relative(body.forces(1e-9 * u) / 1e-9, body.forces(1e-5 * u) / 1e-5) < 1e-2


def test_a_body_turned_over_has_infinite_energy():
    body = patchy()
    u = np.zeros((2, *body.mesh.shape))
    u[0, 2, 2] = 0.5
    assert body.energy(u) == np.inf
    assert body.smallest_jacobian(u) <= 0


# Equilibrium that is known


@dataclass(frozen=True)
class Patch(Support):
    """Every side follows an affine map; the guess is wrong inside."""

    matrix: tuple[tuple[float, float], tuple[float, float]] = ((0.3, 0.2), (-0.1, -0.15))

    def fixed(self, mesh):
        return np.repeat(np.logical_or.reduce(list(mesh.sides().values()))[..., None], 2, axis=-1)

    def displacement(self, mesh):
        wrong = 0.02 * np.random.default_rng(0).standard_normal((*mesh.shape, 2))
        return self.exact(mesh) + np.where(self.fixed(mesh), 0, wrong)

    def exact(self, mesh):
        return np.einsum("ca,axy->xyc", self.matrix, mesh.coordinates)


@every_mesh
def test_patch_test(degree, refine):
    body = NeoHookean(BOX, np.full((5, 4), 10.0), degree=degree, refine=refine, newton=TIGHT)
    (found,), (record,) = body.deform(Patch(), [1.0])
    exact = np.moveaxis(Patch().exact(body.mesh), -1, 0)
    assert np.max(np.abs(found - exact)) < 1e-12
    assert record.iterations >= 3
    assert record.smallest_jacobian == pytest.approx(1.3 * 0.85 + 0.02, rel=1e-12)


@every_mesh
@pytest.mark.parametrize("distance", [0.05, 0.25])
def test_uniform_bodies_in_sliding_supports_deform_affinely(distance, degree, refine):
    body = NeoHookean(BOX, np.full((5, 4), 10.0), degree=degree, refine=refine, newton=TIGHT)
    mu, lame = 10 / 2.6, 10 * 0.3 / (1.3 * 0.4)

    def density(a, b):
        J = a * b
        return mu / 2 * (a**2 + b**2 - 2 - 2 * np.log(J)) + lame / 2 * ((J**2 - 1) / 2 - np.log(J))

    for support, stretches in (
        (EQUIBIAXIAL_EXTENSION, (1 + distance, 1 + distance / 0.7)),
        (CONFINED_COMPRESSION, (1, 1 - distance / 0.7)),
    ):
        (found,), (record,) = body.deform(support, [distance])
        assert body.energy(found) == pytest.approx(0.7 * density(*stretches), rel=1e-12)
        assert record.smallest_jacobian == pytest.approx(np.prod(stretches), rel=1e-12)


@pytest.mark.parametrize("support", [UNIAXIAL_EXTENSION, SHEAR, EQUIBIAXIAL_EXTENSION, CONFINED_COMPRESSION])
def test_supports_bear_what_the_energy_asks_for(support):
    body, distance, step = patchy(newton=TIGHT), 0.1, 1e-4
    fields, _ = body.deform(support, [distance - step, distance, distance + step])
    fixed, forces = np.moveaxis(support.fixed(body.mesh), -1, 0), body.forces(fields[1])
    assert np.max(np.abs(forces[~fixed])) < 1e-11 * np.max(np.abs(forces))
    assert np.max(np.abs(forces.sum((1, 2)))) < 1e-11 * np.max(np.abs(forces))
    slope = (body.energy(fields[2]) - body.energy(fields[0])) / (2 * step)
    moved = np.moveaxis(support.displacement(body.mesh), -1, 0)
    assert np.sum(forces * moved * fixed) == pytest.approx(slope, rel=1e-6)
    assert np.array_equal(fields[1][fixed], (distance * moved)[fixed])


# Convergence


def manufactured():
    """u = (sin πx sin πy, sin 2πx sin πy)/20 on the unit square, E = 10, and its body force."""
    sympy = pytest.importorskip("sympy")
    x, y = sympy.symbols("x y")
    u = sympy.Matrix([sympy.sin(sympy.pi * x) * sympy.sin(sympy.pi * y),
                      sympy.sin(2 * sympy.pi * x) * sympy.sin(sympy.pi * y)]) / 20  # fmt: skip
    mu, lame = sympy.Rational(100, 26), sympy.Rational(300, 52)
    F = sympy.eye(2) + u.jacobian([x, y])
    J, G = F.det(), F.inv().T
    P = mu * (F - G) + lame / 2 * (J**2 - 1) * G
    force = [-sympy.diff(P[i, 0], x) - sympy.diff(P[i, 1], y) for i in range(2)]
    return sympy.lambdify((x, y), list(u)), sympy.lambdify((x, y), force, cse=True)


@pytest.mark.slow
def test_smooth_problems_converge_with_order_two():
    exact, force = manufactured()

    def error(grid, *, degree=1, wrong=1.0):
        body = NeoHookean(grid, np.full((grid.shape[0] - 1,) * 2, 10.0 * wrong), degree=degree)
        found = body.solve(np.stack(force(*grid.coordinates)))
        return float(np.sqrt(np.sum(grid.norm(found - np.stack(exact(*grid.coordinates))) ** 2)))

    grids = [Grid.uniform(count) for count in (9, 17, 33)]
    assert 1.9 < observed_orders(error, grids)[-1] < 2.2
    assert observed_orders(lambda grid: error(grid, degree=2), grids)[-1] > 1.9  # its load is bilinear
    assert observed_orders(lambda grid: error(grid, wrong=1.05), grids)[-1] < 1


@pytest.mark.parametrize(("degree", "least"), [(1, 1.9), (2, 2.4)])  # corners bound the latter
def test_refinement_converges_for_one_load(degree, least):
    grid = Grid.uniform(5)
    loads, modulus = body_loads(grid, count=1, amplitude=3.0), np.full((4, 4), 10.0)

    def solution(refine, degree):
        return NeoHookean(grid, modulus, degree=degree, refine=refine, newton=TIGHT).solve(loads)

    best = solution(12, 2)
    coarse, fine = (relative(solution(refine, degree), best) for refine in (2, 4))
    assert np.log2(coarse / fine) > least


# Other codes


@every_mesh
def test_energy_forces_and_tangent_are_scikit_fems(degree, refine):
    pytest.importorskip("skfem")
    from skfem_oracle import Oracle

    body = patchy(degree=degree, refine=refine)
    oracle = Oracle(body, young=cellwise(body), poisson=0.3, volumetric=lame_modulus)
    u = shaken(body, size=0.01)
    vector = oracle.vector(u)
    assert body.energy(u) == pytest.approx(oracle.energy(vector), rel=1e-12)
    assert relative(body.forces(u), oracle.field(oracle.forces(vector))) < 1e-12
    order = np.moveaxis(np.arange(u.size).reshape(*body.mesh.shape, 2), -1, 0).reshape(-1)[oracle.places]
    assert relative(body.tangent(u).toarray()[np.ix_(order, order)], oracle.tangent(vector).toarray()) < 1e-12


@every_mesh
def test_responses_are_scikit_fems(degree, refine):
    pytest.importorskip("skfem")
    from skfem_oracle import Oracle

    body = patchy(degree=degree, refine=refine, newton=TIGHT)
    oracle = Oracle(body, young=cellwise(body), poisson=0.3, volumetric=lame_modulus)

    def density(x, y):
        return 30 * (y - 3 * x * y), 15 + 45 * x

    found, (record,) = body.checked_solve(np.stack(density(*BOX.coordinates)))
    expected = oracle.solve(density)
    assert record.iterations >= 4
    assert np.max(np.abs(expected)) > 0.03
    assert np.max(np.abs(found - body.mesh.at_nodes(np.moveaxis(expected, 0, -1).reshape(-1, 2)))) < 1e-12


def test_small_loads_meet_linear_elasticity_in_the_first_order_of_the_load():
    pytest.importorskip("skfem")
    from skfem_oracle import Oracle

    body = patchy(newton=Newton(tolerance=1e-11))
    oracle = Oracle(body, young=cellwise(body), poisson=0.3, volumetric=lame_modulus)

    def distance(size):
        def density(x, y):
            return size * (y - 3 * x * y), size * (1 + x)

        return relative(body.solve(np.stack(density(*BOX.coordinates))), oracle.linear_solve(density))

    assert distance(1e-5) < 1e-6
    assert distance(1.0) / distance(0.1) == pytest.approx(10, rel=0.05)


def cellwise(body):
    return lambda x, y: body.modulus[np.floor(x / body.grid.spacing[0]).astype(int),
                                     np.floor(y / body.grid.spacing[1]).astype(int)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", ENERGIES)
@pytest.mark.parametrize(("degree", "tolerance"), [(1, 0.02), (2, 0.002)], ids=["Q4", "Q9"])
def test_published_energies_of_mechanical_mnist(number, degree, tolerance):
    body = digit(number, degree=degree)
    fields, records = body.deform(UNIAXIAL_EXTENSION, DISTANCES)
    assert [body.energy(field) for field in fields] == pytest.approx(ENERGIES[number], rel=tolerance)
    assert min(record.smallest_jacobian for record in records) > 0.2


def test_an_image_upside_down_has_other_energies():
    upside_down = NeoHookean(PIXELS, modulus_of_bitmap(bitmap(0))[:, ::-1])
    (field,), _ = upside_down.deform(SHEAR, [3.5])
    (other,), _ = digit().deform(SHEAR, [3.5])
    assert abs(upside_down.energy(field) / digit().energy(other) - 1) > 1e-3


# The data set's loads


def test_the_data_sets_loads_are_solved_in_four_iterations_without_cutbacks():
    body, loads = digit(), body_loads(PIXELS, count=10, amplitude=0.01)
    responses, records = body.checked_solve(loads)
    assert responses.shape == loads.shape
    assert max(record.residual for record in records) <= 1e-8
    assert max(record.iterations for record in records) <= 5
    assert sum(record.cutbacks for record in records) == 0
    assert min(record.smallest_jacobian for record in records) > 0.5
    assert 0.1 < np.max(np.abs(responses)) < 3
    assert not responses[..., ~PIXELS.unknown].any()


def test_newton_is_quadratic_near_the_solution():
    body, loads = digit(newton=TIGHT), body_loads(PIXELS, count=4, amplitude=0.03)
    for record in body.checked_solve(loads)[1]:
        near = [(old, new) for old, new in pairwise(record.history) if old < 0.1]
        assert len(near) >= 2
        assert all(new < max(10 * old**2, 1e-12) for old, new in near)


def test_responses_hold_their_loads_in_balance():
    body, loads = digit(newton=TIGHT), body_loads(PIXELS, count=1, amplitude=0.03)
    forces = body.forces(body.solve(loads)[0])
    consistent = np.moveaxis(body.mesh.nodal_forces(loads[0]).reshape(29, 29, 2), -1, 0)
    assert relative(forces[:, PIXELS.unknown], consistent[:, PIXELS.unknown]) < 1e-11
    assert np.max(np.abs(forces.sum((1, 2)))) < 1e-12  # the sides bear the rest


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_square_may_be_turned_and_mirrored(turns, mirrored):
    grid = Grid.uniform(11)
    body, (load,) = patchy(grid, newton=TIGHT), body_loads(grid, count=1, amplitude=60.0)
    turn = np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), turns)
    if mirrored:
        turn = turn @ np.diag([-1, 1])

    def moved(field):
        return np.rot90(np.flip(field, axis=-2) if mirrored else field, turns, axes=(-2, -1))

    def moved_vector(field):
        return np.einsum("ij,jxy->ixy", turn, moved(field))

    response = body.solve(load)
    other = NeoHookean(grid, moved(body.modulus), newton=TIGHT)
    assert np.max(np.abs(response)) > 0.05
    assert relative(other.solve(moved_vector(load)), moved_vector(response)) < 1e-11
    if turns or mirrored:
        assert relative(body.solve(moved_vector(load)), moved_vector(response)) > 1e-3


def test_symmetric_loads_on_symmetric_bodies_give_symmetric_responses():
    grid = Grid.uniform(9)
    modulus = np.random.default_rng(0).uniform(1, 100, (8, 8))
    body = NeoHookean(grid, modulus + modulus[::-1], newton=TIGHT)
    (load,) = body_loads(grid, count=1, amplitude=60.0)
    load = load + np.array([-1, 1])[:, None, None] * load[:, ::-1]
    response = body.solve(load)
    assert relative(response, np.array([-1, 1])[:, None, None] * response[:, ::-1]) < 1e-11


def test_units_only_scale():
    grid, large = BOX, BOX.stretched(28.0)
    load = body_loads(grid, count=1, amplitude=50.0)
    body = patchy(newton=TIGHT)
    response = body.solve(load)
    scaled = NeoHookean(large, 7 * body.modulus, newton=TIGHT).solve(load * 7 / 28)
    assert relative(scaled, 28 * response) < 1e-11


def test_free_sides_bear_nothing():
    grid = Grid((Axis(6, 1.0, Neumann()), Axis(5, 0.7)))
    body = patchy(grid, newton=TIGHT)
    load = np.zeros((2, 6, 5))
    load[1] = -20.0
    response = body.solve(load)
    forces, consistent = body.forces(response), body.mesh.nodal_forces(load).reshape(6, 5, 2)
    assert np.abs(response[:, [0, -1], 1:-1]).min() > 0
    assert relative(forces[:, :, 1:-1], np.moveaxis(consistent, -1, 0)[:, :, 1:-1]) < 1e-11


# Failing aloud, and small print


def test_loads_beyond_the_bodys_strength_are_reported_and_never_returned():
    body = patchy(newton=Newton(iterations=10, halvings=3))
    loads = body_loads(BOX, count=3, amplitude=10.0)
    loads[1] *= 1e6
    responses, records = body.attempt(loads)
    assert [record.converged for record in records] == [True, False, True]
    assert np.isnan(responses[1]).all()
    assert np.isfinite(responses[[0, 2]]).all()
    assert records[1].cutbacks >= 4
    with pytest.raises(SolverError) as error:
        body.solve(loads)
    assert error.value.message.startswith("pair 1 ")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_load_that_is_not_finite_never_leaves_as_a_solution(bad):
    loads = body_loads(BOX, count=2, amplitude=1.0)
    loads[0, 1, 2, 2] = bad
    with pytest.raises(SolverError) as error:
        patchy().checked_solve(loads)
    assert error.value.message.startswith("pair 0 ")


def test_loads_too_large_for_one_step_are_applied_in_several():
    soft = NeoHookean(BOX, np.full((5, 4), 1.0), newton=Newton(iterations=6))
    load = np.zeros((2, 6, 5))
    load[0] = 30.0
    response, (record,) = soft.checked_solve(load)
    assert record.steps > 1
    assert record.cutbacks >= 1
    patient = NeoHookean(BOX, soft.modulus, newton=Newton(iterations=100))
    assert relative(patient.solve(load), response) < 1e-6


def test_no_load_no_response():
    responses, (record,) = patchy().checked_solve(np.zeros((1, 2, 6, 5)))
    assert not responses.any()
    assert (record.iterations, record.residual, record.smallest_jacobian) == (0, 0.0, 1.0)
    assert patchy().solve(np.zeros((0, 2, 6, 5))).shape == (0, 2, 6, 5)


def test_batches_and_precision_are_carried_along():
    body, loads = patchy(), body_loads(BOX, count=6, amplitude=10.0).reshape(2, 3, 2, 6, 5)
    responses = body.solve(loads)
    assert responses.shape == loads.shape
    assert np.array_equal(body.solve(loads[1, 2]), responses[1, 2])
    single = body.solve(loads[0].astype(np.float32))
    assert single.dtype == np.float32
    assert relative(single, responses[0]) < 1e-5


def test_bodies_that_cannot_be_are_refused():
    with pytest.raises(ShapeError) as error:
        NeoHookean(BOX, np.ones((6, 5)))
    assert error.value.got == "shape (6, 5)"
    for value, poisson in ((0.0, 0.3), (np.nan, 0.3), (1.0, 0.5), (1.0, -1.0)):
        with pytest.raises(PhysicsError) as error:
            NeoHookean(BOX, np.full((5, 4), value), poisson)
        assert error.value.got == f"moduli from {value} to {value}, Poisson ratio {poisson}"
    with pytest.raises(PhysicsError) as error:
        patchy().solve(np.ones((6, 5)))
    assert error.value.got == "shape (6, 5)"
    without_supports = patchy(Grid.uniform(5, boundary=Neumann()))
    with pytest.raises(PhysicsError) as error:
        without_supports.solve(np.zeros((2, 5, 5)))
    assert error.value.expected == "a Dirichlet axis"
    with pytest.raises(PhysicsError) as error:
        patchy().energy(np.zeros((2, 5, 6)))
    assert (error.value.expected, error.value.got) == ("shape (2, 6, 5)", "shape (2, 5, 6)")


def run(program, **environment):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_without_a_folder_for_compiled_code_it_is_compiled_every_time():
    program = "from nipde.physics.assembly import add_forces; print(add_forces._cache)"
    assert "FunctionCache" in run(program).stdout
    assert "NullCache" in run(program, NUMBA_CACHE_LOCATOR_CLASSES="IPythonCacheLocator").stdout


def test_numba_is_asked_for_only_when_a_body_is_deformed(monkeypatch):
    assert run("import sys, nipde.physics.bodies; print('numba' in sys.modules)").stdout == "False\n"
    elastic.compiled_loops.cache_clear()
    monkeypatch.delitem(sys.modules, "nipde.physics.assembly", raising=False)
    monkeypatch.delattr(physics, "assembly", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError) as error:
        patchy().solve(np.zeros((2, 6, 5)))
    assert "nipde[mechanics]" in error.value.remedy


def test_images_are_read_row_by_row_from_the_top():
    image = np.zeros((2, 3), dtype=np.uint8)
    image[0, 2] = 255  # top right
    assert modulus_of_bitmap(image).tolist() == [[1, 1], [1, 1], [1, 100]]
    with pytest.raises(PhysicsError) as error:
        modulus_of_bitmap(np.full((2, 2), 256))
    assert error.value.got == "shape (2, 2), values from 256.0 to 256.0"
