"""One contract for every kernel: whatever its form, it acts as its matrix of values times the quadrature."""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import lsqr, svds

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.errors import KernelError, ShapeError
from nipde.grid import Axis, Grid
from nipde.kernels.base import Kernel
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.dense import DenseKernel
from nipde.kernels.elliptic import EllipticKernel
from nipde.kernels.gated import GatedKernel
from nipde.kernels.law import LawKernel
from nipde.kernels.low_rank import LowRankKernel
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.darcy import Darcy
from nipde.spectral.transform import transform


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def dense(grid, batch, components, generator):
    rows, columns = (count * grid.size for count in components)
    return DenseKernel(grid, normal(generator, *batch, rows, columns))


def low_rank(grid, batch, components, generator, *, rank=4):
    factors = [normal(generator, *batch, rank, count, *grid.shape) for count in components]
    return LowRankKernel(grid, *factors)


def law(grid, batch, components, generator, *, stirred=False):
    if components != (1, 1):
        pytest.skip("balance laws are scalar")

    def one():
        rock = normal(generator, *grid.shape).exp().numpy()
        if not stirred:
            return Darcy(grid, rock)
        return AdvectionDiffusion(grid, rock + 1, 0.1 * normal(generator, grid.dimension, *grid.shape).numpy())

    laws = tuple(one() for _ in range(int(np.prod(batch))))
    return LawKernel(grid, laws, torch.ones(batch, dtype=torch.float64))


def elliptic(grid, batch, components, generator, *, stirred=False):
    if components != (1, 1):
        pytest.skip("balance laws are scalar")
    log = normal(generator, *batch, *grid.shape)
    drift = normal(generator, *batch, grid.dimension, *grid.shape) if stirred else None
    return EllipticKernel(
        grid, log, torch.ones(batch, dtype=torch.float64), drift, torch.tensor(-0.7, dtype=torch.float64)
    )


def gated(grid, batch, components, generator, *, terms=3):
    gates = [normal(generator, *batch, terms, count, *grid.shape) for count in components]
    return GatedKernel(grid, *gates, normal(generator, terms, *transform(grid).shape))


def conditioned(grid, batch, components, generator):
    prior = gated(grid, batch, components, generator)
    return ConditionedKernel(grid, prior, low_rank(grid, batch, components, generator))


#: Every form of a kernel: a new one is one more line here.
KERNELS = {
    "law": law,
    "stirred_law": partial(law, stirred=True),
    "elliptic_law": elliptic,
    "stirred_elliptic_law": partial(elliptic, stirred=True),
    "gated": gated,
    "conditioned": conditioned,
    "dense": dense,
    "low_rank": low_rank,
    "rank_one": partial(low_rank, rank=1),
}


def box(kinds, nodes):
    axes = zip(nodes, (1.3, 2.5, 0.7), kinds, strict=False)
    return Grid(tuple(Axis(count, length, kind) for count, length, kind in axes))


D, N, P = Dirichlet(), Neumann(), Periodic()
GRIDS = [box((D,), (7,)), box((D, P), (5, 4)), box((P, D, N), (4, 3, 5))]
BATCHES = [(), (3,)]
COMPONENTS = [(1, 1), (2, 2), (2, 3)]

only_one_system = pytest.mark.parametrize("batch", [()], ids=["one"])
only_square = pytest.mark.parametrize("components", [(1, 1), (2, 2)], ids=str)
only_scalar = pytest.mark.parametrize("components", [(1, 1)], ids=["scalar"])


def each_of(options, *, ids=None):
    return pytest.fixture(params=options, ids=ids)(lambda request: request.param)


name = each_of(KERNELS)
grid = each_of(GRIDS, ids=lambda grid: "x".join(map(str, grid.shape)))
batch = each_of(BATCHES, ids=["one", "batch"])
components = each_of(COMPONENTS, ids=str)


@pytest.fixture
def kernel(name, grid, batch, components):
    return build(name, grid, batch, components)


