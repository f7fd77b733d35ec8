"""Kernels for several orders of the pairs, and their mean."""

import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS
from nipde.estimators.paper.order_mean import OrderMean, distance_apart, mean_of
from nipde.estimators.regression.ridge import Ridge
from nipde.grid import Axis, Grid
from nipde.kernels.low_rank import LowRankKernel

GRID = Grid((Axis(7, 1.3), Axis(6, 2.5)))


def pairs_of(*batch, count=5, components=1):
    torch.manual_seed(0)
    return Pairs(GRID, *torch.randn(2, *batch, count, components, *GRID.shape, dtype=torch.float64))


@pytest.mark.parametrize("kind", [NIPS, NAO])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("components", [1, 2])
def test_the_mean_kernel_answers_with_the_mean_of_all_orders(kind, batch, components):
    model = kind(GRID, pairs=5, layers=2, channels=3, components=components).double()
    pairs = pairs_of(*batch, components=components)
    over = OrderMean(model, orders=4)
    kernels, kernel = over.kernels(pairs), over(pairs)
    answers = torch.stack([one.predict(pairs.loads) for one in kernels])
    assert isinstance(kernel, LowRankKernel)
    assert (kernel.rank, len(kernels)) == (4 * kernels[0].rank, 4)
    torch.testing.assert_close(kernel.predict(pairs.loads), answers.mean(0))
    torch.testing.assert_close(answers[0], model(pairs).predict(pairs.loads))  # the first is as the pairs come
    assert len({float(one.detach().abs().sum()) for one in answers}) == 4
    other = [one.predict(pairs.loads) for one in over.kernels(pairs)]
    torch.testing.assert_close(torch.stack(other), answers, rtol=0, atol=0)  # of the seed alone


def test_distance_apart_is_relative_to_the_mean():
    pairs = pairs_of(2, count=1, components=2)
    left, right = torch.randn(2, 2, 1, 2, *GRID.shape, dtype=torch.float64)
    kernels = [LowRankKernel(GRID, factor * left, right) for factor in (0.9, 1.1)]
    torch.testing.assert_close(distance_apart(kernels, pairs.loads), torch.full((2, 1), 0.1, dtype=torch.float64))
    assert float(distance_apart(kernels[:1], pairs.loads).max()) == 0
    torch.testing.assert_close(mean_of(kernels).predict(pairs.loads), LowRankKernel(GRID, left, right) @ pairs.loads)


def test_other_estimators_and_no_orders_are_refused():
    model = NIPS(GRID, pairs=5, layers=1, channels=3)
    with pytest.raises(PairsError, match="1 order or more, got 0"):
        OrderMean(model, orders=0)
    with pytest.raises(PairsError, match="NIPS, NAO or AFNO, got Ridge"):
        OrderMean(Ridge())
