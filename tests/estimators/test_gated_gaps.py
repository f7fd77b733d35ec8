"""Gated weights on pairs unlike those of training, with gaps or much noise: a worse answer, never an absurd one."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import nipde
from nipde.context.pairs import Pairs
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.errors import PairsError
from nipde.estimators.conditioned.whitening import smooth_filling
from nipde.grid import Grid
from nipde.kernels.gated import GatedKernel
from nipde.spectral.transform import transform


@cache
def specimen(*, loads="middle", family="two-phase"):
    """Pairs of another discretisation, no noise."""
    system = ReferenceDarcyRecipe(pairs=45, loads=loads, family=family, precision="float32").build(np.uint64(3))
    return Pairs.from_arrays(system.loads, system.responses, grid=system.grid)


def noisy(pairs, share, *, seed=0):
    deviation = share * float(pairs.responses.square().mean().sqrt())
    errors = torch.randn(pairs.responses.shape, generator=torch.Generator().manual_seed(seed))
    return replace(pairs, responses=pairs.responses + deviation * errors, noise=deviation)


def gaps(pairs, measured, *, alike, seed=1):
    shape = pairs.grid.shape if alike else pairs.responses.shape
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < measured
    return replace(pairs, mask=mask.expand_as(pairs.responses))


def held_out(model, context, queries):
    return float((model(context) @ queries.loads - queries.responses).norm() / queries.responses.norm())


@pytest.fixture(scope="module")
def model():
    return nipde.load("darcy-two-phase-gated")


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_half_of_the_nodes_suffice(model, alike, share):
    whole = specimen()
    context, queries = noisy(whole, share).take(slice(0, 30)), whole.take(slice(30, 45))
    assert held_out(model, context, queries) < 0.04
    assert held_out(model, gaps(context, 0.5, alike=alike), queries) < 0.08


@pytest.mark.parametrize("name", ["darcy-two-phase-gated", "advection-gated"])
@pytest.mark.parametrize(
    ("loads", "measured", "share"),
    [("middle", 0.35, 0.01), ("wells", 0.5, 0.01), ("wells", 0.35, 0.0), ("middle", 1.0, 0.3), ("middle", 1.0, 3.0)],
)
def test_no_pairs_have_an_answer_worse_than_none(name, loads, measured, share):
    whole = specimen(loads=loads, family="log-normal")
    queries = whole.take(slice(30, 45))
    for pairs in (30, 3):
        context = gaps(noisy(whole, share).take(slice(0, pairs)), measured, alike=False)
        assert held_out(nipde.load(name), context, queries) < 1


def test_few_values_are_refused_and_so_are_pairs_without_a_finite_kernel(model):
    context = noisy(specimen(), 0.01).take(slice(0, 5))
    with pytest.raises(PairsError) as error:
        model(gaps(context, 0.2, alike=False))
    assert error.value.expected == "at least 30% measured"
    assert error.value.remedy == "use SensorInversion (output-error), or weights with a law"
    for name in ("darcy", "darcy-two-phase-gated"):
        with pytest.raises(PairsError) as error:
            nipde.load(name)(context.scaled(load=1e-25))
        assert error.value.message == "the kernel is not finite"
        hole = context.responses.clone()
        hole[2, 0, 5, 5] = torch.nan
        with pytest.raises(PairsError) as error:
            nipde.load(name)(replace(context, responses=hole))
        assert error.value.remedy == "mark missing responses with mask=False"


@pytest.mark.parametrize("name", ["darcy", "advection", "darcy-two-phase-gated"])
@pytest.mark.parametrize("measured", [1.0, 0.9])
def test_a_load_given_twice_proves_noise_that_was_stated_as_zero(name, measured):
    whole = specimen()
    context, queries = noisy(whole, 0.01).take([*range(20), 3]), whole.take(slice(30, 45))
    other = noisy(whole, 0.01, seed=5).responses[3]
    contradicting = replace(context, responses=torch.cat([context.responses[:-1], other[None]]), noise=0.0)
    assert held_out(nipde.load(name), gaps(contradicting, measured, alike=False), queries) < 0.1


def test_a_bad_system_does_not_touch_the_others_of_its_batch(model):
    good, bad = (noisy(specimen(), share).take(slice(0, 20)) for share in (0.01, 1.0))
    both = Pairs(
        good.grid, *(torch.stack([getattr(one, name) for one in (good, bad)]) for name in ("loads", "responses")),
        noise=torch.tensor([good.noise, bad.noise]),
    )  # fmt: skip
    answers = model(both) @ good.loads
    torch.testing.assert_close(answers[0], model(good) @ good.loads, rtol=0, atol=1e-5 * float(answers[0].abs().max()))
    assert float(answers[1].norm() / good.responses.norm()) < 2


def test_the_first_filling_has_no_kinks_that_loads_do_not_explain():
    # In a homogeneous medium it is exact.
    grid = Grid.uniform(17)
    loads = torch.randn(3, 1, *grid.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    responses = torch.as_tensor(nipde.Darcy(grid, np.full(grid.shape, 4.0)).solve(loads[:, 0].numpy()))[:, None]
    pairs = gaps(Pairs(grid, loads, responses), 0.5, alike=True).along_one_axis()
    size = responses.norm()
    assert float((smooth_filling(pairs, loaded=True)[0] - responses).norm() / size) < 0.02
    assert float((smooth_filling(pairs)[0] - responses).norm() / size) > 0.1


@pytest.mark.parametrize("components", [(1, 1), (2, 2), (2, 1)])
def test_systems_are_replaced_by_a_homogeneous_medium_whatever_they_held(components):
    grid, generator = Grid.uniform(6), torch.Generator().manual_seed(0)
    left, right = (torch.randn(2, 3, count, 6, 6, generator=generator, dtype=torch.float64) for count in components)
    left[1] = torch.inf
    kernel = GatedKernel(grid, left, right, torch.randn(3, *transform(grid).shape, generator=generator).double())
    replaced = kernel.homogeneous_in(torch.tensor([False, True]), torch.tensor([7.0, 0.5]).double())
    loads = torch.randn(4, components[1], 6, 6, generator=generator, dtype=torch.float64)
    waves, answers = transform(grid), replaced @ loads
    torch.testing.assert_close(answers[0], kernel.system(0) @ loads)
    expected = 0.5 * waves.synthesis(waves.analysis(loads) * waves.inverse_laplacian(loads))
    torch.testing.assert_close(answers[1], expected if components[0] == components[1] else torch.zeros_like(answers[1]))


@pytest.mark.parametrize("name", ["mmnist-gated", "tissue-gated"])
def test_bodies_with_gaps_are_refused_and_noise_leaves_them_finite(name):
    grid, generator = Grid.uniform(9), torch.Generator().manual_seed(0)
    loads, responses = torch.randn(2, 12, 2, 9, 9, generator=generator).unbind()
    pairs = Pairs(grid, loads, responses * torch.tensor(grid.unknown), noise=1.0)
    answers = nipde.load(name)(pairs) @ loads
    assert float(answers.norm() / responses.norm()) < 10
    with pytest.raises(PairsError) as error:
        nipde.load(name)(gaps(pairs, 0.5, alike=False))
    assert "% measured" in error.value.got
    assert "output-error" in error.value.remedy