def build(name, grid, batch=(), components=(1, 1), *, seed=0):
    return KERNELS[name](grid, batch, components, torch.Generator().manual_seed(seed))


def loads_for(kernel, *, pairs=4, batch=None, seed=1):
    batch = kernel.batch if batch is None else batch
    generator = torch.Generator().manual_seed(seed)
    return normal(generator, *batch, pairs, kernel.components[1], *kernel.grid.shape)


def weights_of(kernel, count):
    """The diagonal of W for fields of so many components."""
    return torch.tensor(np.tile(kernel.grid.weights.reshape(-1), count))


def slow_action(kernel, loads):
    """Σ_j Σ_y K_ij(x, y) w(y) f_j(y), written with every axis by name."""
    (out, into), grid = kernel.components, kernel.grid
    blocks = kernel.dense().unflatten(-1, (into, grid.size)).unflatten(-3, (out, grid.size)).numpy()
    flat = loads.flatten(-grid.dimension).numpy()
    found = np.einsum("...ixjy,y,...pjy->...pix", blocks, grid.weights.reshape(-1), flat)
    return torch.tensor(found).unflatten(-1, grid.shape)


def tensors_of(kernel, *, under=""):
    """The numbers a kernel is made of, by name; those of kernels inside it after a dot."""
    found = {}
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, torch.Tensor):
            found[under + field.name] = value
        elif isinstance(value, Kernel):
            found |= tensors_of(value, under=f"{under}{field.name}.")
    return found


def changed(kernel, change):
    """The same kernel with every tensor changed."""
    return with_tensors(kernel, {name: change(value) for name, value in tensors_of(kernel).items()})


def with_tensors(kernel, values, *, under=""):
    """The same kernel of other tensors, by name."""
    parts = {}
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, Kernel):
            parts[field.name] = with_tensors(value, values, under=f"{under}{field.name}.")
        elif under + field.name in values:
            parts[field.name] = values[under + field.name]
    return replace(kernel, **parts)


def assert_close(found, expected, *, within=1e-12):
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= within * float(expected.abs().max())


# Action


def test_the_shape_is_told(kernel, grid, batch, components):
    out, into = components
    assert (kernel.batch, kernel.components, kernel.linear) == (batch, components, True)
    assert kernel.dense().shape == (*batch, out * grid.size, into * grid.size)
    assert (kernel @ loads_for(kernel)).shape == (*batch, 4, out, *grid.shape)


@pytest.mark.parametrize("load_batch", [(), (3,), (2, 3)], ids=["shared_loads", "own_loads", "more_loads"])
def test_it_acts_as_its_values_times_the_quadrature(kernel, load_batch):
    loads = loads_for(kernel, batch=load_batch)
    assert_close(kernel @ loads, slow_action(kernel, loads))


def test_a_batch_comes_apart_into_its_systems(kernel):
    if len(kernel.batch) != 1:
        pytest.skip("systems are counted along one axis")
    factors = torch.arange(1.0, kernel.batch[0] + 1, dtype=torch.float64)
    parts = [(kernel * factors).system(number) for number in range(kernel.batch[0])]
    assert all(type(part) is type(kernel) and part.batch == () for part in parts)
    assert_close(torch.stack([part.dense() for part in parts]), (kernel * factors).dense())


def test_several_pairs_at_once_are_the_same_as_one_by_one(kernel):
    loads, place = loads_for(kernel), -kernel.grid.dimension - 2
    one_by_one = [kernel @ loads.narrow(place, pair, 1) for pair in range(loads.shape[place])]
    assert_close(kernel @ loads, torch.cat(one_by_one, place), within=1e-13)


@only_scalar
def test_a_bare_field_is_one_scalar_load(kernel):
    load = loads_for(kernel, pairs=1, batch=())
    assert_close(kernel @ load[0, 0], slow_action(kernel, load)[..., 0, 0, *(slice(None),) * kernel.grid.dimension])


amounts = st.floats(-1e3, 1e3, allow_subnormal=False)


