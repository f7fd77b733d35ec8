"""What a kernel promises: whatever its form, it acts as its values K(x, y) times the quadrature."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import lsqr, svds
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
        _its_shape_is_stated, _it_acts_as_its_values_times_the_quadrature, _it_is_linear, _pairs_are_independent,
        _a_bare_field_is_one_scalar_load, _a_batch_comes_apart_into_its_systems, _the_transpose_is_the_adjoint,
        _the_diagonal_is_that_of_its_values, _the_row_integral_is_the_response_to_one,
        _composition_is_the_product_with_the_quadrature_between, _kernels_that_do_not_fit_are_not_composed,
        _a_factor_changes_the_unit, _gradients_are_right, _float32_stays_float32, _scipy_applies_it_and_its_transpose,
        _scipy_solves_with_it, _loads_that_do_not_fit_are_refused,
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


def tensors_of(kernel: Kernel, *, under: str = "") -> dict[str, Tensor]:
    """The tensors among a kernel's fields, by name; those of kernels inside it after a dot."""
    tensors = {}
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, Tensor):
            tensors[under + field.name] = value
        elif isinstance(value, Kernel):
            tensors |= tensors_of(value, under=f"{under}{field.name}.")
    return tensors


def with_tensors(kernel: Kernel, values: dict[str, Tensor], *, under: str = "") -> Kernel:
    """The same kernel with other tensors, by name."""
    parts: dict[str, Any] = {}
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, Kernel):
            parts[field.name] = with_tensors(value, values, under=f"{under}{field.name}.")
        elif under + field.name in values:
            parts[field.name] = values[under + field.name]
    return replace(kernel, **parts)


def changed(kernel: Kernel, change: Callable[[Tensor], Tensor]) -> Kernel:
    """The same kernel with every tensor changed."""
    return with_tensors(kernel, {name: change(value) for name, value in tensors_of(kernel).items()})


def _its_shape_is_stated(kernel: Kernel) -> None:
    (out, into), grid = kernel.components, kernel.grid
    expect(kernel.linear, expected="linear to be True", got=kernel.linear)
    expect_equal(tuple(kernel.dense().shape), (*kernel.batch, out * grid.size, into * grid.size), "values of shape")
    shape = (*kernel.batch, 4, out, *grid.shape)
    expect_equal(tuple((kernel @ loads_for(kernel)).shape), shape, "responses of shape")


def _it_acts_as_its_values_times_the_quadrature(kernel: Kernel) -> None:
    for batch in ((), kernel.batch, (2, *kernel.batch)):
        loads = loads_for(kernel, batch=batch)
        expect_close(kernel @ loads, slow_action(kernel, loads), f"responses to loads {batch}", within=1e-12)


def _it_is_linear(kernel: Kernel) -> None:
    for seed, (a, b) in enumerate([(1.0, -1.0), (1e3, 1e-3), (-7.25, 0.0)]):
        f, g = loads_for(kernel, seed=2 * seed + 1), loads_for(kernel, seed=2 * seed + 2)
        apart, together = a * (kernel @ f) + b * (kernel @ g), kernel @ (a * f + b * g)
        size = slow_action(DenseKernel(kernel.grid, kernel.dense().abs()), abs(a * f) + abs(b * g)).max()
        difference = float((together - apart).abs().max())
        expect(difference <= 1e-13 * float(size), expected=f"K(af + bg) = aKf + bKg, a={a}, b={b}", got=difference)


def _pairs_are_independent(kernel: Kernel) -> None:
    loads, place = loads_for(kernel), -kernel.grid.dimension - 2
    each = [kernel @ loads.narrow(place, pair, 1) for pair in range(loads.shape[place])]
    expect_close(kernel @ loads, torch.cat(each, place), "responses together and one by one", within=1e-13)


def _a_bare_field_is_one_scalar_load(kernel: Kernel) -> None:
    if kernel.components == (1, 1):
        load, place = loads_for(kernel, pairs=1, batch=()), -kernel.grid.dimension - 1
        response = (kernel @ load).flatten(place - 1, place).squeeze(place)
        expect_close(kernel @ load[0, 0], response, "the response", within=1e-13)


def _a_batch_comes_apart_into_its_systems(kernel: Kernel) -> None:
    if len(kernel.batch) == 1:
        scaled = kernel * torch.arange(1.0, kernel.batch[0] + 1, dtype=torch.float64)
        parts = [scaled.system(number) for number in range(kernel.batch[0])]
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


def _the_diagonal_is_that_of_its_values(kernel: Kernel) -> None:
    out, into = kernel.components
    if out != into:
        return expect_error(KernelError, kernel.diagonal, f"a diagonal between {into} and {out} components")
    values = kernel.dense().diagonal(dim1=-2, dim2=-1).reshape(*kernel.batch, out, *kernel.grid.shape)
    return expect_close(kernel.diagonal(), values, "K(x, x)", within=1e-12)


def _the_row_integral_is_the_response_to_one(kernel: Kernel) -> None:
    ones = torch.ones(*kernel.batch, 1, kernel.components[1], *kernel.grid.shape, dtype=torch.float64)
    expected = slow_action(kernel, ones).squeeze(-kernel.grid.dimension - 2)
    expect_close(kernel.row_integral(), expected, "∫ K(x, y) dy", within=1e-12)


