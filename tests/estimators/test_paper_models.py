"""The paper's models: equal to their transcription, in physical units, linear where they say so, and strict."""

from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.params import dead_weights
from nipde.boundary import Neumann, Periodic
from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.errors import PairsError
from nipde.estimators.paper import nips
from nipde.estimators.paper.afno import AFNO
from nipde.estimators.paper.attention import ATTENTIONS, linear_attention, quadratic_attention
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.grid import Axis, Grid
from nipde.kernels.low_rank import LowRankKernel
from nipde.spectral.filter import SpectralFilter
from tests.oracles.transcription import plain_afno, plain_nao, plain_nips

D, LAYERS = 4, 3
KINDS = {
    "NIPS": partial(NIPS, channels=3),
    "NIPS-mlp": partial(NIPSMLP, channels=3),
    **{f"NAO-{name}": partial(NAO, channels=3, attention=name) for name in ATTENTIONS},
    "NAO-f": partial(NAO, channels=3, full_norms=True),
    "NAO-W^P": partial(NAO, channels=3, token_projections=True),
    "AFNO": AFNO,
}
# Lengths and boundaries differ, so that volumes, weights and axes cannot be mixed up unseen.
GRIDS = {
    "9": Grid((Axis(9, 1.3),)),
    "8": Grid((Axis(8, 0.7, Periodic()),)),
    "7x6": Grid((Axis(7, 1.3), Axis(6, 2.5, Neumann()))),
    "4x5x3": Grid((Axis(4, 1.3), Axis(5, 0.8, Periodic()), Axis(3, 1.1, Neumann()))),
}
PLANE = GRIDS["7x6"]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_kernel = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "NIPS-mlp"])
every_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
components = pytest.mark.parametrize("components", [1, 2])


