"""The learned multiplier against complex arithmetic, and the numbers of it that never act."""

from itertools import product

import numpy as np
import pytest
import torch

from benchmarks.params import dead_weights
from nipde.errors import GridError
from nipde.spectral.filter import SpectralFilter
from tests.oracles.transcription import convolve

CASES = [
    ((9,), None), ((8,), None), ((8,), (3,)), ((9,), (1,)),
    ((9, 7), None), ((8, 6), None), ((9, 8), None), ((8, 9), None),
    ((9, 8), (3, 4)), ((8, 9), (4, 2)), ((8, 8), (5, 3)), ((7, 6), (1, 1)),
    ((5, 3, 7), None), ((4, 6, 4), None), ((5, 4, 6), None), ((5, 6, 7), (2, 4, 3)), ((4, 5, 4), (3, 1, 2)),
]  # fmt: skip

every_case = pytest.mark.parametrize(("shape", "modes"), CASES, ids=str)
components = pytest.mark.parametrize("components", [1, 2])


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def some(shape, modes=None, *, fields=2, seed=0):
    """A filter whose numbers are all different and of both signs."""
    made = SpectralFilter(shape, fields=fields, modes=modes).double()
    with torch.no_grad():
        made.weight.copy_(normal(*made.weight.shape, seed=seed + 7))
    return made


def largest(values):
    return float(values.detach().abs().max())