def _composition_is_the_product_with_the_quadrature_between(kernel: Kernel) -> None:
    into = kernel.components[1]
    for batch in {(), kernel.batch}:
        inner = _dense(kernel.grid, batch, (into, 2))
        composed, loads = kernel @ inner, loads_for(inner)
        expect_equal((composed.batch, composed.components), (kernel.batch, (kernel.components[0], 2)), "shape")
        values = (kernel.dense() * _weights(kernel.grid, into)) @ inner.dense()
        expect_close(composed.dense(), values, "values", within=1e-12)
        expect_close(composed @ loads, kernel @ (inner @ loads), "responses", within=1e-11)


def _kernels_that_do_not_fit_are_not_composed(kernel: Kernel) -> None:
    grid, batch, into = kernel.grid, kernel.batch, kernel.components[1]
    wrong = {
        "other components": _dense(grid, batch, (into + 1, 1)),
        "another box": _dense(grid.stretched(2.0), batch, (into, 1)),
        "another batch": _dense(grid, (*batch[:-1], 7 + sum(batch)), (into, 1)) if batch else None,
    }
    for what, inner in wrong.items():
        if inner is not None:
            expect_error(KernelError, partial(kernel.__matmul__, inner), what)


def _a_factor_changes_the_unit(kernel: Kernel) -> None:
    loads = loads_for(kernel)
    for factor in (3, -2.5, torch.tensor(0.5), 10.0 ** normal(*kernel.batch)):
        shaped = factor[..., None, None] if isinstance(factor, Tensor) and factor.ndim else factor
        expect_close((kernel * factor).dense(), kernel.dense() * shaped, f"values times {factor}", within=1e-14)
    expect_close((kernel * 3) @ loads, (kernel @ loads) * 3, "responses", within=1e-13)


def _gradients_are_right(kernel: Kernel) -> None:
    members, loads = tensors_of(kernel), loads_for(kernel, pairs=2)
    expect(members, expected="tensors among the fields of the kernel", got="none")
    leaves = [value.detach().clone().requires_grad_() for value in (loads, *members.values())]

    def responses(values: Tensor, *tensors: Tensor) -> Tensor:
        return with_tensors(kernel, dict(zip(members, tensors, strict=True))) @ values

    try:
        torch.autograd.gradcheck(responses, leaves, fast_mode=True)
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


def _scipy_applies_it_and_its_transpose(kernel: Kernel) -> None:
    if kernel.batch:
        return expect_error(KernelError, kernel.as_linear_operator, "SciPy's operator of several systems")
    operator, matrix, rng = kernel.as_linear_operator(), _matrix(kernel), np.random.default_rng(0)
    f, g = (rng.standard_normal((count, 3)) for count in matrix.shape[::-1])
    results = {
        "A f": (operator.matvec(f[:, 0]), matrix @ f[:, 0]), "A F": (operator @ f, matrix @ f),
        "Aᵀ g": (operator.rmatvec(g[:, 0]), matrix.T @ g[:, 0]), "Aᵀ G": (operator.T @ g, matrix.T @ g),
        "A f, f complex": (operator @ (f[:, 0] + 1j * f[:, 1]), matrix @ (f[:, 0] + 1j * f[:, 1])),
    }  # fmt: skip
    for what, (got, expected) in results.items():
        expect_close(got, expected, what, within=1e-12)
    single = changed(kernel, Tensor.float).as_linear_operator()
    return expect_equal(single.matvec(f[:, 0].astype(np.float32)).dtype, np.float32, "float32 vectors in")


def _scipy_solves_with_it(kernel: Kernel) -> None:
    if kernel.batch:
        return
    learnt = changed(kernel, lambda value: value.detach().clone().requires_grad_())
    operator, matrix = learnt.as_linear_operator(), _matrix(kernel)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    largest = svds(operator, k=1, v0=np.ones(min(matrix.shape)), return_singular_vectors=False)
    expect_close(largest, values[:1], "the largest singular value", within=1e-10)
    damp = values[0] / 3
    expected = right.T @ (values / (values**2 + damp**2) * left.sum(0))
    solved = lsqr(operator, np.ones(len(matrix)), damp=damp, atol=1e-14, btol=1e-14)[0]
    expect_close(solved, expected, "the damped least-squares load", within=1e-9)


def _loads_that_do_not_fit_are_refused(kernel: Kernel) -> None:
    space, into = kernel.grid.shape, kernel.components[1]
    wrong = {
        "another number of nodes": (ShapeError, (4, into, *space[:-1], space[-1] + 1)),
        "space before the pairs": (ShapeError, (*space, space[0] + 1, into)),
        "more components": (KernelError, (4, into + 1, *space)),
        "no axis of pairs": (KernelError, (into, *space)),
    }
    for what, (kind, shape) in wrong.items():
        expect_error(kind, partial(kernel.__matmul__, torch.zeros(shape, dtype=torch.float64)), what)


def _dense(grid: Grid, batch: tuple[int, ...], components: tuple[int, int]) -> DenseKernel:
    return DenseKernel(grid, normal(*batch, *(count * grid.size for count in components), seed=3))


def _weights(grid: Grid, components: int) -> Tensor:
    """Quadrature weights of fields of so many components, flattened."""
    return torch.tensor(np.tile(grid.weights.reshape(-1), components))


def _matrix(kernel: Kernel) -> np.ndarray:
    return (kernel.dense().detach() * _weights(kernel.grid, kernel.components[1])).numpy()