def build(kind, grid=PLANE, *, dtype=torch.float64, layers=LAYERS, seed=0, **options):
    """A model moved away from its start by noise: no weight, and no gradient, is zero by accident."""
    torch.manual_seed(seed)
    model = KINDS[kind](grid, pairs=D, layers=layers, **options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.to(dtype)


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def some(grid=PLANE, *, batch=(3,), components=1, dtype=torch.float64, pairs=D, mask=None):
    loads, responses = (normal(*batch, pairs, components, *grid.shape, seed=seed) for seed in (1, 2))
    return Pairs(grid, (7 * loads).to(dtype), (0.3 * responses).to(dtype), mask)


def answer(model, pairs):
    return model(pairs) @ pairs.loads


def gradients(model, found):
    above = normal(*found.shape, seed=9).to(found)
    return torch.autograd.grad((found * above).sum(), list(model.parameters()))


def plain(model, pairs, order):
    if isinstance(model, AFNO):
        return plain_afno(model, pairs)
    return (plain_nao if isinstance(model, NAO) else plain_nips)(model, pairs, attention=order)


def apart(one, other):
    return float((one - other).detach().norm() / other.detach().norm())


# Equal to the transcription


def assert_equal_to_the_transcription(model, pairs):
    found = answer(model, pairs)
    mine = gradients(model, found)
    for order in (linear_attention, quadratic_attention):
        expected = plain(model, pairs, order)
        assert apart(found, expected) < 1e-10
        for one, other in zip(mine, gradients(model, expected), strict=True):
            assert float((one - other).abs().max() / other.abs().max()) < 1e-10


@components
@every_grid
@every_kind
def test_answers_and_all_gradients_are_the_transcription_s(kind, grid, components):
    assert_equal_to_the_transcription(build(kind, grid, components=components), some(grid, components=components))


@components
@pytest.mark.parametrize(("grid", "modes"), [("9", (3,)), ("8", (5,)), ("7x6", (3, 2)), ("4x5x3", (2, 2, 1))])
@pytest.mark.parametrize("kind", ["NIPS", "NIPS-mlp"])
def test_fewer_modes_too(kind, grid, modes, components):
    model = build(kind, GRIDS[grid], components=components, modes=modes)
    assert_equal_to_the_transcription(model, some(GRIDS[grid], components=components))


@pytest.mark.parametrize("layers", [1, 2])
@every_kind
def test_any_number_of_layers(kind, layers):
    assert_equal_to_the_transcription(build(kind, layers=layers), some())


@components
def test_what_the_transcription_takes_over_is_the_paper_s(components):
    # Tokens: f first, then u, component by component, each with its d values in units of their rms; s = dx / √d_k.
    model, pairs = build("NAO-linear", components=components), some(components=components)
    volume, squares = 1.3 * 2.5, [PLANE.integrate(field**2) for field in (pairs.loads, pairs.responses)]
    rms = [(square.mean((1, 2)) / volume) ** 0.5 for square in squares]
    for sample, tokens in enumerate(model.tokens_of(pairs, Scaling.of(pairs))):
        fields = [pairs.loads[sample] / rms[0][sample], pairs.responses[sample] / rms[1][sample]]
        assert apart(tokens, torch.cat(fields, dim=1).reshape(D, -1).T) < 1e-13
    assert model.attention_scale(16) == pytest.approx(1 / 42 / 4)
    network, (x, z) = model.kernel_networks[0], (11, 30)
    places = np.stack([x.flatten() for x in PLANE.coordinates], -1) / (1.3, 2.5)
    hidden = torch.nn.functional.leaky_relu(network.first(torch.tensor([*places[x], *places[z]])))
    expected = network.third(torch.nn.functional.leaky_relu(network.second(hidden)))
    assert apart(network()[x, z], expected[0]) < 1e-12


@every_kind
def test_pairs_have_gradients_too(kind):
    model, pairs = build(kind), some()
    fields = [pairs.loads, pairs.responses]
    step = 1e-4 * normal(2, *pairs.loads.shape, seed=5)

    def found(sign):
        given = Pairs(PLANE, *(field + sign * change for field, change in zip(fields, step, strict=True)))
        return (answer(model, given) * above).sum()

    leaves = [field.clone().requires_grad_() for field in fields]
    with_gradient = answer(model, Pairs(PLANE, *leaves))
    assert apart(with_gradient, answer(model, pairs)) < 1e-12
    above = normal(*with_gradient.shape, seed=9)
    slopes = torch.autograd.grad((with_gradient * above).sum(), leaves)
    expected = sum((slope * change).sum() for slope, change in zip(slopes, step, strict=True))
    assert apart((found(1) - found(-1)) / 2, expected) < 1e-4


@components
@every_grid
@every_kind
def test_every_parameter_acts_but_the_dead_ones(kind, grid, components):
    model = build(kind, grid, components=components)
    dead = {part.weight: dead_weights(part) for part in model.modules() if isinstance(part, SpectralFilter)}
    found = gradients(model, answer(model, some(grid, batch=(8,), components=components)))  # no relu rests by chance
    assert bool(dead) == kind.startswith("NIPS")
    for (name, parameter), gradient in zip(model.named_parameters(), found, strict=True):
        idle = dead[parameter].expand_as(gradient) if parameter in dead else torch.zeros_like(gradient).bool()
        acts = gradient.abs() > 1e-11 * gradient.abs().max()
        assert torch.equal(acts, ~idle), name


# Units and linearity


@every_grid
@every_kind
def test_units_go_in_and_come_out(kind, grid):
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 3e-6)):  # rounding alone makes 1.5e-6
        model, pairs = build(kind, grid, dtype=dtype), some(grid, dtype=dtype)
        found, other = answer(model, pairs), pairs.scaled(load=1000.0, response=0.001)
        assert apart(answer(model, other), 0.001 * found) < tolerance
        if kind != "NIPS-mlp":
            assert apart(model(other).dense(), 1e-6 * model(pairs).dense()) < tolerance
        exact = pairs.scaled(load=2.0**10, response=2.0**-12)  # powers of two are not rounded
        assert torch.equal(answer(model, exact), found * 2**-12)


@every_grid
@every_kernel
def test_the_kernel_is_linear_and_integrates(kind, grid):
    kernel = build(kind, grid)(some(grid))
    one, other = normal(3, 5, 1, *grid.shape, seed=3), normal(3, 5, 1, *grid.shape, seed=4)
    assert isinstance(kernel, LowRankKernel)
    assert kernel.linear
    assert kernel.rank == (D if kind == "AFNO" else 3)
    assert apart(kernel @ (2 * one - 5 * other), 2 * (kernel @ one) - 5 * (kernel @ other)) < 1e-12
    integral = (one * torch.tensor(grid.weights)).flatten(2) @ kernel.dense().mT
    assert apart(kernel @ one, integral.view_as(one)) < 1e-12


@components
@every_grid
def test_nips_mlp_is_not_linear_and_says_so(grid, components):
    predictor = build("NIPS-mlp", grid, components=components)(some(grid, components=components))
    one, other = (7 * normal(3, 5, components, *grid.shape, seed=seed) for seed in (3, 4))
    together, added = predictor @ (one + other), predictor @ one + predictor @ other
    assert not predictor.linear
    assert not isinstance(predictor, LowRankKernel)
    assert apart(together, added) > 1e-2
    assert apart(predictor @ (2 * one), 2 * (predictor @ one)) > 1e-3


def test_nips_mlp_without_its_network_is_nips():
    model, pairs = build("NIPS-mlp"), some()
    with torch.no_grad():
        for parameter in model.mixer[-1].parameters():
            parameter.zero_()
    assert apart(answer(model, pairs), answer(model.nips, pairs)) < 1e-12


# Tiles and batches


