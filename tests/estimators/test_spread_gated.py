"""Rows of gated Conditioned NIPS over real processes: every answer and every gradient is that of one process."""

import numpy as np
import pytest
import torch
from torch import distributed

from benchmarks.ranks import in_ranks
from nipde.boundary import Neumann, Periodic
from nipde.context.pairs import Pairs
from nipde.errors import GridError, PairsError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.conditioned.spread import spread_gated
from nipde.evaluation.metrics import relative_errors
from nipde.grid import Axis, Grid
from nipde.spectral.partition import Partition
from nipde.spectral.slab_transform import SlabTransform
from nipde.spectral.transform import transform
from tests.estimators.test_spread import assert_same

GRIDS = {
    "13x9": Grid((Axis(13, 1.3), Axis(9, 2.5, Neumann()))),
    "12x8": Grid((Axis(12, 1.3, Periodic()), Axis(8, 0.9))),
    "45x8": Grid((Axis(45, 2.0), Axis(8, 0.9))),
    "9x6x7": Grid((Axis(9, 1.3), Axis(6, 0.8, Periodic()), Axis(7, 1.1))),
}
#: Grid, options of the model, noise.
CASES = [
    ("13x9", {}, 0.0),
    ("13x9", {"drift": True, "modes": (4, 6)}, 0.02),
    ("12x8", {"components": (2, 2)}, 0.0),
    ("45x8", {"components": (2, 1)}, 0.01),
    ("9x6x7", {"drift": True}, 0.0),
]


def build(grid, options, dtype):
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=grid.dimension, prior="gated", channels=4, terms=3, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.to(dtype).train()


def fields(grid, components, dtype):
    """Loads, smooth responses, and others of both."""
    rng, waves = np.random.default_rng(1), transform(grid)
    found = []
    for _ in range(2):
        out, into = components
        loads = torch.tensor(rng.standard_normal((2, 5, into, *grid.shape)))
        smooth = waves.synthesis(waves.analysis(loads) * waves.inverse_laplacian(loads)).mean(2, keepdim=True)
        found += [loads.to(dtype), (smooth * torch.tensor(rng.uniform(0.5, 1.5, (out, *grid.shape)))).to(dtype)]
    return found


def in_one(case, dtype):
    grid, options, noise = GRIDS[case[0]], *case[1:]
    model = build(grid, options, dtype)
    loads, responses, asked, truth = fields(grid, model.components, dtype)
    answer, alone = model(Pairs(grid, loads, responses, noise=noise)).predict_with_prior(asked)
    errors = relative_errors(grid, answer, truth) + 0.2 * relative_errors(grid, alone, truth)
    slopes = torch.autograd.grad(errors.mean(), list(model.parameters()))
    return [value.detach() for value in (answer, alone, errors, *slopes)]


def in_part(case, dtype, uneven=False):
    grid, options, noise = GRIDS[case[0]], *case[1:]
    group = distributed.group.WORLD if distributed.is_initialized() else None
    ranks = distributed.get_world_size() if distributed.is_initialized() else 1
    partition = Partition(grid, group, (grid.shape[0] - ranks + 1, *(1,) * (ranks - 1)) if uneven else None)
    model = build(grid, options, dtype)
    loads, responses, asked, truth = (partition.cut(field).clone() for field in fields(grid, model.components, dtype))
    kernel = spread_gated(model, loads, responses, noise=noise, partition=partition)
    answer, alone = kernel.predict_with_prior(asked)
    errors = kernel.errors(asked, truth, prior_weight=0.2)
    slopes = torch.autograd.grad(errors.mean(), list(model.parameters()))
    whole = [partition.gathered(field.detach()) for field in (answer, alone)]
    return [*whole, errors.detach(), *slopes]


def all_in_part(dtype, uneven):
    return [in_part(case, dtype, uneven) for case in CASES]


def assert_ranks_are_one(ranks, dtype, tolerance, *, uneven):
    parts = in_ranks(ranks, all_in_part, dtype, uneven)
    for place, case in enumerate(CASES):
        wanted = in_one(case, dtype)
        for part in parts:
            assert_same(part[place], wanted, tolerance, answers=3, single=1)
            assert all(torch.equal(one, other) for one, other in zip(part[place], parts[0][place], strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_rows_in_one_process_change_nothing(case):
    assert_same(in_part(case, torch.float64), in_one(case, torch.float64), 1e-12, answers=3)


def test_two_processes_are_one():
    assert_ranks_are_one(2, torch.float64, 1e-10, uneven=False)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 4])
def test_uneven_parts_are_one(ranks):
    assert_ranks_are_one(ranks, torch.float64, 1e-10, uneven=True)


@pytest.mark.slow
def test_processes_are_one_in_single_precision():
    assert_ranks_are_one(3, torch.float32, 1e-5, uneven=True)


def test_what_does_not_fit_is_refused(monkeypatch):
    grid = GRIDS["13x9"]
    model = build(grid, {}, torch.float64)
    loads, responses, _, _ = fields(grid, (1, 1), torch.float64)
    with pytest.raises(PairsError) as error:
        spread_gated(model, loads[..., 1:, :], responses, noise=0.0, partition=Partition(grid))
    assert error.value.expected == "(system, pair, component, 13, 9)"
    with pytest.raises(PairsError, match="expected a gated prior without a head, got elliptic"):
        spread_gated(ConditionedNIPS(dimension=2), loads, responses, noise=0.0, partition=Partition(grid))
    monkeypatch.setattr(distributed, "get_world_size", lambda group: 2)
    with pytest.raises(GridError, match="at most 1 processes, one per mode of the second axis, got 2"):
        SlabTransform(Partition(Grid((Axis(8),)), object()))
