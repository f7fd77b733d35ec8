"""Rows over real processes: every answer and every gradient is that of one process."""

import numpy as np
import pytest
import torch
from torch import distributed

from benchmarks.ranks import in_ranks
from nipde.boundary import Neumann, Periodic
from nipde.context.pairs import Pairs
from nipde.errors import GridError, PairsError
from nipde.estimators.paper import spread as spreading
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.estimators.paper.spread import spread
from nipde.evaluation.metrics import relative_errors as whole_errors
from nipde.grid import Axis, Grid
from nipde.spectral.partition import Partition

GRIDS = {
    "8": Grid((Axis(8, 0.7, Periodic()),)),
    "11x6": Grid((Axis(11, 1.3), Axis(6, 2.5, Neumann()))),
    "7x5x3": Grid((Axis(7, 1.3), Axis(5, 0.8, Periodic()), Axis(3, 1.1, Neumann()))),
}
PLANE = GRIDS["11x6"]
#: Model, its options, rows per tile.
CASES = [
    ("nips", "11x6", {}, None),
    ("nips", "11x6", {"modes": (3, 2), "components": 2}, None),
    ("nips", "11x6", {"gains": "pair", "modes": (3, 2)}, None),
    ("nips", "8", {}, None),
    ("nips", "7x5x3", {"gains": "pair"}, None),
    ("nips", "11x6", {"modes": (3, 2), "components": 2}, 2),
    ("nips", "11x6", {"gains": "pair"}, 3),
    ("nips-mlp", "11x6", {"components": 2}, None),
    ("nips-mlp", "7x5x3", {"gains": "pair", "modes": (2, 2, 1)}, 2),
]


def normal(*shape, seed):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def build(kind, grid, options, dtype):
    torch.manual_seed(0)
    model = (NIPSMLP if kind == "nips-mlp" else NIPS)(grid, pairs=4, channels=3, layers=3, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype)


def fields(grid, components, dtype, batch=3):
    shape = (batch, 4, components, *grid.shape)
    return [(scale * normal(*shape, seed=seed)).to(dtype) for seed, scale in ((1, 7), (2, 0.3), (3, 7), (4, 0.3))]


def in_one(case, dtype):
    kind, grid, options, _ = case
    grid, components = GRIDS[grid], options.get("components", 1)
    model = build(kind, grid, options, dtype)
    loads, responses, asked, truth = fields(grid, components, dtype)
    loads.requires_grad_()
    answer = model(Pairs(grid, loads, responses)).predict(asked)
    errors = whole_errors(grid, answer, truth)
    slopes = torch.autograd.grad(errors.mean(), [*model.parameters(), loads])
    return [value.detach() for value in (answer, errors, *slopes)]


def in_part(case, dtype, counts=None):
    """The same on this process's rows; fields are gathered at the end."""
    spreading.QUERIES = 3
    kind, grid, options, rows = case
    grid, components = GRIDS[grid], options.get("components", 1)
    partition = Partition(grid, distributed.group.WORLD if distributed.is_initialized() else None, counts)
    model = build(kind, grid, options, dtype)
    (model.nips if kind == "nips-mlp" else model).tile_rows = rows
    loads, responses, asked, truth = (partition.cut(field).clone() for field in fields(grid, components, dtype))
    loads.requires_grad_()
    kernel = spread(model, loads, responses, partition=partition)
    answer, errors = kernel.predict(asked), kernel.errors(asked, truth)
    *slopes, by_load = torch.autograd.grad(errors.mean(), [*model.parameters(), loads])
    whole = [partition.gathered(field.detach()) for field in (answer, by_load)]
    return [whole[0], errors.detach(), *slopes, whole[1]]


def all_in_part(dtype, uneven):
    found = []
    for case in CASES:
        ranks, rows = distributed.get_world_size(), GRIDS[case[1]].shape[0]
        counts = (rows - ranks + 1, *(1,) * (ranks - 1)) if uneven else None
        found.append(in_part(case, dtype, counts))
    return found


def assert_same(found, wanted, tolerance, *, answers=2, single=0.2):
    """Answers, then gradients: these beside the largest of their parameter, or a share of the largest of all."""
    assert len(found) == len(wanted)
    largest = max(float(one.abs().max()) for one in wanted[answers:])
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.shape == other.shape
        floor = largest * (1e-3 if other.dtype == torch.float64 else single) if place >= answers else 0.0
        assert float((one - other).abs().max()) <= tolerance * max(float(other.abs().max()), floor), place


def assert_ranks_are_one(ranks, dtype, tolerance, *, uneven):
    parts = in_ranks(ranks, all_in_part, dtype, uneven)
    for place, case in enumerate(CASES):
        wanted = in_one(case, dtype)
        for part in parts:
            assert_same(part[place], wanted, tolerance)
            assert all(torch.equal(one, other) for one, other in zip(part[place], parts[0][place], strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_rows_in_one_process_and_tiles_of_rows_change_nothing(case):
    assert_same(in_part(case, torch.float64), in_one(case, torch.float64), 1e-11)


def test_two_processes_are_one():
    assert_ranks_are_one(2, torch.float64, 1e-10, uneven=False)


@pytest.mark.slow
def test_two_processes_are_one_in_single_precision():
    assert_ranks_are_one(2, torch.float32, 1e-5, uneven=True)


@pytest.mark.slow
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
def test_three_processes_are_one(uneven):
    assert_ranks_are_one(3, torch.float64, 1e-10, uneven=uneven)


class Stub:
    """A place among processes that are not there."""


@pytest.mark.parametrize(("rows", "parts"), [(11, 1), (11, 3), (11, 4), (11, 11)])
def test_rows_are_shared_evenly_and_completely(rows, parts, monkeypatch):
    monkeypatch.setattr(distributed, "get_world_size", lambda group: parts)
    shares = []
    for place in range(parts):
        monkeypatch.setattr(distributed, "get_rank", lambda group, place=place: place)
        shares.append(Partition(PLANE, Stub()).rows)
    assert [row for share in shares for row in range(share.start, share.stop)] == list(range(rows))
    sizes = [share.stop - share.start for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(distributed, "get_world_size", lambda group: 12)
    with pytest.raises(GridError) as error:
        Partition(PLANE, Stub())
    assert error.value.got == 12
    with pytest.raises(GridError) as error:
        Partition(PLANE, counts=(10,))
    assert error.value.got == (10,)
    model = build("nips", PLANE, {}, torch.float64)
    with pytest.raises(PairsError) as wrong:
        spread(model, *normal(2, 3, 4, 1, 5, 6, seed=0), partition=Partition(PLANE))
    assert wrong.value.expected == "(sample, 4, 1, 11, 6)"
    assert not hasattr(NAO(PLANE, pairs=4, channels=3, layers=2), "tile_rows")
