"""Pairs that are kept out are nobody's context, and errors count what was measured."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.discovery.discover import FEWEST, predictions, split
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy

GRID = Grid.uniform(7)


def numbered(count):
    """Pairs whose loads are their own number."""
    loads = np.ones((count, *GRID.shape)) * np.arange(count)[:, None, None]
    return Pairs.from_arrays(loads, loads + 0.5, grid=GRID, noise=0.1)


@pytest.fixture(scope="module")
def kernel():
    return DenseKernel(GRID, torch.tensor(Darcy(GRID, np.full(GRID.shape, 3.0)).green()))


@pytest.mark.parametrize("count", [3, 4, 5, 9, 10, 20, 37, 100])
def test_every_pair_is_context_or_query_and_never_both(count):
    context, queries, indices = split(numbered(count))
    of_context, of_queries = (pairs.loads[:, 0, 0, 0].tolist() for pairs in (context, queries))
    assert of_queries == list(indices)
    assert sorted([*of_context, *of_queries]) == list(range(count))
    assert len(indices) == max(1, count // 5)
    assert context.noise == queries.noise == 0.1
    assert queries.responses[:, 0, 0, 0].tolist() == [number + 0.5 for number in indices]


def test_queries_are_spread_over_the_order_of_measurement():
    indices = np.array(split(numbered(40))[2])
    assert (np.diff(indices) >= 3).all()
    assert 0 < indices[0] < 8
    assert 31 < indices[-1] < 39


@pytest.mark.parametrize("count", range(1, FEWEST))
def test_few_pairs_are_all_needed(count):
    assert split(numbered(count)) is None


def test_a_true_kernel_answers_without_error_and_one_twice_as_soft_by_all(kernel):
    loads = torch.randn(4, 1, *GRID.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    queries = Pairs(GRID, loads, kernel.predict(loads))
    right, soft = predictions(kernel, queries, (0, 2, 5, 7)), predictions(kernel * 2, queries, (0, 2, 5, 7))
    assert right.indices == (0, 2, 5, 7)
    assert right.errors.shape == (4,)
    assert float(right.errors.max()) <= 1e-12
    assert soft.errors == pytest.approx(np.ones(4))
    assert right.mask.all()
    assert right.loads.shape == right.measured.shape == right.predicted.shape == (4, *GRID.shape)
    assert np.array_equal(right.loads, loads[:, 0].numpy())


def test_what_was_not_measured_counts_for_nothing(kernel):
    loads = torch.randn(2, 1, *GRID.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    responses, mask = kernel.predict(loads), torch.ones(2, 1, *GRID.shape, dtype=torch.bool)
    mask[0, 0, 2:4] = False
    spoiled = torch.where(mask, responses, torch.nan)
    found = predictions(kernel, Pairs(GRID, loads, spoiled, mask), (0, 1))
    assert float(found.errors.max()) <= 1e-12
    assert np.isfinite(found.measured).all()
    assert np.array_equal(found.mask, mask[:, 0].numpy())
    shared = replace(Pairs(GRID, loads, responses), mask=mask[0, 0])
    assert np.array_equal(predictions(kernel, shared, (0, 1)).mask, mask[[0, 0], 0].numpy())


def test_nothing_answered_where_nothing_moved_is_no_error(kernel):
    loads = torch.zeros(2, 1, *GRID.shape, dtype=torch.float64)
    loads[1] = 1
    found = predictions(kernel, Pairs(GRID, loads, kernel.predict(loads)), (0, 1))
    assert found.errors == pytest.approx(np.zeros(2), abs=1e-12)
