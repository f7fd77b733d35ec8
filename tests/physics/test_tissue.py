"""Tissue of two segments: consistency, objectivity, the tension switch, and scikit-fem."""

import numpy as np
import pytest
from trial_fields import body_loads, relative, shaken

from nipde.errors import PhysicsError
from nipde.grid import Axis, Grid
from nipde.physics.bodies import NeoHookean, TwoSegmentTissue
from nipde.physics.materials import Fibres, bulk_modulus, lame_modulus
from nipde.physics.newton import Newton

TIGHT = Newton(tolerance=1e-12)
BOX = Grid((Axis(6, 1.0), Axis(5, 0.7)))
SQUARE = Grid.uniform(29)
STRONG = Fibres(stiffness=0.5, exponent=1.5)
every_mesh = pytest.mark.parametrize(("degree", "refine"), [(1, 1), (1, 2), (2, 1)], ids=["Q4", "Q4 fine", "Q9"])
every_kind = pytest.mark.parametrize(
    ("both_signs", "mirrored"), [(False, False), (True, False), (False, True)], ids=["tension", "both", "mirrored"]
)


def tissue(grid=BOX, *, angles=(0.4, 2.0), line=0.7, **options):
    return TwoSegmentTissue(grid, angles, line, **options)


def stretches(body, u):
    """I₄ - 1 of every family at every Gauss point."""
    nodes = np.moveaxis(u, 0, -1).reshape(-1, 2)[body.mesh.elements]
    F = np.eye(2) + np.einsum("elc,pla->epca", nodes, body.mesh.gradients)
    return (np.einsum("epca,epfa->epfc", F, body.material.directions) ** 2).sum(-1) - 1


# Energy, forces, tangent


@every_kind
@every_mesh
def test_forces_are_the_slope_of_the_energy_and_the_tangent_that_of_the_forces(degree, refine, both_signs, mirrored):
    fibres = Fibres(stiffness=0.5, both_signs=both_signs)
    body, step = tissue(degree=degree, refine=refine, fibres=fibres, mirrored=mirrored), 1e-5
    u, direction = shaken(body), shaken(body, seed=1, size=0.1)
    # No fibre may pass from slack to taut between the two ends: the tangent jumps there.
    taut = [stretches(body, u + sign * step * direction) > 0 for sign in (-1, 1)]
    assert np.array_equal(*taut)
    assert 0.2 < taut[0].mean() < 0.8
    slope = (body.energy(u + step * direction) - body.energy(u - step * direction)) / (2 * step)
    assert np.sum(body.forces(u) * direction) == pytest.approx(slope, rel=1e-7)
    change = (body.forces(u + step * direction) - body.forces(u - step * direction)) / (2 * step)
    flat = np.moveaxis(direction, 0, -1).reshape(-1)
    assert relative(body.tangent(u) @ flat, np.moveaxis(change, 0, -1).reshape(-1)) < 1e-7


@every_kind
def test_rigid_rotation_costs_nothing_and_turns_the_forces_along(both_signs, mirrored):
    body = tissue(fibres=Fibres(stiffness=0.5, both_signs=both_signs), mirrored=mirrored)
    turn = np.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    x, u = body.mesh.coordinates, shaken(body)
    rotated = np.einsum("ij,jxy->ixy", turn, x) - x
    assert abs(body.energy(rotated)) < 1e-12
    assert np.max(np.abs(body.forces(rotated))) < 1e-12
    both = np.einsum("ij,jxy->ixy", turn, x + u) - x
    assert body.energy(both) == pytest.approx(body.energy(u), rel=1e-12)
    assert relative(body.forces(both), np.einsum("ij,jxy->ixy", turn, body.forces(u))) < 1e-12


@every_kind
@every_mesh
def test_energy_forces_and_tangent_are_scikit_fems(degree, refine, both_signs, mirrored):
    body, oracle = with_oracle(degree=degree, refine=refine, both_signs=both_signs, mirrored=mirrored)
    u = shaken(body)
    vector = oracle.vector(u)
    assert body.energy(u) == pytest.approx(oracle.energy(vector), rel=1e-12)
    assert relative(body.forces(u), oracle.field(oracle.forces(vector))) < 1e-12
    order = np.moveaxis(np.arange(u.size).reshape(*body.mesh.shape, 2), -1, 0).reshape(-1)[oracle.places]
    assert relative(body.tangent(u).toarray()[np.ix_(order, order)], oracle.tangent(vector).toarray()) < 1e-12


@every_kind
def test_responses_are_scikit_fems(both_signs, mirrored):
    body, oracle = with_oracle(both_signs=both_signs, mirrored=mirrored, newton=TIGHT)

    def density(x, y):
        return y - 3 * x * y, 0.5 + x

    found = body.solve(np.stack(density(*BOX.coordinates)))
    assert np.max(np.abs(found)) > 0.02
    assert np.max(np.abs(found - oracle.solve(density))) < 1e-12


def with_oracle(*, both_signs, mirrored, **options):
    pytest.importorskip("skfem")
    from skfem_oracle import Oracle

    body = tissue(fibres=Fibres(0.5, 1.5, both_signs), mirrored=mirrored, **options)
    angles = [body.angle_at, lambda x, y: -body.angle_at(x, y)][: 1 + mirrored]
    law = {"k1": 0.5, "k2": 1.5, "both_signs": both_signs}
    young = lambda x, y: np.full_like(x, 0.4123)  # noqa: E731
    return body, Oracle(body, young=young, poisson=0.3, volumetric=bulk_modulus, fibres=angles, **law)


# Limits and symmetries