@pytest.mark.parametrize("name", KERNELS)
@settings(max_examples=40, deadline=None)
@given(
    a=amounts, b=amounts, seed=st.integers(0, 2**31), grid=st.sampled_from(GRIDS),
    batch=st.sampled_from(BATCHES), components=st.sampled_from(COMPONENTS),
)  # fmt: skip
def test_it_is_linear_in_the_load(name, a, b, seed, grid, batch, components):
    kernel = build(name, grid, batch, (1, 1) if "law" in name else components, seed=seed)
    f, g = loads_for(kernel, seed=seed + 1), loads_for(kernel, seed=seed + 2)
    apart, together = a * (kernel @ f) + b * (kernel @ g), kernel @ (a * f + b * g)
    terms = slow_action(DenseKernel(grid, kernel.dense().abs()), abs(a * f) + abs(b * g))
    assert float((together - apart).abs().max()) <= 1e-13 * float(terms.max())


# Algebra


def test_the_transpose_exchanges_the_arguments(kernel, batch, components):
    assert_close(kernel.T.dense(), kernel.dense().mT, within=1e-14)
    assert (kernel.T.batch, kernel.T.components) == (batch, components[::-1])


def test_the_transpose_is_the_adjoint_under_the_integral(kernel, grid):
    f, g = loads_for(kernel), loads_for(kernel.T, seed=2)
    assert_close(grid.integrate((kernel.T @ g) * f).sum(-1), grid.integrate(g * (kernel @ f)).sum(-1))


@only_square
def test_the_diagonal_is_that_of_the_values(kernel, grid, batch, components):
    expected = kernel.dense().diagonal(dim1=-2, dim2=-1).reshape(*batch, components[0], *grid.shape)
    assert_close(kernel.diagonal(), expected)


@pytest.mark.parametrize("components", [(2, 3), (1, 2)], ids=str)
def test_there_is_no_diagonal_between_different_components(kernel, components):
    with pytest.raises(KernelError, match=rf"expected as many .* got \({components[0]}, {components[1]}\)"):
        kernel.diagonal()


def test_the_row_integral_is_the_response_to_one(kernel, grid, batch, components):
    ones = torch.ones(*batch, 1, components[1], *grid.shape, dtype=torch.float64)
    assert_close(kernel.row_integral(), slow_action(kernel, ones).squeeze(-grid.dimension - 2))


@pytest.mark.parametrize("inner_name", KERNELS)
def test_composition_is_the_product_with_the_quadrature_between(kernel, inner_name, grid, batch, components):
    inner = build(inner_name, grid, batch, (components[1], 2), seed=3)
    composed, loads = kernel @ inner, loads_for(inner)
    assert (composed.batch, composed.components) == (batch, (components[0], 2))
    assert_close(composed.dense(), (kernel.dense() * weights_of(kernel, components[1])) @ inner.dense())
    assert_close(composed @ loads, kernel @ (inner @ loads))


@pytest.mark.parametrize("inner_name", KERNELS)
@pytest.mark.parametrize("batches", [((), (3,)), ((3,), ())], ids=["one_after_many", "many_after_one"])
def test_one_kernel_composes_with_a_batch(name, inner_name, batches):
    kernel, inner = build(name, GRIDS[1], batches[0]), build(inner_name, GRIDS[1], batches[1], seed=3)
    loads = loads_for(inner)
    assert (kernel @ inner).batch == (3,)
    assert_close((kernel @ inner) @ loads, kernel @ (inner @ loads))


@pytest.mark.parametrize(
    "wrong", [{"components": (3, 2)}, {"grid": box((N, D), (5, 4))}, {"grid": GRIDS[0]}, {"batch": (4,)}],
    ids=["components", "boundary", "dimension", "batch"],
)  # fmt: skip
@pytest.mark.parametrize("inner_name", KERNELS)
def test_what_does_not_fit_is_not_composed(name, inner_name, wrong):
    fitting = {"grid": GRIDS[1], "batch": (3,), "components": (2, 2)}
    with pytest.raises(KernelError, match=r"expected .*, got "):
        build(name, **fitting) @ build(inner_name, **(fitting | wrong))


