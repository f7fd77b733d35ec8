"""Tuned loads serve an estimator better than those they started from, at the same effort."""

import numpy as np
import pytest
import torch

from benchmarks.tuned_loads import tuned_loads
from nipde.context.pairs import Pairs
from nipde.discovery.a_optimal_design import Sensor
from nipde.discovery.candidates import wave_loads
from nipde.errors import KernelError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

GRID = Grid.uniform(11)


def kernels(count, *, seed):
    fields = GaussianField(4.0).sample(GRID, rng=np.random.default_rng(seed), count=count)
    return DenseKernel(GRID, torch.tensor(np.stack([Darcy(GRID, TwoPhase()(one)).green() for one in fields])))


def random_loads(count, *, seed):
    return torch.tensor(GaussianField(1.0, waves=8, rms=1.0).sample(GRID, rng=np.random.default_rng(seed), count=count))


def test_systems_that_were_not_examples_are_answered_better():
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=2, prior="gated", channels=4, terms=2).eval().requires_grad_(False)
    before = 2 * random_loads(5, seed=5)[:, None]
    queries = random_loads(60, seed=1)[:, None]
    after = tuned_loads(model, before, examples=kernels(20, seed=2), queries=queries, sensors=[Sensor(0.0)], steps=60)
    assert GRID.norm(after).numpy() == pytest.approx(GRID.norm(before).numpy(), rel=1e-5)
    fresh, asked = kernels(10, seed=3), random_loads(20, seed=4)[:, None]
    errors = []
    for loads in (before, after):
        pairs = Pairs(GRID, loads.expand(10, *loads.shape), fresh @ loads, noise=0.0).to(dtype=torch.float32)
        error = GRID.norm((model(pairs) @ asked.float()).double() - fresh @ asked) / GRID.norm(fresh @ asked)
        errors.append(float(error.mean()))
    assert errors[1] <= 0.9 * errors[0]


def test_the_same_seed_is_the_same_loads():
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=2, channels=4)
    given = {"examples": kernels(3, seed=2), "queries": random_loads(5, seed=1), "steps": 2}
    first, again = (tuned_loads(model, wave_loads(GRID, 3), **given) for _ in range(2))
    assert torch.equal(first, again)
    assert all(weight.grad is None for weight in model.parameters())


def test_one_kernel_is_not_a_batch_of_examples():
    one = DenseKernel(GRID, kernels(1, seed=2).values[0])
    with pytest.raises(KernelError, match="along one batch axis"):
        tuned_loads(torch.nn.Linear(1, 1), wave_loads(GRID, 3), examples=one, queries=random_loads(5, seed=1))


def test_a_descent_that_leads_astray_changes_nothing():
    class Backwards(torch.nn.Module):
        """The right answers, and gradients that point the wrong way."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.model = ConditionedNIPS(dimension=2, prior="gated", channels=4, terms=2).requires_grad_(False)

        def forward(self, pairs):
            turned = [2 * field.detach() - field for field in (pairs.loads, pairs.responses)]
            return self.model(Pairs(GRID, *turned, noise=pairs.noise))

    before = wave_loads(GRID, 3)
    given = {"examples": kernels(6, seed=2), "queries": random_loads(30, seed=1), "steps": 20}
    after = tuned_loads(Backwards(), before, **given)
    assert float((after - before).abs().max()) <= 1e-6
