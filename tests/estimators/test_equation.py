"""Estimators that know Darcy's law: exact recovery, exact derivatives, invariances, and what noise does to each."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.context.pairs import Pairs
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.discretisation.links import Arithmetic, Harmonic, links_of
from nipde.discretisation.sensitivity import conductances_of
from nipde.errors import PairsError, PhysicsError
from nipde.estimators.inverse import linearisation
from nipde.estimators.inverse.adjoint import AdjointGaussNewton, OutputError, permeability_of, probing_loads
from nipde.estimators.inverse.equation_error import EquationError, EquationResidual
from nipde.estimators.inverse.gauss_newton import Search
from nipde.estimators.inverse.regularisers import Tikhonov, TotalVariation
from nipde.estimators.inverse.systems import MeasuredSystem
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel
from nipde.kernels.law import LawKernel
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

SQUARE = Grid.uniform(11)
GRIDS = [
    Grid.uniform(16, dimension=1),
    SQUARE,
    Grid((Axis(8, 1.0, Dirichlet()), Axis(7, 2.0, Neumann()))),
    Grid((Axis(9, 1.0, Dirichlet()), Axis(7, 1.0, Periodic()))),
    Grid.uniform(6, dimension=3),
]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "-".join(a.boundary.name for a in grid.axes))
both_means = pytest.mark.parametrize("mean", [Harmonic(), Arithmetic()], ids=["harmonic", "arithmetic"])

KNOWING = {
    "equation": EquationError(),
    "tikhonov": AdjointGaussNewton(),
    "variation": AdjointGaussNewton(regulariser=TotalVariation()),
}
every_estimator = pytest.mark.parametrize("name", KNOWING)


def two_phase(grid, *, seed=0):
    field = GaussianField(4.0, waves=4).sample(grid, rng=np.random.default_rng(seed), count=1)[0]
    return TwoPhase()(field)


def pairs_of(permeability, *, grid=SQUARE, mean=Harmonic(), count=20, noise=None, seed=0):
    """Pairs of one specimen; `noise` is the standard deviation over the responses' root mean square."""
    rng = np.random.default_rng(seed)
    loads = rng.standard_normal((count, *grid.shape))
    responses = Darcy(grid, permeability, mean).solve(loads)
    spread = (noise or 0.0) * np.sqrt(np.mean(responses**2))
    responses = responses + spread * rng.standard_normal(responses.shape)
    return Pairs.from_arrays(loads, responses, grid=grid, noise=None if noise is None else spread)


def told(grid):
    """Nodes whose coefficient the responses decide.

    Not the corners, which no face touches, and not Dirichlet nodes that share their free neighbour with another one: of
    their links only the sum enters, because both lead to the value 0.
    """
    links, free = links_of(grid), grid.unknown.reshape(-1)
    fixed_neighbours, neighbour = np.zeros(grid.size, int), np.full(grid.size, -1)
    for first, second in [(links.first, links.second), (links.second, links.first)]:
        wall = free[first] & ~free[second]
        np.add.at(fixed_neighbours, first[wall], 1)
        neighbour[second[wall]] = first[wall]
    shared = (neighbour >= 0) & (fixed_neighbours[neighbour] > 1)
    return (~shared & (free | (neighbour >= 0))).reshape(grid.shape)


def largest(found, truth, *, where=True):
    return np.max(np.where(where, np.abs(found / truth - 1), 0.0))


def error_of(kernel, permeability):
    grid, counted = kernel.grid, ~kernel.grid.corners
    found = kernel.laws[0].permeability
    return grid.norm(found - permeability, mask=counted) / grid.norm(permeability, mask=counted)


def kernel_error(kernel, law):
    return float(np.linalg.norm(kernel.dense().numpy() - law.green()) / np.linalg.norm(law.green()))


# Exact data


@every_grid
@both_means
@every_estimator
def test_exact_responses_give_the_exact_law(grid, mean, name):
    permeability = two_phase(grid, seed=1)
    assert len(np.unique(permeability)) == 2
    kernel = replace(KNOWING[name], face_mean=mean)(pairs_of(permeability, grid=grid, mean=mean, noise=0.0))
    assert kernel_error(kernel, Darcy(grid, permeability, mean)) < 1e-8
    assert largest(kernel.laws[0].permeability, permeability, where=told(grid)) < 1e-6


@every_estimator
def test_exact_responses_of_unknown_noise_give_the_exact_law(name):
    permeability = two_phase(SQUARE, seed=2)
    kernel = KNOWING[name](pairs_of(permeability))
    assert kernel_error(kernel, Darcy(SQUARE, permeability)) < 1e-8
    assert largest(kernel.laws[0].permeability, permeability, where=told(SQUARE)) < 1e-6


