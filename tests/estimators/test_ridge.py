"""Ridge: its limit, its masks against a plain loop, its choice of the penalty against a sweep."""

import numpy as np
import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.estimators.regression.cross_validation import cross_validated_penalty
from nipde.estimators.regression.ridge import MinimumNorm, Ridge
from nipde.grid import Grid

GRID = Grid.uniform(12, dimension=1)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def noisy_pairs(*, grid=GRID, batch=(4,), pairs=10, noise=0.1, components=1, seed=0):
    """Loads from a red spectrum through an integral operator, and the operator itself."""
    position = torch.linspace(0, 1, grid.size, dtype=torch.float64)
    green = torch.minimum(position[:, None], position) * (1 - torch.maximum(position[:, None], position))
    waves = torch.arange(grid.size)
    modes = torch.cos(torch.pi * waves * position[:, None]) / (1 + waves)

    def loads(count, seed):
        return (normal(*batch, count, components, grid.size, seed=seed) @ modes.mT).unflatten(-1, grid.shape)

    def respond(fields):
        weighted = fields * torch.tensor(grid.weights)
        return (weighted.flatten(-grid.dimension) @ green).unflatten(-1, grid.shape)

    context, queries = loads(pairs, seed), loads(40, seed + 1)
    clean = respond(context)
    error = noise * clean.square().mean().sqrt() * normal(*clean.shape, seed=seed + 2)
    return Pairs(grid, context, clean + error), queries, respond(queries)


def held_out(kernel, queries, truth):
    return ((kernel @ queries - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def test_the_limit_of_a_small_penalty_is_the_minimum_norm_at_first_order():
    pairs, _, _ = noisy_pairs(pairs=5)
    limit = MinimumNorm()(pairs).dense()
    errors = [float((Ridge(penalty)(pairs).dense() - limit).norm() / limit.norm()) for penalty in (1e-5, 1e-6, 1e-7)]
    assert errors[-1] < 1e-3
    assert np.log10(errors[0] / errors[1]) == pytest.approx(1, abs=0.05)
    assert np.log10(errors[1] / errors[2]) == pytest.approx(1, abs=0.05)
    assert float((Ridge(0.0)(pairs).dense() - limit).norm() / limit.norm()) < 1e-9


def test_ridge_beats_the_minimum_norm_on_noisy_data():
    pairs, queries, truth = noisy_pairs()
    assert held_out(Ridge()(pairs), queries, truth) < 0.7 * held_out(MinimumNorm()(pairs), queries, truth)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("masked", [False, True], ids=["all measured", "masked"])
def test_the_chosen_penalty_is_nearly_the_best_of_a_sweep_on_held_out_loads(noise, masked):
    """Within 10 % of the error at the best common penalty."""
    pairs, queries, truth = noisy_pairs(batch=(16,), noise=noise, pairs=8)
    if masked:
        pairs = Pairs(GRID, pairs.loads, pairs.responses, normal(*pairs.responses.shape, seed=3) > -1)
    best = min(held_out(Ridge(float(penalty))(pairs), queries, truth) for penalty in np.logspace(-10, 1, 45))
    assert held_out(Ridge()(pairs), queries, truth) < 1.1 * best


def test_cross_validation_finds_the_floor_of_its_own_score():
    eigenvalues, energies = normal(5, 8, seed=1).exp() ** 3, normal(5, 8, seed=2).square()
    dimensions = torch.randint(0, 4, (5, 8), generator=torch.Generator().manual_seed(3)).double()
    found = cross_validated_penalty(eigenvalues, energies, dimensions)
    unit = (eigenvalues * dimensions).sum(-1) / dimensions.sum(-1)
    sweep = unit[:, None] * torch.logspace(-12, 4, 4001, dtype=torch.float64)

    def score(penalty):
        share = penalty[..., None] / (eigenvalues[:, None] + penalty[..., None])
        return (energies[:, None] * share**2).sum(-1) / (dimensions[:, None] * share).sum(-1) ** 2

    assert bool((score(found[:, None])[:, 0] <= score(sweep).amin(1) * (1 + 1e-9)).all())


def test_a_single_pair_takes_the_smallest_penalty():
    pairs, _, _ = noisy_pairs(pairs=1)
    limit = MinimumNorm()(pairs).dense()
    assert float((Ridge()(pairs).dense() - limit).norm() / limit.norm()) < 1e-9


def plain_loop(pairs, penalty):
    """Node by node, with the pairs measured there."""
    grid = pairs.grid
    weights = torch.tensor(grid.weights).flatten().repeat(pairs.components[1])
    loads, responses, mask = (
        part.flatten(2).mT for part in (pairs.loads, pairs.responses, pairs.mask.expand_as(pairs.responses))
    )
    kernel = loads.new_zeros(len(loads), responses.shape[1], loads.shape[1])
    for system in range(len(loads)):
        unit = (loads[system].square() * weights[:, None]).sum() / pairs.count
        for row, seen in enumerate(mask[system]):
            some = loads[system][:, seen]
            gram = some.mT @ (weights[:, None] * some)
            inverse = torch.linalg.pinv(gram + penalty * unit * torch.eye(len(gram), dtype=gram.dtype))
            kernel[system, row] = responses[system][row, seen] @ inverse @ some.mT
    return kernel


@pytest.mark.parametrize("penalty", [1e-3, 3.0])
@pytest.mark.parametrize("grid", [GRID, Grid.uniform((4, 3))], ids=str)
def test_masked_rows_are_a_plain_loop_over_nodes(grid, penalty):
    pairs, _, _ = noisy_pairs(grid=grid, components=2)
    mask = normal(*pairs.responses.shape, seed=3) > 0
    mask[:, :, 0, ..., 1] = False  # never measured
    mask[:, :, 1, ..., 2] = True
    responses = torch.where(mask, pairs.responses, torch.nan)
    holes = Pairs(grid, pairs.loads, responses, mask)
    found, expected = Ridge(penalty)(holes).dense(), plain_loop(holes, penalty)
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-10


@pytest.mark.parametrize("estimator", [Ridge(0.05), Ridge()], ids=str)
def test_a_mask_of_whole_pairs_is_the_other_pairs_alone(estimator):
    pairs, _, _ = noisy_pairs()
    kept = [0, 2, 3, 6, 7, 9]
    mask = torch.zeros(1, pairs.count, 1, 1, dtype=torch.bool)
    mask[:, kept] = True
    found = estimator(Pairs(GRID, pairs.loads, pairs.responses, mask)).dense()
    if estimator.penalty is not None:  # it refers to all loads, measured or not
        energy = pairs.loads.square() * torch.tensor(GRID.weights)
        parts = [energy.sum((-2, -1)).mean(1), energy[:, kept].sum((-2, -1)).mean(1)]
        expected = [
            Ridge(estimator.penalty * float(whole / part))(Pairs(GRID, loads, responses)).dense()
            for whole, part, loads, responses in zip(
                *parts, pairs.loads[:, kept], pairs.responses[:, kept], strict=True
            )
        ]
        expected = torch.stack(expected)
    else:
        expected = estimator(pairs.take(kept)).dense()
    assert float((found - expected).abs().max() / expected.abs().max()) < 1e-7


@pytest.mark.parametrize("estimator", [Ridge(0.05), Ridge()], ids=str)
def test_a_mask_that_hides_nothing_changes_nothing(estimator):
    pairs, _, _ = noisy_pairs()
    mask = torch.ones_like(pairs.responses, dtype=torch.bool)
    assert torch.equal(
        estimator(Pairs(GRID, pairs.loads, pairs.responses, mask)).dense(),
        estimator(pairs).dense(),
    )
