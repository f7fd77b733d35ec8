"""Empirical Bayes against Gaussian conditioning written out; its use of noise, symmetry and Dirichlet nodes."""

import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.data.darcy import DarcyRecipe
from nipde.errors import KernelError
from nipde.estimators.regression.empirical_bayes import EmpiricalBayes, Observation, Remainder, most_likely_noise
from nipde.estimators.regression.ridge import MinimumNorm
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy

TINY = Grid.uniform(5, dimension=1)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def family(*, grid=TINY, systems=9, components=(1, 1), seed=0, symmetric=False):
    rows, columns = (count * grid.size for count in components)
    left, right = normal(rows, 4, seed=1), normal(columns, 4, seed=1 if symmetric else 2)
    other = 0.2 * normal(systems, rows, columns, seed=seed + 1)
    other = (other + other.mT) / 2 if symmetric else other
    return DenseKernel(grid, (left * (0.5 * normal(systems, 1, 4, seed=seed)).exp()) @ right.mT + other)


def answered(kernel, *, pairs, noise=None, seed=3):
    loads = normal(*kernel.batch, pairs, kernel.components[1], *kernel.grid.shape, seed=seed)
    return Pairs(kernel.grid, loads, kernel @ loads, noise=noise)


def fitted(kernels, **choices):
    return EmpiricalBayes.fit(answered(kernels, pairs=12), kernels, **choices)


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("components", [(1, 1), (1, 2)])
@pytest.mark.parametrize("count", [0, 3, None])
def test_the_estimate_is_gaussian_conditioning_written_out(noise, components, count):
    prior = fitted(family(components=components), components=count)
    new = DenseKernel(TINY, family(components=components, systems=1, seed=20).values[0])
    pairs = answered(new, pairs=3, noise=noise)

    scaling = Scaling.of(pairs)
    unit = scaling.normalised(pairs)
    weights = torch.tensor(TINY.weights).repeat(components[1])
    loads, responses = unit.loads.flatten(1) * weights, unit.responses.flatten(1)
    modes, remainder = prior.remainder.row_modes, prior.remainder
    patterns = (modes @ prior.components).flatten(1)
    row_covariance = (modes * remainder.row_variances) @ modes.mT
    covariance = patterns.mT @ patterns + torch.kron(row_covariance, remainder.columns)  # of vec K, row after row
    seen = torch.kron(torch.eye(len(modes), dtype=loads.dtype), loads)  # vec K -> all responses, row after row
    data = responses.mT.flatten() - seen @ prior.mean.flatten()
    variance = seen @ covariance @ seen.mT + float(unit.noise) ** 2 * torch.eye(len(seen), dtype=loads.dtype)
    expected = prior.mean.flatten() + covariance @ seen.mT @ torch.linalg.solve(variance, data)

    found = prior(pairs).dense() / scaling.kernel
    assert not prior.reciprocal
    assert relative(found.flatten(), expected) < 1e-8


@pytest.mark.parametrize("symmetric", [False, True], ids=["any kernel", "reciprocal"])
@pytest.mark.parametrize("grid", [TINY, Grid.uniform((4, 3)), Grid.uniform(3, dimension=3)], ids=str)
def test_without_noise_the_context_is_reproduced(grid, symmetric):
    prior = fitted(family(grid=grid, symmetric=symmetric))
    pairs = answered(family(grid=grid, systems=3, seed=20, symmetric=symmetric), pairs=4, noise=0.0)
    kernel = prior(pairs)
    assert prior.reciprocal == symmetric
    assert relative(kernel @ pairs.loads, pairs.responses) < 1e-8
    if symmetric:
        assert relative(kernel.dense().mT, kernel.dense()) < 1e-12