@pytest.mark.parametrize("factor", [3, -2.5, torch.tensor(0.5)], ids=str)
def test_a_number_changes_the_unit(kernel, factor):
    loads = loads_for(kernel)
    assert_close((kernel * factor).dense(), kernel.dense() * factor, within=1e-14)
    assert_close((kernel * factor) @ loads, (kernel @ loads) * factor, within=1e-13)


@pytest.mark.parametrize("batch", [(3,), (2, 3)], ids=str)
def test_every_system_has_its_own_unit(kernel, batch):
    factors = 10.0 ** torch.arange(-3, 3)[: int(np.prod(batch))].reshape(batch).double()
    scaled = kernel * factors
    assert scaled.batch == batch
    for place in np.ndindex(batch):
        assert_close(scaled.dense()[place], kernel.dense()[place] * factors[place], within=1e-14)


# Gradients and precision


def test_gradients_of_the_load_and_of_the_kernel_are_right(kernel):
    members, loads, fast = tensors_of(kernel), loads_for(kernel, pairs=2), kernel.grid.dimension > 1
    assert members
    free = [value.clone().requires_grad_() for value in (loads, *members.values())]

    def response(values, *tensors):
        return with_tensors(kernel, dict(zip(members, tensors, strict=True))) @ values

    assert torch.autograd.gradcheck(response, free, fast_mode=fast)


@only_square
def test_float32_stays_float32_and_close(kernel, batch):
    single = changed(kernel, torch.Tensor.float)
    loads, units = loads_for(kernel), torch.full(batch, 2.0, dtype=torch.float64)
    every = [
        (single @ loads.float(), kernel @ loads), (single.T @ loads.float(), kernel.T @ loads),
        (single.row_integral(), kernel.row_integral()), (single.diagonal(), kernel.diagonal()),
        (single.dense(), kernel.dense()), ((single @ single).dense(), (kernel @ kernel).dense()),
        ((single * units).dense(), (kernel * units).dense()),
    ]  # fmt: skip
    for found, expected in every:
        assert found.dtype == torch.float32
        assert_close(found.double(), expected, within=1e-5)


# SciPy


def matrix_of(kernel):
    return (kernel.dense() * weights_of(kernel, kernel.components[1])).numpy()


@only_one_system
def test_scipy_sees_the_values_times_the_quadrature(kernel):
    operator, matrix, rng = kernel.as_linear_operator(), matrix_of(kernel), np.random.default_rng(0)
    f, g = (rng.standard_normal((count, 3)) for count in matrix.shape[::-1])
    forth, back = matrix @ f, matrix.T @ g
    assert (operator.shape, operator.dtype) == (matrix.shape, np.dtype("float64"))
    for found, expected in [
        (operator.matvec(f[:, 0]), forth[:, 0]), (operator @ f[:, 1], forth[:, 1]), (operator.matmat(f), forth),
        (operator @ f, forth), (operator.rmatvec(g[:, 0]), back[:, 0]), (operator.rmatmat(g), back),
        (operator.T @ g, back), (operator @ f[:, :1], forth[:, :1]),
    ]:  # fmt: skip
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= 1e-12 * np.abs(expected).max()


@only_one_system
def test_solvers_of_scipy_run_on_it(kernel):
    learnt = changed(kernel, lambda value: value.clone().requires_grad_())
    operator, matrix = learnt.as_linear_operator(), matrix_of(kernel)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    largest = svds(operator, k=1, v0=np.ones(min(matrix.shape)), return_singular_vectors=False)
    assert largest == pytest.approx(values[:1], rel=1e-10)
    response, damp = np.ones(len(matrix)), values[0] / 3
    expected = right.T @ (values / (values**2 + damp**2) * (left.T @ response))
    solved = lsqr(operator, response, damp=damp, atol=1e-14, btol=1e-14)[0]
    assert np.abs(solved - expected).max() <= 1e-9 * np.abs(expected).max()