def half_spectrum(made):
    """R on the whole half spectrum, zero where nothing is retained; later corners cover earlier ones."""
    shape, modes, weight = made.shape, made.modes, made.weight.detach().numpy()
    multiplier = np.zeros((len(weight), *shape[:-1], shape[-1] // 2 + 1), dtype=complex)
    for corner in range(2 ** (len(shape) - 1)):
        for local in product(*(range(kept) for kept in modes)):
            from_end = [bool(corner >> axis & 1) for axis in range(len(shape) - 1)] + [False]
            row = [n - m + k if end else k for n, m, k, end in zip(shape, modes, local, from_end, strict=True)]
            pair = weight[(slice(None), corner, *local)]
            multiplier[(slice(None), *row)] = pair[:, 0] + 1j * pair[:, 1]
    return multiplier


def slow(made, values):
    """Σ_k Re[c_k R_k F_k e^{ikx}] / N over the half spectrum, c = 2 where -k is not in it: sums, no transform."""
    shape = made.shape
    waves = list(product(*(range(n) for n in shape[:-1]), range(shape[-1] // 2 + 1)))
    nodes = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), -1).reshape(-1, len(shape))
    phase = np.exp(2j * np.pi * (nodes / np.array(shape)) @ np.array(waves).T)  # node, wave
    count = np.array([1.0 if wave[-1] in (0, shape[-1] / 2) else 2.0 for wave in waves])
    spectrum = np.einsum("xk,fxq->fkq", phase.conj(), values.flatten(1, -2).numpy())
    weighted = half_spectrum(made).reshape(len(made.weight), -1, 1) * count[:, None] * spectrum
    found = np.einsum("xk,fkq->fxq", phase, weighted).real / len(nodes)
    return torch.tensor(found).view_as(values)


def gradient(made, *, seed=3):
    values = normal(len(made.weight), *made.shape, 3, seed=seed)
    found = made(values)
    (gradient,) = torch.autograd.grad((found * normal(*found.shape, seed=seed + 1)).sum(), made.weight)
    return gradient


# What it does


@components
@every_case
def test_it_multiplies_the_complex_spectrum(shape, modes, components):
    made = some(shape, modes, fields=2 * components)
    values = normal(2 * components, *shape, 3)
    assert largest(made(values) - slow(made, values)) < 1e-12


@components
@every_case
def test_it_is_the_transcription_s_convolution(shape, modes, components):
    made = some(shape, modes, fields=2 * components)
    values = normal(2 * components, *shape, 3)
    tokens = values.flatten(0, -2)[None]  # one sample: all fields, node by node
    assert largest(made(values).flatten(0, -2) - convolve(made, tokens)[0]) < 1e-12


@every_case
def test_gradients_are_those_of_the_transcription(shape, modes):
    made, values = some(shape, modes), normal(2, *shape, 3).requires_grad_()
    above = normal(2, *shape, 3, seed=5)
    fast = torch.autograd.grad((made(values) * above).sum(), [values, made.weight])
    plain = convolve(made, values.flatten(0, -2)[None])[0].view_as(values)
    for one, other in zip(fast, torch.autograd.grad((plain * above).sum(), [values, made.weight]), strict=True):
        assert largest(one - other) < 1e-12 * largest(other)


@every_case
def test_it_commutes_with_shifts(shape, modes):
    made, values = some(shape, modes), normal(2, *shape, 3)
    for axis in range(1, len(shape) + 1):
        assert largest(made(values.roll(2, dims=axis)) - made(values).roll(2, dims=axis)) < 1e-12


@every_case
def test_blocks_are_linear_in_the_weights(shape, modes):
    made, other, total = some(shape, modes), some(shape, modes, seed=1), some(shape, modes, seed=2)
    with torch.no_grad():
        total.weight.copy_(2 * made.weight - 3 * other.weight)
    assert largest(total.blocks()) > 0.1
    assert largest(total.blocks() - 2 * made.blocks() + 3 * other.blocks()) < 1e-12


@every_case
def test_a_multiplier_of_one_changes_nothing_if_all_modes_are_retained(shape, modes):
    made, values = some(shape, modes), normal(2, *shape, 3)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([1.0, 0.0]).expand_as(made.weight))
    assert (largest(made(values) - values) < 1e-12) == (modes is None)


# What never acts


@every_case
def test_dead_weights_are_exactly_those_without_a_gradient(shape, modes):
    made = some(shape, modes)
    found, dead = gradient(made), dead_weights(made)
    assert dead.shape == made.weight.shape[1:]
    assert dead.dtype == torch.bool
    for field in found:
        assert largest(field[dead]) == 0
        assert float(field[~dead].abs().min()) > 1e-9 * largest(field)


@every_case
def test_dead_weights_may_be_anything(shape, modes):
    made, values = some(shape, modes), normal(2, *shape, 3)
    before = made(values).detach()
    with torch.no_grad():
        made.weight[:, dead_weights(made)] = 1e6
    assert torch.equal(made(values), before)
    assert largest(made(values) - slow(made, values)) < 1e-7  # complex arithmetic rounds the large numbers


def test_at_odd_n_one_row_and_the_imaginary_mean_are_dead():
    dead = dead_weights(SpectralFilter((21, 21), fields=2))
    expected = torch.zeros(2, 11, 11, 2, dtype=torch.bool)
    expected[0, 10] = True  # 22 numbers: row 10 from the start is row 11 from the end
    expected[0, 0, 0, 1] = True
    assert torch.equal(dead, expected)
    assert int(dead.sum()) == 23


def test_overlapping_rows_belong_to_the_later_corner():
    made = SpectralFilter((8, 6), fields=1)  # rows 0…4 and 3…7: two rows twice
    assert made.modes == (5, 4)
    assert dead_weights(made)[0, 3:].all()
    assert not dead_weights(made)[1, :, 1:3].any()
    assert not dead_weights(SpectralFilter((8, 6), fields=1, modes=(4, 4)))[0, :, 1:3].any()  # nothing overlaps


# What is stored


@every_case
def test_one_real_parameter_is_stored(shape, modes):
    made = SpectralFilter(shape, fields=4, modes=modes)
    kept = tuple(n // 2 + 1 for n in shape) if modes is None else modes
    assert list(made.state_dict()) == ["weight"]
    assert made.weight.shape == (4, 2 ** (len(shape) - 1), *kept, 2)
    assert made.weight.dtype == torch.float32
    assert float(made.weight.detach().min()) >= 0
    assert float(made.weight.detach().max()) < 1


def test_another_filter_takes_the_stored_weights():
    made, other = some((8, 7), seed=0), some((8, 7), seed=1)
    values = normal(2, 8, 7, 3)
    assert largest(other(values) - made(values)) > 0.1
    other.load_state_dict(made.state_dict())
    assert torch.equal(other(values), made(values))


def test_the_paper_s_size():
    assert SpectralFilter((21, 21), fields=1).weight.numel() == 4 * 11**2


# What is refused


@pytest.mark.parametrize(
    ("shape", "modes", "most"),
    [
        ((8, 7), (6, 4), (5, 4)), ((8, 7), (5, 5), (5, 4)), ((8, 7), (0, 4), (5, 4)), ((8, 7), (4,), (5, 4)),
        ((8,), (4, 4), (5,)), ((5, 5, 5), (3, -1, 3), (3, 3, 3)),
    ],
)  # fmt: skip
def test_wrong_numbers_of_modes_are_refused(shape, modes, most):
    with pytest.raises(GridError) as error:
        SpectralFilter(shape, fields=2, modes=modes)
    assert error.value.got == modes
    assert str(most) in error.value.expected