def test_the_reciprocal_remainder_is_the_most_likely_symmetric_one():
    """Among symmetric E with E F = the residual, the smallest in the metric of Σ: least squares written out."""
    prior = fitted(family(symmetric=True, systems=12), components=2)
    truth = DenseKernel(TINY, family(symmetric=True, systems=1, seed=20).values[0])
    pairs = answered(truth, pairs=2, noise=0.0)
    one_sided = EmpiricalBayes(TINY, prior.mean, prior.components, prior.remainder, reciprocal=False)
    found, start = prior(pairs).dense(), one_sided(pairs).dense()

    loads = (pairs.loads.flatten(1) * torch.tensor(TINY.weights)).mT
    sigma = prior.remainder.columns
    spread = sigma @ loads
    left = spread @ torch.linalg.solve(loads.mT @ spread, spread.mT)  # Σ minus the part no load has seen
    root = torch.linalg.cholesky(sigma)
    # start = prior + R Z Fᵀ Σ, so that start - prior = (start - prior) Π with Π = F (FᵀΣF)⁻¹ FᵀΣ
    project = torch.linalg.solve(sigma, left)
    base = found - _symmetric_part(found, start, project)
    rows, columns = torch.triu_indices(5, 5)
    basis = torch.zeros(len(rows), 5, 5, dtype=torch.float64)
    basis[torch.arange(len(rows)), rows, columns] = 1
    basis[torch.arange(len(rows)), columns, rows] = 1
    inverse = torch.linalg.inv(root)
    metric = (inverse @ basis @ inverse.mT).flatten(1).mT
    constraint = (basis @ loads).flatten(1).mT
    target = (truth.dense() @ loads - base @ loads).flatten()
    null = torch.linalg.svd(constraint).Vh[int(torch.linalg.matrix_rank(constraint)) :].mT
    some = torch.linalg.pinv(constraint) @ target
    amounts = some - null @ torch.linalg.pinv(metric @ null) @ (metric @ some)
    expected = base + torch.tensordot(amounts, basis, dims=1)
    assert relative(found, expected) < 1e-7


def _symmetric_part(found, start, project):
    """E of K = prior + E: solved from start = prior + T, T = T Π and found = prior + T + Tᵀ - ΠᵀTΠ."""
    size = len(found)
    difference = (found - start).flatten()  # Tᵀ - ΠᵀTΠ, linear in T = T Π
    basis = torch.eye(size * size, dtype=found.dtype).unflatten(1, (size, size)) @ project
    images = (basis.mT - project.mT @ ((basis + basis.mT) / 2) @ project).flatten(1).mT
    amounts = torch.linalg.lstsq(images, difference[:, None], driver="gelsd").solution[:, 0]
    tilted = torch.tensordot(amounts, basis, dims=1)
    return tilted + tilted.mT - project.mT @ ((tilted + tilted.mT) / 2) @ project


def test_surprise_is_the_density_of_the_data():
    seen = Observation(normal(4, 3, seed=1), normal(2, 4, 3, seed=2), normal(4, 3, seed=3).square())

    def plain(noise):
        patterns = seen.patterns.flatten(1)
        covariance = patterns.mT @ patterns + torch.diag(seen.remainder.flatten() + noise**2)
        law = torch.distributions.MultivariateNormal(torch.zeros(12, dtype=torch.float64), covariance)
        return -2 * float(law.log_prob(seen.residuals.flatten()))

    gaps = [seen.surprise(noise) - plain(noise) for noise in (0.01, 0.1, 1.0, 3.0)]
    assert max(gaps) - min(gaps) < 1e-10


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_the_noise_is_found_from_the_pairs(noise):
    modes, pairs = 300, 4
    remainder = torch.linspace(1e-4, 1, pairs, dtype=torch.float64) * normal(modes, 1, seed=1).exp() ** 4 * 1e-3
    patterns = normal(5, modes, pairs, seed=2)
    clean = torch.tensordot(normal(5, seed=3), patterns, dims=1) + remainder.sqrt() * normal(modes, pairs, seed=4)
    found = most_likely_noise(Observation(clean + noise * normal(modes, pairs, seed=5), patterns, remainder))
    assert found == pytest.approx(noise, rel=0.1)
    assert most_likely_noise(Observation(clean, patterns, remainder)) < 1e-3


