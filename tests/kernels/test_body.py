"""Bodies as kernels: at rest they act as their matrix of values, and small loads do not tell them from themselves."""

import numpy as np
import pytest
import torch

from nipde.errors import KernelError
from nipde.grid import Axis, Grid
from nipde.kernels.body import BodyPredictor, LinearElasticKernel
from nipde.physics.bodies import NeoHookean

GRID = Grid((Axis(5, 1.0), Axis(6, 1.3)))


def predictor(batch=()):
    rng = np.random.default_rng(0)
    bodies = [NeoHookean(GRID, rng.uniform(1, 3, (4, 5))) for _ in range(int(np.prod(batch)))]
    return BodyPredictor.of(bodies, like=torch.ones(batch, dtype=torch.float64))


def loads(*shape, size=1.0):
    generator = torch.Generator().manual_seed(1)
    return size * torch.randn(*shape, 2, *GRID.shape, generator=generator, dtype=torch.float64)


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("batch", [(), (2,)])
def test_at_rest_it_acts_as_its_values(batch):
    kernel = predictor(batch).kernel
    given = loads(*batch, 3)
    weights = torch.tensor(np.tile(GRID.weights.reshape(-1), 2))
    expected = (kernel.dense() @ (given.flatten(-3) * weights).mT).mT.reshape(given.shape)
    assert relative(kernel.predict(given), expected) < 1e-10
    assert relative(kernel.T.dense(), kernel.dense().mT) < 1e-10
    assert relative((2.5 * kernel).predict(given), 2.5 * expected) < 1e-12


def test_small_loads_are_answered_as_at_rest():
    found = predictor()
    small = loads(2, size=1e-6)
    assert not found.linear
    assert relative(found.predict(small), found.kernel.predict(small)) < 1e-4
    large = loads(2, size=0.5)
    assert relative(found.predict(large), found.kernel.predict(large)) > 1e-3


def test_bodies_that_do_not_fit_are_refused():
    bodies = predictor((2,)).bodies
    with pytest.raises(KernelError) as error:
        LinearElasticKernel(GRID, bodies, torch.ones(3))
    assert error.value.got == [GRID, GRID]


def test_systems_are_counted_from_the_end_too():
    kernel, given = predictor((3,)).kernel, loads(2)
    for number in (-3, -1, 1):
        assert kernel.system(number).body is kernel.laws[number]
        assert torch.equal(kernel.system(number).predict(given), kernel.predict(given)[number])
