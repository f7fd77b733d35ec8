"""What an estimator promises: it ignores order, mixing and units of the pairs, batches and precision.

Pairs are noisy, of three systems, in one to three dimensions, with one component or two (`PLACES`). A class with
`fit(pairs, kernels)` is fitted to related systems and their true kernels first.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

from nipde.boundary import Neumann
from nipde.context.pairs import Pairs
from nipde.errors import KernelError, PairsError
from nipde.estimators.base import Estimator
from nipde.grid import Axis, Grid
from nipde.kernels.base import Kernel
from nipde.kernels.dense import DenseKernel
from nipde.testing.check import Check, expect_close, expect_equal, named
from nipde.testing.kernels import normal

#: Grid, components of response and load.
PLACES = {
    "1D": (Grid.uniform(9, dimension=1), (1, 1)),
    "2D": (Grid((Axis(5), Axis(4, 2.0, Neumann()))), (1, 1)),
    "2D, 2 components": (Grid.uniform(4), (2, 2)),
    "3D, 2 to 1": (Grid.uniform(3, dimension=3), (1, 2)),
}


def check_estimator(estimator: Any, *, places: Iterable[str] = tuple(PLACES)) -> None:
    """All of `estimator_checks`."""
    for check in estimator_checks(places=places):
        check(estimator)


def estimator_checks(*, places: Iterable[str] = tuple(PLACES)) -> list[Check]:
    """Checks to be called with an estimator of linear kernels, or with a class that has `fit(pairs, kernels)`."""
    promises = named(
        _order_and_orthogonal_mixing_change_nothing, _units_pass_through, _the_unit_of_length_changes_no_response,
        _a_batch_is_its_systems_one_by_one, _precision_follows_the_pairs, _unmeasured_nodes_are_refused_or_ignored,
    )  # fmt: skip
    every = product(places, promises)
    return [Check(f"{check.name}, {place}", partial(_at, place, check.promise)) for place, check in every]


def family(grid: Grid, components: tuple[int, int], systems: int, *, seed: int = 1, modes: int = 6) -> DenseKernel:
    """Kernels of related systems: fixed modes; amplitudes and small deviations by system."""
    rows, columns = (count * grid.size for count in components)
    left, right = normal(rows, modes, seed=7), normal(columns, modes, seed=8)
    amplitude = (0.5 * normal(systems, 1, modes, seed=seed)).exp()
    return DenseKernel(grid, (left * amplitude) @ right.mT + 0.1 * normal(systems, rows, columns, seed=seed + 100))


def measured(kernel: Kernel, *, pairs: int, noise: float = 0.0, seed: int = 2) -> Pairs:
    """Pairs of a kernel under normal loads; `noise` is a share of the responses' root mean square."""
    loads = normal(*kernel.batch, pairs, kernel.components[1], *kernel.grid.shape, seed=seed)
    responses = kernel @ loads
    error = noise * responses.square().mean().sqrt()
    return Pairs(kernel.grid, loads, responses + error * normal(*responses.shape, seed=seed + 1))


def fitted(estimator: Any, grid: Grid, components: tuple[int, int]) -> Estimator:
    """The estimator itself; a class with `fit` after it has learned from 12 related systems."""
    if not (isinstance(estimator, type) and hasattr(estimator, "fit")):
        return estimator
    kernels = family(grid, components, 12)
    return estimator.fit(measured(kernels, pairs=20), kernels)


def _at(place: str, promise: Callable[[Estimator, Pairs], None], estimator: Any) -> None:
    grid, components = PLACES[place]
    pairs = measured(family(grid, components, 3, seed=5), pairs=6, noise=0.05)
    promise(fitted(estimator, grid, components), pairs)


def _order_and_orthogonal_mixing_change_nothing(estimator: Estimator, pairs: Pairs) -> None:
    values = _values(estimator, pairs)
    expect_close(_values(estimator, pairs.take([3, 1, 5, 0, 4, 2])), values, "the kernel, reordered", within=1e-8)
    rotation = torch.linalg.qr(normal(pairs.count, pairs.count, seed=3)).Q
    expect_close(_values(estimator, pairs.mixed(rotation)), values, "the kernel, mixed", within=1e-8)


def _units_pass_through(estimator: Estimator, pairs: Pairs) -> None:
    scaled = _values(estimator, pairs.scaled(load=1000.0, response=0.001))
    expect_close(scaled * 1e6, _values(estimator, pairs), "the kernel in the first units", within=1e-6)


def _the_unit_of_length_changes_no_response(estimator: Estimator, pairs: Pairs) -> None:
    # An estimator that forgets the weights of the integral is off by a factor of ten or more.
    axes = (replace(axis, length=10 * axis.length) for axis in pairs.grid.axes)
    try:
        kernel = _kernel(estimator, Pairs(Grid(tuple(axes)), pairs.loads, pairs.responses))
    except KernelError:
        return  # fitted on one grid, it refuses another
    expect_close(kernel @ pairs.loads, _kernel(estimator, pairs) @ pairs.loads, "responses", within=1e-6)


def _a_batch_is_its_systems_one_by_one(estimator: Estimator, pairs: Pairs) -> None:
    kernel = _kernel(estimator, pairs)
    expect_equal((kernel.batch, kernel.components), ((3,), pairs.components), "batch and components")
    for place in range(3):
        alone = _values(estimator, Pairs(pairs.grid, pairs.loads[place], pairs.responses[place]))
        expect_close(alone, kernel.dense()[place], f"the kernel of system {place} alone", within=1e-10)
    nested = _values(estimator, Pairs(pairs.grid, pairs.loads[None], pairs.responses[None]))
    expect_close(nested, kernel.dense()[None], "the kernels under two batch axes", within=1e-10)


def _precision_follows_the_pairs(estimator: Estimator, pairs: Pairs) -> None:
    single = _values(estimator, pairs.to(dtype=torch.float32))
    expect_equal(single.dtype, torch.float32, "values in")
    expect_close(single.double(), _values(estimator, pairs), "the kernel of float32 pairs", within=1e-3)


def _unmeasured_nodes_are_refused_or_ignored(estimator: Estimator, pairs: Pairs) -> None:
    mask = normal(*pairs.responses.shape, seed=6) > -0.7
    other = torch.where(mask, pairs.responses, 1e3)
    try:
        kernels = [_values(estimator, Pairs(pairs.grid, pairs.loads, one, mask)) for one in (pairs.responses, other)]
    except PairsError:
        return
    expect_close(kernels[1], kernels[0], "the kernel, other values at unmeasured nodes", within=1e-9)


def _kernel(estimator: Estimator, pairs: Pairs) -> Kernel:
    kernel: object = estimator(pairs)
    if not isinstance(kernel, Kernel):
        raise AssertionError(f"expected a Kernel, got {type(kernel).__name__}")
    return kernel


def _values(estimator: Estimator, pairs: Pairs) -> Tensor:
    return _kernel(estimator, pairs).dense().detach()