def test_without_fibres_it_is_a_neo_hookean_body():
    load = body_loads(BOX, count=1, amplitude=0.5)
    matrix = tissue(fibres=Fibres(stiffness=0.0), newton=TIGHT)
    # K = λ for the Poisson ratio ν' with ν'/((1 + ν')(1 - 2ν')) E' = K and the same μ.
    mu, bulk = 0.4123 / 2.6, 0.4123 / 1.2
    poisson = bulk / (2 * (bulk + mu))
    young = 2 * mu * (1 + poisson)
    assert lame_modulus(young, poisson) == pytest.approx(bulk)
    same = NeoHookean(BOX, np.full((5, 4), young), poisson, newton=TIGHT)
    assert relative(matrix.solve(load), same.solve(load)) < 1e-11


def test_fibres_have_no_sense_of_direction_and_equal_segments_no_line():
    load = body_loads(BOX, count=1, amplitude=0.3)
    response = tissue(newton=TIGHT).solve(load)
    turned = tissue(angles=(0.4 + np.pi, 2.0 - np.pi), newton=TIGHT).solve(load)
    assert relative(turned, response) < 1e-11
    swapped = tissue(angles=(2.0, 0.4), line=0.7 + np.pi, newton=TIGHT).solve(load)
    assert relative(swapped, response) < 1e-11
    one, other = (tissue(angles=(1.1, 1.1), line=line, newton=TIGHT).solve(load) for line in (0.2, 1.9))
    assert relative(one, other) < 1e-12


def test_the_square_may_be_turned_with_its_fibres():
    grid = Grid.uniform(12)
    (load,) = body_loads(grid, count=1, amplitude=0.3)
    turn = np.array([[0, -1], [1, 0]])

    def turned(field):
        return np.einsum("ij,jxy->ixy", turn, np.rot90(field, axes=(-2, -1)))

    response = tissue(grid, newton=TIGHT).solve(load)
    quarter = np.pi / 2
    other = tissue(grid, angles=(0.4 + quarter, 2.0 + quarter), line=0.7 + quarter, newton=TIGHT)
    assert relative(other.solve(turned(load)), turned(response)) < 1e-11


def test_the_line_divides_the_box_through_its_centre():
    body = tissue(SQUARE, angles=(0.1, 0.2), line=np.pi / 4)
    assert body.angle[0, -1] == 0.1  # above the diagonal
    assert body.angle[-1, 0] == 0.2
    assert body.angle_at(0.5, 0.5) == 0.1
    level = tissue(SQUARE, angles=(0.1, 0.2), line=0.0).angle
    assert np.all(level[:, 14:] == 0.1)
    assert np.all(level[:, :14] == 0.2)


# What fibres do


def pull(body, sign):
    """Displacement of the middle under a pull along x to either side of it, away from it or towards it."""
    x, _ = SQUARE.coordinates
    load = np.zeros((2, *SQUARE.shape))
    load[0] = sign * 0.01 * np.sign(x - 0.5)
    return np.max(np.abs(body.solve(load)))


def test_fibres_resist_along_themselves_and_only_in_tension():
    along, across = (tissue(SQUARE, angles=(a, a), fibres=STRONG) for a in (0.0, np.pi / 2))
    assert pull(along, 1) < 0.9 * pull(across, 1)
    both = tissue(SQUARE, angles=(0.0, 0.0), fibres=Fibres(0.5, 1.5, both_signs=True))
    assert pull(both, 1) < pull(along, 1)  # where it is pressed together it now resists as well


def even_part(body, size):
    loads = size * body_loads(SQUARE, count=2, amplitude=1.0)
    forth, back = body.solve(loads), body.solve(-loads)
    return np.linalg.norm(forth + back) / np.linalg.norm(forth - back)


def test_tension_only_is_not_linear_however_small_the_load():
    tension, both = (tissue(SQUARE, fibres=Fibres(both_signs=signs)) for signs in (False, True))
    assert even_part(tension, 1e-4) > 0.05
    assert even_part(tension, 1e-5) == pytest.approx(even_part(tension, 1e-4), rel=0.01)
    assert even_part(both, 1e-4) < 1e-3


# The data set


@pytest.mark.parametrize("amplitude", [0.1, 0.3])
def test_the_data_sets_loads_are_solved_without_cutbacks(amplitude):
    rng = np.random.default_rng(0)
    for seed in range(3):
        body = TwoSegmentTissue(SQUARE, tuple(rng.uniform(0, 2 * np.pi, 2)), rng.uniform(0, np.pi))
        loads = body_loads(SQUARE, count=5, amplitude=amplitude, seed=seed)
        responses, records = body.checked_solve(loads)
        assert max(record.residual for record in records) <= 1e-8
        assert max(record.iterations for record in records) <= 10
        assert sum(record.cutbacks for record in records) == 0
        assert min(record.smallest_jacobian for record in records) > 0.2
        assert not responses[..., ~SQUARE.unknown].any()


def test_refinement_converges():
    angles, load = (0.4, 2.0), body_loads(SQUARE, count=1, amplitude=0.1)
    plain, fine, best = (
        TwoSegmentTissue(SQUARE, angles, 0.0, degree=degree, refine=refine).solve(load)
        for degree, refine in ((1, 1), (1, 2), (2, 1))
    )
    errors = [np.linalg.norm(one - best) / np.linalg.norm(best) for one in (plain, fine)]
    assert errors[0] < 0.005
    assert errors[1] < errors[0] / 2.5


def test_tissue_that_cannot_be_is_refused():
    for wrong, got in (({"stiffness": -1.0}, (-1.0, 1.5)), ({"exponent": 0.0}, (0.1, 0.0))):
        with pytest.raises(PhysicsError) as error:
            Fibres(**wrong)
        assert error.value.got == got
    for wrong in ({"line": np.nan}, {"poisson": 0.5}):
        with pytest.raises(PhysicsError):
            tissue(**wrong)