def test_what_is_left_out_of_the_components_is_measured_on_other_kernels():
    """With all components, a kernel is its own projection: only kernels left out tell what the components miss."""
    deviations = normal(10, 6, 6, seed=1)
    deviations = deviations - deviations.mean(0)
    gram = deviations.flatten(1) @ deviations.flatten(1).mT
    found = Remainder.of(deviations, gram, count=9)
    expected = torch.zeros(6, 6, dtype=torch.float64)
    for fold in range(5):
        out = torch.arange(10) % 5 == fold
        others = deviations[~out].flatten(1)
        basis = torch.linalg.svd(others - others.mean(0), full_matrices=False).Vh[:7]
        left = deviations[out].flatten(1) - others.mean(0)
        left = (left - left @ basis.mT @ basis).unflatten(1, (6, 6))
        expected += torch.einsum("sxy,sxz->yz", left, left) / 60
    assert relative(found.columns, expected) < 1e-8
    assert float(found.row_variances.mean()) == pytest.approx(1)


def darcy(seeds):
    recipe = DarcyRecipe(nodes=9, pairs=30, precision="float64")
    systems = [recipe.build(seed) for seed in seeds]
    kernels = [Darcy(recipe.grid, system.hidden[0]).green() for system in systems]
    fields = [torch.tensor([getattr(system, name) for system in systems]) for name in ("loads", "responses")]
    return Pairs(recipe.grid, *fields), DenseKernel(recipe.grid, torch.tensor(kernels))


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
def test_darcy_flow_is_learned_and_dirichlet_nodes_stay_zero():
    training, kernels = darcy(range(60))
    pairs, truth = darcy(range(100, 110))
    prior = EmpiricalBayes.fit(training, kernels)
    assert prior.reciprocal
    assert prior.remainder.row_modes.shape == (81, 49)
    queries, answers = pairs.take(slice(15, 30)), pairs.take(slice(0, 15))
    error = 0.01 * answers.responses.square().mean().sqrt() * normal(*answers.responses.shape, seed=5)
    noisy = Pairs(pairs.grid, answers.loads, answers.responses + error)

    def held_out(estimator, context):
        return relative(estimator(context) @ queries.loads, queries.responses)

    assert held_out(prior, answers) < 0.1 * held_out(MinimumNorm(), answers)
    assert held_out(prior, answers) < 0.5 * held_out(EmpiricalBayes.fit(training, kernels, components=0), answers)
    assert held_out(prior, noisy) < 1.5 * held_out(prior, answers)
    found = prior(answers).dense()
    assert relative(found, truth.values) < 0.1
    fixed = torch.tensor(~pairs.grid.unknown).flatten()
    assert float(found[:, fixed].abs().max()) == 0
    assert float(found[:, :, fixed].abs().max()) == 0


@pytest.mark.parametrize("noise", [0.0, None])
def test_a_family_that_its_components_span_leaves_no_remainder_and_still_works(noise):
    left, right = normal(5, 3, seed=1), normal(5, 3, seed=2)

    def systems(count, seed):
        return DenseKernel(TINY, (left * normal(count, 1, 3, seed=seed).exp()) @ right.mT)

    truth = systems(4, 30)
    pairs = answered(truth, pairs=4, noise=noise)
    kernel = fitted(systems(20, 0))(pairs)
    assert relative(kernel.dense(), truth.values) < 1e-3
    assert relative(kernel @ pairs.loads, pairs.responses) < (1e-4 if noise is None else 1e-8)


def test_equal_training_kernels_teach_nothing():
    kernels = DenseKernel(TINY, family(systems=1).values.expand(3, -1, -1))
    loads = normal(1, 4, 1, 5).expand(3, -1, -1, -1)
    with pytest.raises(KernelError) as error:
        EmpiricalBayes.fit(Pairs(TINY, loads, kernels @ loads), kernels)
    assert error.value.got == "equal ones"
