"""The real transform against the complex one, and against what its docstring promises."""

from itertools import product

import numpy as np
import pytest
import torch

from nipde.spectral.waves import analysis, synthesis, wave_matrices

SHAPES = [(7,), (8,), (7, 9), (8, 6), (7, 6), (5, 7, 3), (4, 6, 8), (5, 4, 7)]
CASES = [(shape, tuple(n // 2 + 1 for n in shape)) for shape in SHAPES]
CASES += [((9,), (3,)), ((9, 8), (3, 4)), ((8, 9), (5, 1)), ((8, 9), (1, 1))]
CASES += [((5, 6, 7), (2, 4, 3)), ((4, 5, 6), (3, 1, 2))]

every_case = pytest.mark.parametrize(("shape", "waves"), CASES, ids=str)
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def matrices_of(shape, waves=None):
    return wave_matrices(shape, [n // 2 + 1 for n in shape] if waves is None else waves, like=normal(1))


def coefficients_for(shape, waves, *, lead=2, columns=3, seed=1):
    return normal(lead, int(np.prod(waves)), 2 ** len(shape), columns, seed=seed)


def largest(values):
    return float(values.detach().abs().max())


def has_sine(nodes, wave):
    return wave > 0 and 2 * wave != nodes


# One axis


@pytest.mark.parametrize("nodes", [3, 4, 7, 8, 21, 64])
def test_rows_are_orthonormal_or_zero(nodes):
    (matrix,) = matrices_of((nodes,))
    there = torch.tensor([[1.0, float(has_sine(nodes, wave))] for wave in range(nodes // 2 + 1)]).double().flatten()
    assert there.sum() == nodes  # as many waves as nodes
    assert largest(matrix @ matrix.T - torch.diag(there)) < 1e-13
    assert torch.equal(matrix[there == 0], torch.zeros(nodes // 2 * 2 + 2 - nodes, nodes).double())


@pytest.mark.parametrize("nodes", [7, 8])
def test_rows_are_cosines_and_sines_in_turn(nodes):
    (matrix,) = matrices_of((nodes,))
    for wave in range(nodes // 2 + 1):
        angles = 2 * torch.pi * wave * torch.arange(nodes).double() / nodes
        for parity, row in enumerate((torch.cos(angles), torch.sin(angles))):
            expected = row / row.norm() if parity == 0 or has_sine(nodes, wave) else 0 * row
            assert largest(matrix[2 * wave + parity] - expected) < 1e-13


def test_large_waves_are_as_exact_as_small_ones():
    # The angle grows to 500 turns; they must be taken out before it is rounded.
    (matrix,) = matrices_of((1001,))
    wave, node = 500, torch.arange(1001)
    assert largest(matrix[2 * wave] - matrix[2, wave * node % 1001]) < 1e-16
    assert largest(matrix[2 * wave + 1] - matrix[3, wave * node % 1001]) < 1e-16


# All axes


@every_case
def test_coefficients_are_the_parts_of_the_complex_transform(shape, waves):
    # e^{-iσθ} = cos θ - iσ sin θ along every axis, so F(σ₁k₁, σ₂k₂, k₃) = Σ over parities Π (-iσ)^parity · coefficient.
    dimension, field = len(shape), normal(2, *shape, 3)
    found = analysis(field, matrices_of(shape, waves))
    found = found.reshape(2, *reversed(waves), *(2,) * dimension, 3)  # the waves of the last axis come first
    found = found.permute(0, *range(dimension, 0, -1), *range(dimension + 1, 2 * dimension + 2))
    spectrum = torch.fft.rfftn(field, dim=tuple(range(1, dimension + 1)))
    for wave in product(*(range(kept) for kept in waves)):
        norms = [(n / (2 if has_sine(n, k) else 1)) ** 0.5 for n, k in zip(shape, wave, strict=True)]
        here = found[(slice(None), *wave)] * np.prod(norms)
        for signs in product((1, -1), repeat=dimension - 1):
            total = sum(
                np.prod([(-1j * sign) ** p for sign, p in zip((*signs, 1), parity, strict=True)])
                * here[(slice(None), *parity)]
                for parity in product((0, 1), repeat=dimension)
            )
            place = [sign * k % n for sign, k, n in zip((*signs, 1), wave, shape, strict=True)]
            assert largest(total - spectrum[(slice(None), *place)]) < 1e-12


@every_case
def test_synthesis_is_the_transpose_of_analysis(shape, waves):
    matrices, field, coefficients = matrices_of(shape, waves), normal(2, *shape, 3), coefficients_for(shape, waves)
    forth = (analysis(field, matrices) * coefficients).sum()
    back = (field * synthesis(coefficients, matrices)).sum()
    assert abs(float(forth - back)) < 1e-12 * float(field.norm() * coefficients.norm())
    assert abs(float(forth)) > 1e-3


@every_shape
def test_all_waves_keep_the_whole_field_and_its_norm(shape):
    matrices, field = matrices_of(shape), normal(2, *shape, 3)
    coefficients = analysis(field, matrices)
    assert largest(synthesis(coefficients, matrices) - field) < 1e-13
    assert abs(float(coefficients.norm() - field.norm())) < 1e-12


@every_case
def test_fewer_waves_project(shape, waves):
    matrices, field = matrices_of(shape, waves), normal(2, *shape, 3)
    once = synthesis(analysis(field, matrices), matrices)
    assert largest(synthesis(analysis(once, matrices), matrices) - once) < 1e-13
    whole = all(kept == n // 2 + 1 for n, kept in zip(shape, waves, strict=True))
    assert (largest(once - field) < 1e-13) == whole


@every_case
def test_the_mean_wave_is_the_first_coefficient(shape, waves):
    # Attention layers rely on it: the sum over a field is √nodes times this number.
    field, nodes = normal(2, *shape, 3), np.prod(shape)
    found = analysis(field, matrices_of(shape, waves))[:, 0, 0] * nodes**0.5
    assert largest(found - field.flatten(1, -2).sum(1)) < 1e-12


@every_case
def test_every_field_and_every_column_is_transformed_alone(shape, waves):
    matrices, field = matrices_of(shape, waves), normal(3, *shape, 2)
    coefficients = analysis(field, matrices)
    assert coefficients.shape == (3, np.prod(waves), 2 ** len(shape), 2)
    back = synthesis(coefficients, matrices)
    assert back.shape == field.shape
    for lead, column in product(range(3), range(2)):
        alone = analysis(field[lead : lead + 1, ..., column : column + 1], matrices)
        assert largest(alone[0, ..., 0] - coefficients[lead, ..., column]) < 1e-13
        assert largest(synthesis(alone, matrices)[0, ..., 0] - back[lead, ..., column]) < 1e-13


# Gradients, memory, precision


@every_case
def test_the_path_with_gradients_gives_the_same(shape, waves):
    matrices, field, weights = matrices_of(shape, waves), normal(2, *shape, 3), coefficients_for(shape, waves)
    with_gradient = field.clone().requires_grad_()
    found = analysis(with_gradient, matrices)
    assert largest(found - analysis(field, matrices)) < 1e-13
    (gradient,) = torch.autograd.grad((found * weights).sum(), with_gradient)
    assert largest(gradient - synthesis(weights, matrices)) < 1e-13  # the transpose
    with torch.no_grad():
        assert torch.equal(analysis(with_gradient, matrices), analysis(field, matrices))
    with_gradient = weights.clone().requires_grad_()
    found = synthesis(with_gradient, matrices)
    assert largest(found - synthesis(weights, matrices)) < 1e-13
    (gradient,) = torch.autograd.grad((found * field).sum(), with_gradient)
    assert largest(gradient - analysis(field, matrices)) < 1e-13


@pytest.mark.parametrize(("shape", "waves"), [((5,), (3,)), ((4, 5), (3, 2)), ((3, 4, 3), (2, 2, 2))], ids=str)
def test_gradients_are_right(shape, waves):
    matrices = matrices_of(shape, waves)
    field, coefficients = normal(2, *shape, 2), coefficients_for(shape, waves, columns=1)
    assert torch.autograd.gradcheck(lambda v: analysis(v, matrices), field.requires_grad_(), fast_mode=True)
    assert torch.autograd.gradcheck(lambda c: synthesis(c, matrices), coefficients.requires_grad_(), fast_mode=True)


@every_case
def test_tracers_get_the_same_numbers(shape, waves, monkeypatch):
    field = normal(2, *shape, 3)
    expected = analysis(field, matrices_of(shape, waves))
    back = synthesis(expected, matrices_of(shape, waves))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert largest(analysis(field, matrices_of(shape, waves)) - expected) < 1e-13
    assert largest(synthesis(expected, matrices_of(shape, waves)) - back) < 1e-13


@every_shape
def test_memory_order_does_not_matter(shape):
    matrices, field = matrices_of(shape), normal(2, *shape, 3)
    strided = field.transpose(0, -1).contiguous().transpose(0, -1)
    assert not strided.is_contiguous()
    coefficients = analysis(strided, matrices)
    assert largest(coefficients - analysis(field, matrices)) < 1e-13
    strided = coefficients.transpose(1, 3).contiguous().transpose(1, 3)
    assert largest(synthesis(strided, matrices) - field) < 1e-13


def test_float32_stays_float32_and_close():
    field, waves = normal(2, 33, 32, 3), (17, 17)
    single = wave_matrices((33, 32), waves, like=field.float())
    coefficients = analysis(field.float(), single)
    assert single[0].dtype == coefficients.dtype == synthesis(coefficients, single).dtype == torch.float32
    assert largest(coefficients - analysis(field, wave_matrices((33, 32), waves, like=field))) < 1e-5


def test_one_number_of_waves_per_axis_is_needed():
    with pytest.raises(ValueError, match="shorter"):
        wave_matrices((7, 8), (4,), like=normal(1))


def test_matrices_first_asked_for_in_inference_mode_can_be_trained_with():
    with torch.inference_mode():
        matrices_of((23,), (5,))
    field = normal(1, 23, 1).requires_grad_()
    analysis(field, matrices_of((23,), (5,))).sum().backward()
    assert field.grad is not None
