"""Design is exact linear algebra: it agrees with kernels estimated anew, and is never a matter of order."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.discovery.candidates import at_effort, wave_loads
from nipde.discovery.design import design, empty_context, next_load, principal_loads
from nipde.errors import KernelError, PairsError, ShapeError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.spectral.transform import transform

GRID = Grid.uniform(13)


def random_loads(count, *, seed):
    law = GaussianField(1.0, waves=8, rms=1.0)
    return torch.tensor(law.sample(GRID, rng=np.random.default_rng(seed), count=count))[:, None]


@pytest.fixture(scope="module")
def law():
    return Darcy(GRID, TwoPhase()(GaussianField(4.0).sample(GRID, rng=np.random.default_rng(0), count=1)[0]))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return ConditionedNIPS(dimension=2, channels=4).double().eval().requires_grad_(False)


def pairs_of(law, loads, *, noise=0.0):
    pairs = Pairs.from_arrays(loads, law.solve(loads[:, 0].numpy())[:, None], grid=GRID, noise=0.0)
    return with_white_noise(pairs, share=noise, seed=2)


def total_variance(metric, noise, applied, queries):
    """The oracle: qᵀΣq - qᵀΣF (FᵀΣF + λ)⁻¹ FᵀΣq, summed over queries."""
    gram = covariance(metric, applied, applied) + noise * torch.eye(len(applied), dtype=torch.float64)
    between = covariance(metric, applied, queries)
    whole = covariance(metric, queries, queries).trace()
    return float(whole - (between * torch.linalg.solve(gram, between)).sum())


def covariance(metric, first, second):
    """FᵀΣG, mode by mode."""
    waves = transform(GRID)
    return torch.einsum("p...,q...,...->pq", waves.analysis(first)[:, 0], waves.analysis(second)[:, 0], metric)


@pytest.mark.parametrize("noise", [0.0, 0.05], ids=["clean", "noisy"])
def test_gains_are_those_of_conditioning_anew(law, model, noise):
    context, candidates, queries = (random_loads(count, seed=seed) for count, seed in ((6, 1), (9, 2), (7, 3)))
    kernel = model(pairs_of(law, context, noise=noise))
    metric, level = kernel.subspace.metric, kernel.subspace.noise
    before = total_variance(metric, level, context, queries)
    expected = [
        1 - total_variance(metric, level, torch.cat([context, one[None]]), queries) / before for one in candidates
    ]
    ranking = next_load(kernel, candidates, queries, effort=None)
    assert ranking.gains.numpy() == pytest.approx(expected, rel=1e-6)
    assert ranking.best == int(ranking.order[0]) == int(np.argmax(expected))
    assert bool((ranking.gains >= 0).all())
    assert bool((ranking.gains <= 1).all())


@pytest.mark.parametrize("noise", [0.0, 0.05], ids=["clean", "noisy"])
def test_a_sequence_is_the_best_next_load_again_and_again(model, noise):
    candidates, queries = random_loads(20, seed=2), random_loads(30, seed=3)
    start = empty_context(model, candidates, grid=GRID, noise=noise)
    found = design(start, candidates, queries, count=6, effort=None)
    selected = []
    for left in found.remaining:
        totals = [
            total_variance(start.subspace.metric, start.subspace.noise, candidates[[*selected, one]], queries)
            if one not in selected
            else 1e9
            for one in range(20)
        ]
        selected.append(int(np.argmin(totals)))
        assert float(left) == pytest.approx(
            min(totals) / float(start.covariance(queries, queries).trace()), rel=1e-6, abs=1e-12
        )
    assert found.indices.tolist() == selected


def test_a_sequence_goes_on_where_the_pairs_end(law, model):
    candidates, queries = random_loads(20, seed=2), random_loads(30, seed=3)
    blank = empty_context(model, candidates, grid=GRID, noise=0.0)
    whole = design(blank, candidates, queries, count=7).indices
    kernel = model(pairs_of(law, at_effort(GRID, candidates)[whole[:3]]))
    rest = design(kernel, candidates, queries, count=4).indices
    assert whole[3:].tolist() == rest.tolist()


def test_what_was_applied_is_worth_nothing_at_zero_noise(law, model):
    context, queries = random_loads(6, seed=1), random_loads(7, seed=3)
    for precision in (torch.float32, torch.float64):
        kernel = model.to(precision)(pairs_of(law, context).to(dtype=precision))
        gains = next_load(kernel, torch.cat([context, random_loads(3, seed=4)]), queries).gains
        assert float(gains[:6].max()) <= 1e-6 < 1e-3 < float(gains[6:].min())
    model.double()


def test_order_and_size_of_candidates_do_not_matter(model):
    candidates, queries = random_loads(20, seed=2), random_loads(30, seed=3)
    start = empty_context(model, candidates, grid=GRID, noise=0.01)
    first = design(start, candidates, queries, count=6)
    permuted = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    again = design(start, 3 * candidates[permuted], queries, count=6)
    assert permuted[again.indices].tolist() == first.indices.tolist()
    assert again.remaining.numpy() == pytest.approx(first.remaining.numpy(), rel=1e-8)


def test_selected_loads_leave_less_than_random_ones_and_principal_loads_least(model):
    queries, pool = random_loads(200, seed=3), random_loads(50, seed=6)
    candidates = torch.cat([wave_loads(GRID, 50), pool])
    start = empty_context(model, candidates, grid=GRID, noise=0.0)

    def left(applied):
        return total_variance(start.subspace.metric, start.subspace.noise, at_effort(GRID, applied), queries)

    selected = left(candidates[design(start, candidates, queries, count=8).indices])
    drawn = [left(pool[first : first + 8]) for first in range(0, 40, 8)]
    best = left(principal_loads(start, queries, count=8))
    assert best < selected < 0.7 * min(drawn)


def test_principal_loads_after_some_pairs_see_what_these_did_not(law, model):
    context, queries = random_loads(5, seed=1), random_loads(60, seed=3)
    kernel = model(pairs_of(law, context))
    more = principal_loads(kernel, queries, count=3)
    metric, level = kernel.subspace.metric, kernel.subspace.noise
    after = [
        total_variance(metric, level, torch.cat([context, loads]), queries)
        for loads in (
            more,
            principal_loads(empty_context(model, context, grid=GRID, noise=0.0), queries, count=3),
            random_loads(3, seed=9),
        )
    ]
    assert after[0] == min(after)


def test_noise_known_beforehand_is_noise_found_later(law, model):
    loads = random_loads(12, seed=2)
    kernel = model(pairs_of(law, loads, noise=0.02))
    planned = empty_context(model, loads, grid=GRID, noise=0.02)
    assert torch.equal(planned.subspace.metric, kernel.subspace.metric)
    assert float(planned.subspace.noise) == pytest.approx(float(kernel.subspace.noise), rel=0.3)


def test_noise_makes_repetition_worth_something(model):
    candidates = random_loads(1, seed=2).repeat(2, 1, 1, 1)
    clean, noisy = (
        design(empty_context(model, candidates, grid=GRID, noise=noise), candidates, candidates[:1], count=2).remaining
        for noise in (0.0, 0.03)
    )
    assert float(clean.abs().max()) <= 1e-6
    assert 0.5 < float(noisy[1] / noisy[0]) < 0.6  # half the noise


def test_what_does_not_fit_is_refused(law, model):
    loads = random_loads(4, seed=1)
    pairs = pairs_of(law, loads)
    kernel = model(pairs)
    batch = model(replace(pairs, loads=loads[None], responses=pairs.responses[None]))
    refused = [
        (PairsError, lambda: design(kernel, loads, loads, count=5), 5),
        (PairsError, lambda: principal_loads(kernel, loads, count=5), 5),
        (KernelError, lambda: next_load(batch, loads, loads), "a batch (1,)"),
        (KernelError, lambda: next_load(kernel.T, loads, loads), "ConditionedKernel"),
        (ShapeError, lambda: next_load(kernel, loads[None], loads), "shape (1, 4, 1, 13, 13)"),
        (PairsError, lambda: next_load(kernel, 0 * loads, loads), "a zero load"),
    ]
    for kind, call, got in refused:
        with pytest.raises(kind) as error:
            call()
        assert error.value.got == got


def test_scalar_loads_come_as_plain_arrays(model):
    candidates, queries = random_loads(5, seed=2), random_loads(6, seed=3)
    start = empty_context(model, candidates, grid=GRID, noise=0.0)
    plain = next_load(start, candidates[:, 0].numpy(), queries[:, 0].numpy()).gains
    assert torch.equal(plain, next_load(start, candidates, queries).gains)