def test_scipy_gets_the_precision_it_was_promised(name):
    operator = changed(build(name, GRIDS[1]), torch.Tensor.float).as_linear_operator()
    ones = np.ones(operator.shape[0], dtype=np.float32)
    assert operator.dtype == operator.matvec(ones).dtype == operator.rmatvec(ones).dtype == np.float32


def test_scipy_may_bring_complex_vectors(name):
    kernel = build(name, GRIDS[1])
    matrix, wave = matrix_of(kernel), np.exp(1j * np.arange(GRIDS[1].size))
    assert np.abs(kernel.as_linear_operator() @ wave - matrix @ wave).max() <= 1e-12 * np.abs(matrix @ wave).max()


def test_scipy_is_given_one_system_only(name):
    with pytest.raises(KernelError, match=r"expected one system, got a batch \(3,\): take one"):
        build(name, GRIDS[0], (3,)).as_linear_operator()


# Refusal


MISSING = r"expected axes \(\*batch, pair, component, \*space\).*, got shape {}: add the missing axes"


@pytest.mark.parametrize(("shape", "error", "text"), [
    ((4, 2, 4, 5), ShapeError, r"expected trailing axes \(5, 4\), got shape \(4, 2, 4, 5\)"),
    ((5, 4, 4, 2), ShapeError, r"expected trailing axes \(5, 4\), got shape \(5, 4, 4, 2\)"),
    ((4,), ShapeError, r"expected trailing axes \(5, 4\), got shape \(4,\)"),
    ((4, 3, 5, 4), KernelError, r"expected .* with 2 component\(s\), got shape \(4, 3, 5, 4\)"),
    ((4, 1, 5, 4), KernelError, r"expected .* with 2 component\(s\), got shape \(4, 1, 5, 4\)"),
    ((2, 5, 4), KernelError, MISSING.format(r"\(2, 5, 4\)")),
    ((5, 4), KernelError, MISSING.format(r"\(5, 4\)")),
], ids=["swapped", "space_first", "no_space", "more_components", "fewer_components", "no_pair", "bare"])  # fmt: skip
def test_loads_that_do_not_fit_are_refused(name, batch, shape, error, text):
    with pytest.raises(error, match=text):
        build(name, GRIDS[1], batch, (3, 2)) @ torch.zeros(shape, dtype=torch.float64)


# What one form promises alone


@pytest.mark.parametrize("shape", [(6, 7), (7, 8), (3, 7, 10)], ids=str)
def test_values_that_do_not_fit_the_grid_are_refused(shape):
    with pytest.raises(ShapeError, match=rf"expected multiples of 7 .* got {shape[-2]} × {shape[-1]}"):
        DenseKernel(GRIDS[0], torch.zeros(shape))


@pytest.mark.parametrize(("left", "right"), [
    ((4, 1, 7), (3, 1, 7)), ((2, 4, 1, 7), (4, 1, 7)), ((4, 1, 7), (4, 7, 1)), ((1, 7), (1, 7))
], ids=["rank", "batch", "space", "no_rank"])  # fmt: skip
def test_factors_that_do_not_fit_are_refused(left, right):
    with pytest.raises(ShapeError, match=r"expected .*, got "):
        LowRankKernel(GRIDS[0], torch.zeros(left), torch.zeros(right))


def test_a_low_rank_kernel_is_the_sum_of_its_products(grid):
    kernel = build("low_rank", grid, (3,), (2, 3))
    left, right = kernel.left[2, :, 1].flatten(1), kernel.right[2, :, 0].flatten(1)
    block = kernel.dense()[2, grid.size :, : grid.size]  # second component of the response, first of the load
    assert_close(block, sum(torch.outer(a, b) for a, b in zip(left, right, strict=True)))


def test_the_rank_never_grows_under_composition(batch):
    thin, thick = build("rank_one", GRIDS[1], batch), build("low_rank", GRIDS[1], batch)
    assert [(a @ b).rank for a in (thin, thick) for b in (thin, thick)] == [1, 1, 1, 4]
    assert (thick @ build("dense", GRIDS[1], batch)).rank == 4
