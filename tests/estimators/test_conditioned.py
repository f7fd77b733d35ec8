"""Conditioned NIPS: its symmetries are exact whatever the weights, and nothing depends on the grid."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.context.noise import with_white_noise, with_white_noise_each
from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.conditioned.gated_prior import ODD, REACH
from nipde.grid import Axis, Grid
from nipde.kernels.elliptic import EllipticKernel
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

PRIORS = {
    "elliptic": {"prior": "elliptic"},
    "drift": {"prior": "elliptic", "drift": True},
    "gated": {"prior": "gated", "terms": 4},
    "gated, drift": {"prior": "gated", "terms": 3, "drift": True},
}


def model_of(name, *, dimension=2, seed=0, **options):
    torch.manual_seed(seed)
    model = ConditionedNIPS(dimension=dimension, channels=8, **{**PRIORS[name], **options}).double().eval()
    with torch.no_grad():  # weights that matter, and are not those of the start
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.requires_grad_(False)


def darcy_pairs(nodes=13, *, count=12, seed=0, grid=None, waves=8):
    grid = Grid.uniform(nodes) if grid is None else grid
    rng = np.random.default_rng(seed)
    rock = TwoPhase()(GaussianField(4.0, waves=waves).sample(grid, rng=rng, count=1)[0])
    loads = GaussianField(1.0, waves=waves, rms=1.0).sample(grid, rng=rng, count=count)
    return Pairs.from_arrays(loads, Darcy(grid, rock).solve(loads), grid=grid, noise=0.0), rock


def gap(found, expected):
    return float((found - expected).abs().max() / expected.abs().max())


def turn(count, *, seed=3, orthogonal):
    matrix = torch.randn(count, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.linalg.qr(matrix).Q if orthogonal else matrix


@pytest.fixture(params=PRIORS)
def name(request):
    return request.param


@pytest.mark.parametrize("noise", [0.0, 0.03], ids=["clean", "noisy"])
def test_order_and_rotation_of_pairs_change_nothing(name, noise):
    pairs, _ = darcy_pairs()
    pairs = with_white_noise(pairs, share=noise, seed=1)
    model = model_of(name)
    expected = model(pairs).dense()
    permuted = pairs.take(torch.randperm(12, generator=torch.Generator().manual_seed(0)))
    assert gap(model(permuted).dense(), expected) <= 1e-10
    assert gap(model(pairs.mixed(turn(12, orthogonal=True))).dense(), expected) <= 1e-10


@pytest.mark.parametrize("noise", [0.0, 0.03], ids=["clean", "noisy"])
def test_the_unit_of_length_changes_nothing(name, noise):
    pairs, _ = darcy_pairs()
    pairs = with_white_noise(pairs, share=noise, seed=1)
    model, size = model_of(name), 50.0
    own, other = model(pairs), model(replace(pairs, grid=pairs.grid.stretched(size)))
    assert gap(other.predict(pairs.loads), own.predict(pairs.loads)) <= 1e-10
    assert gap(other.dense(), own.dense() / size**2) <= 1e-10
    assert gap(other.variance(pairs.loads) + 1, own.variance(pairs.loads) + 1) <= 1e-10
    assert other.grid == pairs.grid.stretched(size)
    if own.coefficient is not None:
        assert gap(other.coefficient, own.coefficient * size**2) <= 1e-10


def test_any_invertible_mixing_changes_nothing_at_zero_noise(name):
    pairs, _ = darcy_pairs()
    model = model_of(name)
    assert gap(model(pairs.mixed(turn(12, orthogonal=False))).dense(), model(pairs).dense()) <= 1e-10


def test_the_context_is_reproduced_at_zero_noise(name):
    pairs, _ = darcy_pairs()
    assert gap(model_of(name)(pairs) @ pairs.loads, pairs.responses) <= 1e-6


def test_units_pass_through(name):
    pairs, _ = darcy_pairs()
    model = model_of(name)
    other = model(pairs.scaled(load=1e3, response=1e-2)).dense()
    assert gap(other * 1e5, model(pairs).dense()) <= 1e-8


@pytest.mark.parametrize("nodes", [11, 21, 41, pytest.param(121, marks=pytest.mark.slow)])
def test_the_same_weights_serve_every_grid(name, nodes):
    pairs, _ = darcy_pairs(nodes, count=5)
    kernel = model_of(name)(pairs)
    assert kernel.grid.shape == (nodes, nodes)
    assert gap(kernel @ pairs.loads, pairs.responses) <= 1e-6


def test_a_clean_balance_is_found_without_any_training():
    pairs, rock = darcy_pairs(21, count=20, waves=20)
    torch.manual_seed(0)
    kernel = ConditionedNIPS(dimension=2).double().eval().requires_grad_(False)(pairs.take(slice(0, 10)))
    later = pairs.take(slice(10, 20))
    error = (kernel @ later.loads - later.responses).norm() / later.responses.norm()
    assert error <= 5e-4
    found = kernel.coefficient.numpy()
    inside = np.s_[1:-1, 1:-1]
    assert np.array_equal(found[inside] > 6, rock[inside] > 6)


def test_drift_is_found_too():
    grid, rng = Grid.uniform(21), np.random.default_rng(0)
    stream = GaussianField(4.0, waves=4, rms=1.0)
    amounts = stream.coefficients(grid, rng=rng, count=1)
    velocity = 2 * np.stack(
        [stream.synthesise(grid, amounts, derivative=1)[0], -stream.synthesise(grid, amounts, derivative=0)[0]]
    )
    law = AdvectionDiffusion(grid, np.ones(grid.shape), velocity)
    loads = GaussianField(1.0, waves=20, rms=1.0).sample(grid, rng=rng, count=25)
    pairs = Pairs.from_arrays(loads, law.solve(loads), grid=grid, noise=0.0)
    errors = {}
    for name in ("elliptic", "drift"):
        torch.manual_seed(0)
        model = ConditionedNIPS(dimension=2, **PRIORS[name]).double().eval().requires_grad_(False)
        kernel = model(pairs.take(slice(0, 20)))
        later = pairs.take(slice(20, 25))
        errors[name] = float((kernel @ later.loads - later.responses).norm() / later.responses.norm())
    assert errors["drift"] <= 5e-3
    assert errors["drift"] <= errors["elliptic"] / 5


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [((33,), (Dirichlet(),)), ((9, 10), (Dirichlet(), Periodic())), ((7, 6, 7), (Dirichlet(), Neumann(), Dirichlet()))],
    ids=["1d", "2d_mixed", "3d"],
)
def test_other_dimensions_and_boundaries(name, shape, kinds):
    grid = Grid(tuple(Axis(nodes, 1.5, kind) for nodes, kind in zip(shape, kinds, strict=True)))
    pairs, _ = darcy_pairs(grid=grid, count=6, waves=4)
    kernel = model_of(name, dimension=grid.dimension)(pairs)
    assert gap(kernel @ pairs.loads, pairs.responses) <= 1e-6
    assert kernel.dense().shape == (grid.size, grid.size)


def test_fields_of_two_components():
    generator = torch.Generator().manual_seed(0)
    grid = Grid.uniform(9)
    loads, responses = (torch.randn(2, 5, 2, 9, 9, generator=generator, dtype=torch.float64) for _ in range(2))
    responses = responses * torch.tensor(grid.unknown)
    pairs = Pairs(grid, loads, responses, noise=0.0)
    kernel = model_of("gated", components=(2, 2))(pairs)
    assert (kernel.batch, kernel.components) == ((2,), (2, 2))
    assert gap(kernel @ loads, responses) <= 1e-6
    with pytest.raises(PairsError) as error:
        ConditionedNIPS(dimension=2, components=(2, 2))
    assert error.value.got == (2, 2)


def test_systems_of_a_batch_do_not_see_each_other(name):
    first, second = (darcy_pairs(seed=seed)[0] for seed in (1, 2))
    both = Pairs(
        first.grid,
        torch.stack([first.loads, second.loads]),
        torch.stack([first.responses, second.responses]),
        noise=0.0,
    )
    model = model_of(name)
    kernel = model(both)
    assert gap(kernel.dense()[1], model(second).dense()) <= 1e-10
    assert gap(kernel.system(1).dense(), kernel.dense()[1]) <= 1e-13


def test_gradients_reach_every_weight(name):
    pairs, _ = darcy_pairs()
    pairs = with_white_noise(pairs, share=0.02, seed=1)
    model = model_of(name).requires_grad_(True)
    (model(pairs) @ pairs.loads - pairs.responses).square().sum().backward()
    missing = [
        key for key, value in model.named_parameters() if value.grad is None or not torch.isfinite(value.grad).all()
    ]
    assert not missing


def test_variance_counts_what_was_not_seen(name):
    pairs, _ = darcy_pairs(count=20)
    kernel = model_of(name)(pairs.take(slice(0, 12)))
    seen, unseen = kernel.unseen_share(pairs.loads[:12]), kernel.unseen_share(pairs.loads[12:])
    assert float(seen.max()) <= 1e-8
    assert 1e-3 < float(unseen.min()) <= float(unseen.max()) <= 1
    fewer = model_of(name)(pairs.take(slice(0, 4)))
    assert bool((fewer.variance(pairs.loads[12:]) >= kernel.variance(pairs.loads[12:])).all())


def test_noise_is_estimated_where_nobody_gives_it():
    pairs, _ = darcy_pairs(21, count=20, waves=20)
    noisy = with_white_noise(pairs, share=0.02, seed=5)
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=2).double().eval().requires_grad_(False)
    told, guessed = model(noisy), model(replace(noisy, noise=None))
    assert float(guessed.subspace.noise) == pytest.approx(float(told.subspace.noise), rel=0.3)
    assert gap(guessed.dense(), told.dense()) <= 0.02


def test_pairs_that_do_not_fit_are_refused():
    grid = Grid((Axis(9),))
    pairs, _ = darcy_pairs(grid=grid, count=3, waves=4)
    with pytest.raises(PairsError) as error:
        model_of("elliptic")(pairs)
    assert error.value.got == "1 and (1, 1)"


def test_iterated_solves_equal_dense_ones(monkeypatch):
    from nipde.discretisation import operator

    grid = Grid.uniform(15)
    generator = torch.Generator().manual_seed(0)
    log = torch.randn(2, 15, 15, generator=generator, dtype=torch.float64)
    loads = torch.randn(2, 3, 1, 15, 15, generator=generator, dtype=torch.float64)
    for drift in (None, 5 * torch.randn(2, 2, 15, 15, generator=generator, dtype=torch.float64)):
        kernel = EllipticKernel(grid, log, torch.ones(2, dtype=torch.float64), drift)
        expected = kernel @ loads, kernel.T @ loads
        monkeypatch.setattr(operator, "DENSE_UNKNOWNS", 0)
        assert gap(kernel @ loads, expected[0]) <= 1e-9
        assert gap(kernel.T @ loads, expected[1]) <= 1e-9
        monkeypatch.undo()


def test_an_elliptic_kernel_is_the_law_it_holds():
    pairs, rock = darcy_pairs(13, count=3)
    kernel = EllipticKernel(pairs.grid, torch.tensor(rock).log(), torch.ones((), dtype=torch.float64))
    assert gap(kernel @ pairs.loads, pairs.responses) <= 1e-12


def test_nodes_that_were_not_measured_are_left_to_the_kernel():
    pairs, _ = darcy_pairs(21, count=30, waves=20)
    seen = torch.rand(20, 1, 21, 21, generator=torch.Generator().manual_seed(0)) > 0.15
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=2).double().eval().requires_grad_(False)
    context, later = pairs.take(slice(0, 20)), pairs.take(slice(20, 30))
    masked = replace(context, mask=seen, responses=torch.where(seen, context.responses, torch.nan))
    kernel = model(masked)
    error = (kernel @ later.loads - later.responses).norm() / later.responses.norm()
    assert error <= 0.02
    measured = torch.where(seen, kernel @ context.loads - context.responses, 0)
    assert float(measured.abs().max() / context.responses.abs().max()) <= 1e-6


def test_noise_of_loads_is_taken_into_account():
    pairs, _ = darcy_pairs(13, count=40)
    both = Pairs(pairs.grid, pairs.loads[None], pairs.responses[None])
    noisy = with_white_noise_each(both.take(slice(0, 30)), share=0.0, load_share=0.1, seeds=[3])
    later = both.take(slice(30, 40))
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=2).double().eval().requires_grad_(False)
    errors = [
        float((model(given) @ later.loads - later.responses).norm() / later.responses.norm())
        for given in (noisy, replace(noisy, load_noise=None))
    ]
    assert errors[0] <= 0.05
    assert errors[0] <= errors[1]


def test_covariance_agrees_with_variance(name):
    pairs, _ = darcy_pairs(count=20)
    kernel = model_of(name)(pairs.take(slice(0, 6)))
    loads = pairs.loads[6:]
    covariance = kernel.covariance(loads, loads)
    assert gap(covariance.diagonal(dim1=-2, dim2=-1), kernel.variance(loads)) <= 1e-10
    assert float(torch.linalg.eigvalsh(covariance).min()) >= -1e-10 * float(covariance.max())


def test_pairs_come_to_the_precision_of_the_weights(name):
    pairs, _ = darcy_pairs()
    model = model_of(name)
    kernel = model.float()(pairs)
    assert (kernel @ pairs.loads).dtype == torch.float32
    assert gap((kernel @ pairs.loads).double(), pairs.responses) <= 1e-4


def test_without_a_dirichlet_side_there_is_no_law_to_solve():
    grid = Grid((Axis(9, boundary=Neumann()), Axis(9, boundary=Periodic())))
    fields = torch.randn(2, 4, 1, 9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pairs = Pairs(grid, *fields, noise=0.0)
    with pytest.raises(PairsError) as error:
        model_of("elliptic")(pairs)
    assert error.value.expected == "a Dirichlet axis"
    assert gap(model_of("gated")(pairs) @ pairs.loads, pairs.responses) <= 1e-6


def test_what_is_found_does_not_depend_on_whether_gradients_are_recorded(name):
    pairs, _ = darcy_pairs()
    pairs = with_white_noise(pairs, share=0.02, seed=1)
    model = model_of(name)
    kernel = model(pairs)
    with torch.no_grad():
        again = model(pairs)
    learning = model.requires_grad_(True)(pairs)
    for other in (again, learning):
        assert gap(other.dense().detach(), kernel.dense()) <= 1e-12
        if kernel.coefficient is not None:
            assert gap(other.coefficient.detach(), kernel.coefficient) <= 1e-12


@pytest.mark.parametrize("axis", [0, 1])
def test_odd_terms_are_a_convolution_times_the_way_between_two_places(axis):
    pairs, _ = darcy_pairs(grid=Grid((Axis(7), Axis(5))))
    pairs, model = pairs.along_one_axis(), model_of("gated, drift", terms=1)
    prior, first = model.prior, 1 + ODD * axis  # the first odd term along the axis
    last, waves = prior.net.out[-1], prior.multipliers.outer
    last.weight.zero_()
    last.bias.zero_()  # all gates are at rest: odd ones say nothing
    prior.starts[0], waves.weight[0], waves.bias[0] = prior.starts[first], waves.weight[first], waves.bias[first]
    whitened = model._whitened(pairs, model._noise(pairs))
    even = prior.with_fields(whitened)[0].dense()[0]
    last.bias[first] = 1 / REACH
    odd = prior.with_fields(whitened)[0].dense()[0] - even
    place = torch.tensor(pairs.grid.coordinates[axis]).flatten()
    torch.testing.assert_close(even, even.mT)
    torch.testing.assert_close(odd, (place[:, None] - place) * even)


@pytest.mark.parametrize("name", ["gated", "gated, drift"])
def test_a_gated_prior_keeps_the_longest_waves_on_every_grid(name):
    every, few = model_of(name), model_of(name, modes=(4, 9))
    for nodes in (8, 13):
        pairs, _ = darcy_pairs(nodes)
        kernels = [model.train()(pairs).prior for model in (every, few)]  # in training, none is replaced
        whole, cut = (kernel.multipliers for kernel in kernels)
        assert torch.equal(cut[:, :4, :9], whole[:, :4, :9])
        assert whole.abs().min() > 0
        assert int((cut != 0).sum()) == len(whole) * 4 * min(9, nodes - 2)


@pytest.mark.parametrize(("name", "modes"), [("elliptic", (4, 4)), ("gated", (4,)), ("gated", (4, 4, 4))])
def test_modes_that_do_not_fit_are_refused(name, modes):
    with pytest.raises(PairsError, match="expected modes of prior='gated', along each of 2 axes, got"):
        model_of(name, modes=modes)
