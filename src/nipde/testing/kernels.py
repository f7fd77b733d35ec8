"""What a kernel promises: whatever its form, it acts as its values K(x, y) times the quadrature."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nipde.errors import KernelError, ShapeError
from nipde.grid import Grid
from nipde.kernels.base import Kernel
from nipde.kernels.dense import DenseKernel
from nipde.testing.check import Check, expect, expect_close, expect_equal, expect_error, named


def check_kernel(kernel: Kernel) -> None:
    """All of `kernel_checks`, for a kernel of any grid, batch and components in float64."""
    for check in kernel_checks():
        check(kernel)


def kernel_checks() -> list[Check]:
    """Checks to be called with a kernel in float64; those that do not apply to it pass."""
    return named(
        _it_acts_as_its_values_times_the_quadrature, _a_batch_comes_apart_into_its_systems,
        _the_transpose_is_the_adjoint, _diagonal_and_row_integral_are_those_of_its_values,
        _composition_is_the_product_with_the_quadrature_between, _a_factor_changes_the_unit, _gradients_are_right,
        _float32_stays_float32, _what_does_not_fit_is_refused,
    )  # fmt: skip


def slow_action(kernel: Kernel, loads: Tensor) -> Tensor:
    """Σ_j Σ_y K_ij(x, y) w(y) f_j(y), written with every axis by name."""
    (out, into), grid = kernel.components, kernel.grid
    blocks = kernel.dense().detach().unflatten(-1, (into, grid.size)).unflatten(-3, (out, grid.size)).numpy()
    flat = loads.flatten(-grid.dimension).numpy()
    responses = np.einsum("...ixjy,y,...pjy->...pix", blocks, grid.weights.reshape(-1), flat)
    return torch.tensor(responses).unflatten(-1, grid.shape)


def loads_for(kernel: Kernel, *, pairs: int = 4, batch: tuple[int, ...] | None = None, seed: int = 1) -> Tensor:
    """Normal loads."""
    batch = kernel.batch if batch is None else batch
    return normal(*batch, pairs, kernel.components[1], *kernel.grid.shape, seed=seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent normal numbers of a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def changed(kernel: Kernel, change: Callable[[Tensor], Tensor]) -> Kernel:
    """The same kernel with every tensor changed, those of kernels inside it too."""
    parts: dict[str, Any] = {}
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, Tensor):
            parts[field.name] = change(value)
        elif isinstance(value, Kernel):
            parts[field.name] = changed(value, change)
    return replace(kernel, **parts)


def _it_acts_as_its_values_times_the_quadrature(kernel: Kernel) -> None:
    (out, into), grid = kernel.components, kernel.grid
    expect(kernel.linear, expected="linear to be True", got=kernel.linear)
    expect_equal(tuple(kernel.dense().shape), (*kernel.batch, out * grid.size, into * grid.size), "values of shape")
    for batch in ((), kernel.batch, (2, *kernel.batch)):
        loads = loads_for(kernel, batch=batch)
        expect_close(kernel @ loads, slow_action(kernel, loads), f"responses to loads {batch}", within=1e-12)
    if (out, into) == (1, 1):
        load = loads_for(kernel, pairs=1, batch=())
        response = (kernel @ load).reshape(*kernel.batch, *grid.shape)
        expect_close(kernel @ load[0, 0], response, "the response to a bare field", within=1e-13)


def _a_batch_comes_apart_into_its_systems(kernel: Kernel) -> None:
    if len(kernel.batch) == 1:
        scaled = kernel * torch.arange(1.0, kernel.batch[0] + 1, dtype=torch.float64)
        parts = [scaled.system(number) for number in (*range(kernel.batch[0] - 1), -1)]
        kinds = {(type(part), part.batch) for part in parts}
        expect_equal(kinds, {(type(kernel), ())}, "kinds and batches of the systems")
        expect_close(torch.stack([part.dense() for part in parts]), scaled.dense(), "values", within=1e-12)


def _the_transpose_is_the_adjoint(kernel: Kernel) -> None:
    expect_equal(kernel.T.batch, kernel.batch, "batch of the transpose")
    expect_equal(kernel.T.components, kernel.components[::-1], "components of the transpose")
    expect_close(kernel.T.dense(), kernel.dense().mT, "K(y, x)", within=1e-14)
    f, g, integrate = loads_for(kernel), loads_for(kernel.T, seed=2), kernel.grid.integrate
    left, right = integrate((kernel.T @ g) * f).sum(-1), integrate(g * (kernel @ f)).sum(-1)
    expect_close(left, right, "∫ Kᵀg f", within=1e-11)


def _diagonal_and_row_integral_are_those_of_its_values(kernel: Kernel) -> None:
    (out, into), space = kernel.components, kernel.grid.shape
    ones = torch.ones(*kernel.batch, 1, into, *space, dtype=torch.float64)
    integral = slow_action(kernel, ones).squeeze(-len(space) - 2)
    expect_close(kernel.row_integral(), integral, "∫ K(x, y) dy", within=1e-12)
    if out == into:
        values = kernel.dense().diagonal(dim1=-2, dim2=-1).reshape(*kernel.batch, out, *space)
        expect_close(kernel.diagonal(), values, "K(x, x)", within=1e-12)
    else:
        expect_error(KernelError, kernel.diagonal, f"a diagonal between {into} and {out} components")


def _composition_is_the_product_with_the_quadrature_between(kernel: Kernel) -> None:
    into = kernel.components[1]
    for batch in {(), kernel.batch}:
        inner = _dense(kernel.grid, batch, (into, 2))
        composed, loads = kernel @ inner, loads_for(inner)
        expect_equal((composed.batch, composed.components), (kernel.batch, (kernel.components[0], 2)), "shape")
        weights = torch.tensor(kernel.grid.weights).reshape(-1).repeat(into)
        values = (kernel.dense() * weights) @ inner.dense()
        expect_close(composed.dense(), values, "values", within=1e-12)
        expect_close(composed @ loads, kernel @ (inner @ loads), "responses", within=1e-11)


def _a_factor_changes_the_unit(kernel: Kernel) -> None:
    loads = loads_for(kernel)
    for factor in (3, -2.5, torch.tensor(0.5), 10.0 ** normal(*kernel.batch)):
        shaped = factor[..., None, None] if isinstance(factor, Tensor) and factor.ndim else factor
        expect_close((kernel * factor).dense(), kernel.dense() * shaped, f"values times {factor}", within=1e-14)
    expect_close((kernel * 3) @ loads, (kernel @ loads) * 3, "responses", within=1e-13)


def _gradients_are_right(kernel: Kernel) -> None:
    tensors = [loads_for(kernel, pairs=2)]

    def collected(value: Tensor) -> Tensor:
        tensors.append(value)
        return value

    changed(kernel, collected)
    expect(len(tensors) > 1, expected="tensors among the fields of the kernel", got="none")

    def responses(loads: Tensor, *values: Tensor) -> Tensor:
        places = iter(values)
        return changed(kernel, lambda _: next(places)) @ loads

    try:
        torch.autograd.gradcheck(responses, [one.detach().clone().requires_grad_() for one in tensors], fast_mode=True)
    except RuntimeError as error:
        raise AssertionError(f"expected the gradient of finite differences, got {error}") from error


def _float32_stays_float32(kernel: Kernel) -> None:
    single, loads = changed(kernel, Tensor.float), loads_for(kernel)
    units = torch.full(kernel.batch, 2.0, dtype=torch.float64)
    results = {
        "responses": (single @ loads.float(), kernel @ loads),
        "row integral": (single.row_integral(), kernel.row_integral()),
        "values": (single.dense(), kernel.dense()),
        "values in another unit": ((single * units).dense(), (kernel * units).dense()),
        "values of the transpose": (single.T.dense(), kernel.T.dense()),
    }
    for what, (got, expected) in results.items():
        expect_equal(got.dtype, torch.float32, f"{what} in")
        expect_close(got.double(), expected, what, within=1e-5)


def _what_does_not_fit_is_refused(kernel: Kernel) -> None:
    grid, batch, space, into = kernel.grid, kernel.batch, kernel.grid.shape, kernel.components[1]
    loads = {
        "another number of nodes": (ShapeError, (4, into, *space[:-1], space[-1] + 1)),
        "space before the pairs": (ShapeError, (*space, space[0] + 1, into)),
        "more components": (KernelError, (4, into + 1, *space)),
        "no axis of pairs": (KernelError, (into, *space)),
    }
    for what, (kind, shape) in loads.items():
        expect_error(kind, partial(kernel.__matmul__, torch.zeros(shape, dtype=torch.float64)), what)
    kernels = {"other components": (grid, batch, into + 1), "another box": (grid.stretched(2.0), batch, into)}
    if batch:
        kernels["another batch"] = (grid, (*batch[:-1], 7 + sum(batch)), into)
    for what, (box, systems, count) in kernels.items():
        expect_error(KernelError, partial(kernel.__matmul__, _dense(box, systems, (count, 1))), what)


def _dense(grid: Grid, batch: tuple[int, ...], components: tuple[int, int]) -> DenseKernel:
    return DenseKernel(grid, normal(*batch, *(count * grid.size for count in components), seed=3))