@every_estimator
def test_a_smooth_field_is_found_up_to_its_checkerboard(name):
    """What a law cannot see is guessed; the kernel does not depend on the guess."""
    permeability = np.exp(GaussianField(4.0, waves=4, rms=0.7).sample(SQUARE, rng=np.random.default_rng(3), count=1)[0])
    kernel = KNOWING[name](pairs_of(permeability, noise=0.0))
    assert kernel_error(kernel, Darcy(SQUARE, permeability)) < 1e-8
    assert largest(kernel.laws[0].permeability, permeability, where=told(SQUARE)) < 0.03


# Derivatives


def system_of(*, masked):
    rng = np.random.default_rng(5)
    conductances = conductances_of(GRIDS[2], Harmonic())
    volume = conductances.links.volume[:, None]
    rows, pairs = len(volume), 4
    weights = volume * (rng.random((rows, pairs)) < 0.6 if masked else np.ones((rows, 1)))
    fields = rng.standard_normal((2, rows, pairs))
    return MeasuredSystem(conductances, fields[0] * volume, fields[1] * (weights > 0), weights, None)


def misfits(system):
    found = {"output": OutputError(system)}
    for weak in (True, False):
        found[f"equation, weak={weak}"] = EquationResidual(system, log_constant=0.3, weak=weak)
    return found


@pytest.mark.parametrize("masked", [False, True])
def test_gradient_has_the_taylor_rate(masked):
    rng = np.random.default_rng(6)
    for misfit in misfits(system_of(masked=masked)).values():
        state, direction = rng.standard_normal((2, misfit.links.grid.size))
        here = misfit.linearise(state)
        steps = 1e-2 / 2.0 ** np.arange(4)
        left = [
            misfit.linearise(state + step * direction).mean_square / 2
            - here.mean_square / 2
            - step * here.gradient() @ direction
            for step in steps
        ]
        rates = np.log2(np.abs(left[:-1]) / np.abs(left[1:]))
        assert np.all(rates > 1.9)


@pytest.mark.parametrize("masked", [False, True])
def test_curvature_is_that_of_the_linearised_residuals(masked):
    rng = np.random.default_rng(7)
    for misfit in misfits(system_of(masked=masked)).values():
        state = rng.standard_normal(misfit.links.grid.size)
        here, step = misfit.linearise(state), 1e-6
        columns = []
        for unit in np.eye(len(state)):
            ahead, behind = (misfit.linearise(state + sign * step * unit).residual for sign in (1, -1))
            columns.append(((ahead - behind) / (2 * step) * np.sqrt(here.weights)).reshape(-1))
        expected = np.array(columns) @ np.array(columns).T
        size = np.max(np.abs(expected))
        np.testing.assert_allclose(here.curvature(), expected, atol=1e-7 * size)
        direction = rng.standard_normal(len(state))
        np.testing.assert_allclose(here.product(direction), here.curvature() @ direction, atol=1e-12 * size)


def test_pairs_measured_alike_take_the_short_way():
    here = OutputError(system_of(masked=False)).linearise(np.zeros(GRIDS[2].size))
    one_by_one = replace(here, weights=np.repeat(here.weights, here.residual.shape[1], axis=1))
    np.testing.assert_allclose(here.curvature(), one_by_one.curvature(), atol=1e-13 * here.curvature().max())


@pytest.mark.parametrize("regulariser", [Tikhonov(), TotalVariation(rounding=0.1)])
def test_regularisers_push_down_their_slope(regulariser):
    links, rng = links_of(SQUARE), np.random.default_rng(8)
    field, direction = rng.standard_normal((2, SQUARE.size))

    def value(step):
        return regulariser.value(links.difference @ (field + step * direction), links=links)

    stiffness = regulariser.stiffness(links.difference @ field, links=links)
    slope = (links.difference @ direction) @ (stiffness * (links.difference @ field))
    assert slope == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-6)


# Invariances


NOISY = pairs_of(two_phase(SQUARE, seed=4), count=12, noise=0.02)


def relative(found, expected):
    return float((found.dense() - expected.dense()).norm() / expected.dense().norm())


@every_estimator
@pytest.mark.parametrize("known", [True, False], ids=["noise known", "noise unknown"])
def test_units_pass_through(name, known):
    pairs = NOISY if known else replace(NOISY, noise=None)
    kernel, other = KNOWING[name](pairs), KNOWING[name](pairs.scaled(load=1e3, response=1e-3))
    assert relative(other * 1e6, kernel) < 1e-6
    ratio = other.laws[0].permeability / kernel.laws[0].permeability
    np.testing.assert_allclose(ratio, 1e6, rtol=1e-6)