@components
@pytest.mark.parametrize("per_tile", [1, 2, 3])
@pytest.mark.parametrize("kind", ["NIPS", "NIPS-mlp"])
def test_tiles_change_nothing(kind, per_tile, components, monkeypatch):
    model, pairs = build(kind, components=components), some(batch=(5,), components=components)
    whole = answer(model, pairs)
    wanted = gradients(model, whole)
    sizes, tile = [], NIPS._tile

    def counted(self, tokens, *rest):
        sizes.append(len(tokens))
        return tile(self, tokens, *rest)

    monkeypatch.setattr(NIPS, "_tile", counted)
    monkeypatch.setattr(nips, "TILE_BYTES", per_tile * 2 * components * PLANE.size * D * 8)
    cut = answer(model, pairs)
    assert sizes == [per_tile] * (5 // per_tile) + [5 % per_tile] * (5 % per_tile > 0)
    assert apart(cut, whole) < 1e-12
    for one, other in zip(gradients(model, cut), wanted, strict=True):
        assert apart(one, other) < 1e-12


@components
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
@every_kind
def test_a_batch_is_its_systems_one_by_one(kind, batch, components):
    model, pairs = build(kind, components=components), some(batch=batch, components=components)
    found = answer(model, pairs)
    assert found.shape == pairs.responses.shape
    for place in np.ndindex(*batch):
        alone = answer(model, Pairs(PLANE, pairs.loads[place], pairs.responses[place]))
        assert apart(alone, found[place]) < 1e-12


# Refusals


@every_kind
def test_partly_measured_responses_are_refused(kind):
    model, mask = build(kind), torch.ones(3, D, 1, *PLANE.shape, dtype=torch.bool)
    assert apart(answer(model, some(mask=mask.clone())), answer(model, some())) < 1e-12  # all measured
    mask[0, 0, 0, 1, 1] = False
    with pytest.raises(PairsError) as error:
        model(some(mask=mask))
    assert error.value.got == "99.8% measured"


@every_kind
def test_another_grid_is_refused(kind):
    model = build(kind)
    for grid in (Grid.uniform((7, 7)), Grid.uniform((7, 6)), Grid((Axis(7, 1.3), Axis(6, 2.5))), GRIDS["9"]):
        with pytest.raises(PairsError) as error:
            model(some(grid))
        assert "1.3" in error.value.expected


@every_kind
def test_another_context_is_refused(kind):
    model = build(kind)
    for pairs, count, loads in ((D - 1, 1, 1), (D + 1, 1, 1), (D, 2, 2), (D, 2, 1), (D, 1, 2), (D // 2, 2, 2)):
        given = Pairs(PLANE, normal(3, pairs, loads, *PLANE.shape), normal(3, pairs, count, *PLANE.shape))
        with pytest.raises(PairsError) as error:
            model(given)
        assert error.value.got == f"{pairs} of {count} and {loads}"


# Precision


def assert_float32_and_close(predictor, model, pairs):
    kernel = predictor if isinstance(predictor, LowRankKernel) else predictor.kernel
    for factor in (kernel.left, kernel.right):
        assert factor.dtype == torch.float32
        assert bool(torch.isfinite(factor).all())
    assert apart(predictor @ pairs.loads, answer(model, pairs)) < 0.05


@every_kind
def test_bfloat16_pairs_give_a_finite_float32_kernel(kind):
    model, pairs = build(kind, dtype=torch.float32), some(dtype=torch.float32)
    assert_float32_and_close(model(pairs.to(dtype=torch.bfloat16)), model, pairs)


@every_kind
def test_bfloat16_loads_are_answered_in_float32(kind):
    model, pairs = build(kind, dtype=torch.float32), some(dtype=torch.float32)
    found = answer(model, pairs.to(dtype=torch.bfloat16))
    assert found.dtype == torch.float32
    assert apart(found, answer(model, pairs)) < 0.05


@every_kind
def test_float64_pairs_are_answered_by_a_float32_model(kind):
    model, pairs = build(kind, dtype=torch.float32), some(dtype=torch.float32)
    assert apart(answer(model, pairs.to(dtype=torch.float64)).float(), answer(model, pairs)) < 1e-5


@every_kind
def test_autocast_gives_a_finite_float32_kernel(kind):
    model, pairs = build(kind, dtype=torch.float32), some(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        predictor = model(pairs)
    assert_float32_and_close(predictor, model, pairs)


@every_kind
def test_the_unit_of_length_does_not_matter(kind):
    """The same fields told in millimetres: the same answers."""
    wide = PLANE.stretched(1000.0)
    here, there = some(), some(wide)
    one, other = build(kind), build(kind, wide)
    other.load_state_dict(one.state_dict())
    assert apart(answer(other, there), answer(one, here)) < 1e-12