@every_estimator
def test_order_and_mixing_of_the_pairs_do_not_matter(name):
    kernel = KNOWING[name](NOISY)
    assert relative(KNOWING[name](NOISY.take(torch.arange(NOISY.count).flip(0))), kernel) < 1e-6
    normal = torch.randn(NOISY.count, NOISY.count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert relative(KNOWING[name](NOISY.mixed(torch.linalg.qr(normal).Q)), kernel) < 1e-6


@every_estimator
def test_a_batch_is_its_systems(name):
    others = [pairs_of(two_phase(SQUARE, seed=seed), count=12, noise=0.02, seed=seed) for seed in (4, 5)]
    batch = Pairs(
        SQUARE,
        torch.stack([pairs.loads for pairs in others]).float(),
        torch.stack([pairs.responses for pairs in others]).float(),
        noise=torch.tensor([pairs.noise for pairs in others]),
    )
    kernel = KNOWING[name](batch)
    assert kernel.batch == (2,)
    assert (kernel @ batch.loads).dtype == torch.float32
    for number, pairs in enumerate(others):
        alone = KNOWING[name](pairs).laws[0].permeability
        np.testing.assert_allclose(kernel.laws[number].permeability, alone, rtol=1e-3)


# Noise, gaps, sizes


def test_noise_hurts_least_who_knows_most():
    grid = Grid.uniform(17)
    permeability = two_phase(grid, seed=6)
    pairs = pairs_of(permeability, grid=grid, count=40, noise=0.01)
    strong = EquationError(weak=False)
    errors = [error_of(estimator(pairs), permeability) for estimator in (*reversed(KNOWING.values()), strong)]
    assert errors == sorted(errors)
    assert errors[0] < 0.02


@pytest.mark.parametrize("same", [True, False], ids=["same nodes", "other nodes for every pair"])
def test_gaps_do_not_count(same):
    permeability = two_phase(SQUARE, seed=4)
    pairs = pairs_of(permeability, noise=0.0)
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(1 if same else pairs.count, 1, *SQUARE.shape, generator=generator) < 0.7
    gappy = replace(pairs, responses=torch.where(mask, pairs.responses, torch.nan), mask=mask)
    kernel = KNOWING["variation"](gappy)
    assert kernel_error(kernel, Darcy(SQUARE, permeability)) < 1e-6
    with pytest.raises(PairsError) as error:
        EquationError()(gappy)
    assert error.value.expected == "every node measured"


@every_estimator
@pytest.mark.slow
def test_large_grids_need_no_matrix(name, monkeypatch):
    by_factor = KNOWING[name](NOISY).laws[0].permeability
    monkeypatch.setattr(linearisation, "DENSE_UP_TO", 0)
    by_products = KNOWING[name](NOISY).laws[0].permeability
    assert np.sqrt(np.mean(np.log(by_products / by_factor) ** 2)) < 0.02


def test_random_signs_count_the_freedom():
    misfit = misfits(system_of(masked=False))["output"]
    state = misfit.linearise(np.zeros(misfit.links.grid.size))
    penalty = (misfit.links.difference.T @ misfit.links.difference).tocsr()
    exact, estimated = linearisation.DenseCurvature(state), linearisation.IterativeCurvature(state)
    for weight in (1e-1, 1e-4):
        penalised = penalty * weight * exact.scale
        inverse = np.linalg.inv(exact.matrix + penalised.toarray())
        assert exact.effective_dof(penalised) == pytest.approx(np.trace(inverse @ exact.matrix), rel=1e-6)
        assert estimated.effective_dof(penalised) == pytest.approx(exact.effective_dof(penalised), rel=0.3)


def test_a_given_weight_is_used():
    rough, smooth = (
        np.log(AdjointGaussNewton(regulariser=Tikhonov(weight))(NOISY).laws[0].permeability) for weight in (1e-6, 1e-1)
    )
    assert np.std(smooth) < 0.5 * np.std(rough)


def test_the_contrast_is_bounded():
    tight = AdjointGaussNewton(search=Search(contrast=1.5))
    found = tight(NOISY).laws[0].permeability
    assert found.max() / found.min() < 1.5**2 * 1.5  # the last half is for the checkerboard


def test_pairs_of_another_law_are_refused():
    fields = torch.ones(2, 2, *SQUARE.shape)
    with pytest.raises(PairsError) as error:
        AdjointGaussNewton()(Pairs(SQUARE, fields, fields))
    assert str(error.value.got) == "(2, 2)"
    ring = Grid.uniform(5, boundary=Periodic())
    with pytest.raises(PhysicsError):
        EquationError()(Pairs(ring, torch.ones(2, 1, 5, 5), torch.ones(2, 1, 5, 5)))
    with pytest.raises(PhysicsError) as error:
        Tikhonov(weight=0.0)
    assert error.value.got == 0.0
    edge = torch.zeros(1, 1, *SQUARE.shape)
    edge[..., 0, :] = 1.0
    with pytest.raises(PairsError):
        AdjointGaussNewton()(Pairs(SQUARE, edge, edge))
    nowhere = torch.zeros(SQUARE.shape, dtype=torch.bool)
    nowhere[0] = True
    with pytest.raises(PairsError):
        AdjointGaussNewton()(replace(NOISY, responses=NOISY.responses + 1, mask=nowhere))


# The nearest law of a kernel


@pytest.mark.parametrize("mean", [Harmonic(), Arithmetic()], ids=["harmonic", "arithmetic"])
def test_the_law_of_its_own_kernel_is_found(mean):
    laws = [Darcy(SQUARE, two_phase(SQUARE, seed=seed), mean) for seed in (1, 2)]
    kernel = DenseKernel(SQUARE, torch.tensor(np.stack([law.green() for law in laws])))
    found = permeability_of(kernel * 1e-3, face_mean=mean, search=Search())
    assert found.shape == (2, 1, *SQUARE.shape)
    for field, law in zip(found[:, 0].numpy(), laws, strict=True):
        assert largest(field * 1e-3, law.permeability, where=told(SQUARE)) < 1e-6


def test_the_short_search_is_close():
    law = Darcy(SQUARE, two_phase(SQUARE, seed=1))
    found = permeability_of(LawKernel.of(law))[0].numpy()
    assert largest(found, law.permeability, where=told(SQUARE)) < 1e-3


def test_kernels_that_no_law_has_made_do_no_harm():
    random = torch.randn(SQUARE.size, SQUARE.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    green = torch.tensor(Darcy(SQUARE, two_phase(SQUARE)).green())
    values = torch.stack([random, -green, green + 0.3 * green.norm() / random.norm() * random])
    found = permeability_of(DenseKernel(SQUARE, values)).numpy()
    assert np.all(np.isfinite(found))
    assert np.all(found > 0)
    assert np.all(found.max(axis=(1, 2, 3)) <= 2 * 30.0**2 * found.min(axis=(1, 2, 3)))
    nothing = DenseKernel(SQUARE, torch.stack([0 * green, torch.nan * green]))
    assert bool(torch.isnan(permeability_of(nothing)).all())


@every_grid
def test_probing_loads_are_orthonormal(grid):
    loads = probing_loads(grid, count=10)
    gram = grid.integrate(loads[:, None] * loads[None])
    np.testing.assert_allclose(gram, np.eye(10), atol=1e-12)
    assert len(probing_loads(grid, count=10**6)) <= grid.size


# Errors that are not the stated noise


def held_out(estimator, pairs, *, context, measured, noise, stated, seed):
    """Error of predictions for the pairs after `context`, of the first ones with gaps at the same nodes."""
    generator = torch.Generator().manual_seed(seed)
    size = float(pairs.responses.square().mean().sqrt())
    errors = noise * size * torch.randn(pairs.responses.shape, generator=generator, dtype=torch.float64)
    mask = torch.rand(pairs.grid.shape, generator=generator) < measured
    given = replace(pairs, responses=pairs.responses + errors, mask=mask.expand_as(errors), noise=stated * size)
    queries = pairs.take(slice(context, None))
    predicted = estimator(given.take(slice(0, context))) @ queries.loads
    return float((predicted - queries.responses).norm() / queries.responses.norm())


@pytest.mark.parametrize("name", ["tikhonov", "variation"])
@pytest.mark.parametrize(
    ("loads", "seed", "context", "measured", "bound"),
    [("wells", 0, 20, 0.6, 0.6), ("wells", 2, 5, 0.6, 0.6), ("middle", 2, 20, 0.3, 0.15)],
)
def test_errors_of_the_grid_do_not_drive_the_coefficient_to_extremes(name, loads, seed, context, measured, bound):
    # Finite elements on a finer mesh: a coefficient that follows their distance is 10⁴ times too low between sensors.
    recipe = ReferenceDarcyRecipe(nodes=13, pairs=context + 10, loads=loads, precision="float64")
    system = recipe.build(np.uint64(seed))
    pairs = Pairs.from_arrays(system.loads, system.responses, grid=system.grid)
    error = held_out(
        KNOWING[name], pairs, context=context, measured=measured, noise=0.01, stated=0.01, seed=seed
    )  # fmt: skip
    assert error < bound


@pytest.mark.parametrize("name", ["tikhonov", "variation"])
def test_noise_stated_too_low_is_noticed_and_noise_stated_right_is_used(name):
    pairs = pairs_of(two_phase(SQUARE, seed=3), count=18)
    right, low = (
        held_out(KNOWING[name], pairs, context=8, measured=0.6, noise=0.05, stated=stated, seed=1)
        for stated in (0.05, 0.0005)
    )
    assert right < 0.06
    assert low < 2 * right
