"""Conditioned NIPS on laws that are not linear: a body, or a network beside the kernel; corrected where linear."""

import numpy as np
import pytest
import torch

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS, gcv_weights
from nipde.estimators.conditioned.prior import PriorEstimate
from nipde.estimators.conditioned.whitening import whiten
from nipde.estimators.inverse.elastic_adjoint import ElasticGaussNewton
from nipde.estimators.inverse.elastic_balance import ElasticBalance
from nipde.grid import Grid
from nipde.kernels.base import Kernel
from nipde.kernels.body import BodyPredictor
from nipde.physics.bodies import NeoHookean, TwoSegmentTissue
from nipde.physics.materials import Fibres
from nipde.physics.random_fields import PowerLawField
from nipde.spectral.partition import Partition
from nipde.spectral.slab_transform import SlabTransform

GRID = Grid.uniform(9, length=8.0)


def specimen(*, count=10, seed=0, size=0.05, stiff=5.0):
    modulus = np.where(np.add.outer(np.arange(8), np.arange(8)) % 5 < 2, stiff, 1.0)
    fields = PowerLawField().sample(GRID, rng=np.random.default_rng(seed), count=2 * count)
    loads = size * fields.reshape(count, 2, *GRID.shape)
    return Pairs.from_arrays(loads, NeoHookean(GRID, modulus).solve(loads), grid=GRID)


@pytest.fixture(scope="module")
def both():
    return specimen(), specimen(count=4, seed=1)


def headed(seed=0, *, away=True):
    torch.manual_seed(seed)
    model = ConditionedNIPS(dimension=2, components=(2, 2), prior="gated", head=True, channels=8, terms=4).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * away * torch.randn_like(parameter))
    return model


def elastic():
    return ConditionedNIPS(dimension=2, components=(2, 2), prior="elastic").double()


def relative(found, expected):
    return float(((found - expected).norm() / expected.norm()).detach())


def test_a_body_needs_no_training(both):
    context, queries = both
    found = elastic()(context)
    assert not found.linear
    assert relative(found @ queries.loads, queries.responses) < 1e-6


@pytest.mark.parametrize("model", [elastic(), headed()], ids=["elastic", "gated"])
def test_the_order_of_pairs_does_not_matter(model, both):
    context, queries = both
    turned = context.take(torch.randperm(context.count, generator=torch.Generator().manual_seed(0)))
    one, other = (model(pairs) @ queries.loads for pairs in (context, turned))
    assert relative(one, other) < 1e-9


def test_a_head_is_silent_at_the_start_and_not_linear_later(both):
    context, queries = both
    loads = queries.loads
    fresh, moved = headed(away=False)(context), headed()(context)
    assert relative(fresh @ (2 * loads), 2 * (fresh @ loads)) < 1e-12
    assert relative(moved @ (2 * loads), 2 * (moved @ loads)) > 1e-6
    assert float((moved @ torch.zeros_like(loads)).detach().abs().max()) < 1e-15  # at rest nothing moves
    assert isinstance(moved.kernel, Kernel)


def test_units_of_length_and_force_do_not_matter_to_a_head(both):
    """A displacement has the unit of length: strains stay."""
    context, queries = both
    model = headed()
    wide = GRID.stretched(1000.0)
    there = Pairs(wide, context.loads * 3 / 1000, context.responses * 1000)
    expected = model(context) @ queries.loads
    assert relative(model(there) @ (queries.loads * 3 / 1000), 1000 * expected) < 1e-6


def test_every_parameter_learns(both):
    context, queries = both
    model = headed()
    (model(context) @ queries.loads).square().sum().backward()
    silent = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    # Without noise nothing weighs it, and the correction is all or nothing in its smoothness.
    assert set(silent) <= {"balance"}
    assert float(model.head.inner.weight.grad.abs().max()) > 0


def test_what_is_linear_is_kept_and_chance_is_not():
    rng = torch.Generator().manual_seed(0)
    grid = Grid.uniform(9)
    loads = torch.randn(1, 30, 1, *grid.shape, generator=rng, dtype=torch.float64)
    loads[..., 0, :] = loads[..., -1, :] = loads[..., 0] = loads[..., -1] = 0
    chance = torch.randn(1, 30, 1, *grid.shape, generator=rng, dtype=torch.float64)
    whitened = whiten(
        loads, chance, waves=SlabTransform(Partition(grid)), metric=torch.ones(7, 7, dtype=torch.float64),
        noise=torch.zeros(1).double(), balance=torch.tensor(1.0).double(),
    )  # fmt: skip
    strengths = whitened.strengths
    kept, score = gcv_weights(whitened.mixed(0.1 * loads), whitened)
    assert float((kept * strengths).min()) > 0.99
    assert float(score) < 0.9 * float((0.1 * loads).square().sum())
    kept, score = gcv_weights(whitened.mixed(chance), whitened)
    assert float((kept * strengths).max()) < 0.3
    assert float(score) == pytest.approx(float(chance.square().sum()), rel=0.1)


def test_with_noise_the_body_that_moves_most_alike_is_taken(both):
    queries = specimen(count=4, seed=1, stiff=500.0)
    noisy = with_white_noise(specimen(count=40, stiff=500.0), share=0.02, seed=0)
    errors = [
        relative(estimator(noisy) @ queries.loads, queries.responses) for estimator in (ElasticBalance(), elastic())
    ]
    assert errors[1] < 0.02 < 0.5 < errors[0]


def test_a_body_that_explains_less_than_a_linear_map_is_not_believed(both):
    """Pushed along x it moves along y, pushed along y against x: no elastic body does."""
    context, _ = both
    loads = specimen(count=40).loads
    free = torch.tensor(GRID.unknown)
    strange = Pairs(
        GRID, loads, 0.1 * free * loads.flip(1) * torch.tensor([1.0, -1.0]).double()[:, None, None], noise=0.0
    )
    found = elastic()(strange)
    assert float(found.alone.kernel.factor) == 0
    assert relative(found @ strange.loads, strange.responses) < 0.3
    assert float(elastic()(context).alone.kernel.factor) == 1


def test_a_head_that_explains_less_than_its_kernel_is_silenced(both):
    """As under loads far larger than those it has learned from; in training it always speaks."""
    context, queries = both
    model = headed()
    with torch.no_grad():
        model.head.outer.weight.mul_(1e4)
    silenced = model.eval()(context)
    assert bool(silenced.alone.linear_only.all())
    assert relative(silenced @ (2 * queries.loads), 2 * (silenced @ queries.loads)) < 1e-12
    loud = model.train()(context)
    assert loud.alone.linear_only is None
    assert relative(loud @ queries.loads, queries.responses) > 10 * relative(
        silenced @ queries.loads, queries.responses
    )


def test_displacements_are_asked_only_where_they_can_say_more(monkeypatch):
    """Fibres that stiffen are not in the form, which forces meet to a few parts in a thousand: close enough."""
    tissue = TwoSegmentTissue(GRID, (0.5, 2.2), np.pi / 2, 0.4, 0.3, Fibres(0.1, 1.5))
    fields = PowerLawField().sample(GRID, rng=np.random.default_rng(0), count=40)
    loads = 0.02 * fields.reshape(20, 2, *GRID.shape)
    context = Pairs.from_arrays(loads, tissue.solve(loads), grid=GRID)
    asked = []
    monkeypatch.setattr(
        ElasticGaussNewton, "body", lambda self, pairs: asked.append(pairs) or ElasticBalance().body(pairs)
    )
    elastic()(context)
    assert not asked
    elastic()(with_white_noise(context, share=0.001, seed=0))
    assert len(asked) == 1


def test_a_body_that_does_not_stand_its_loads_is_not_believed(both, monkeypatch):
    context, _ = both
    soft = NeoHookean(GRID, np.full((8, 8), 1e-4))
    assert not np.isfinite(soft.attempt(context.loads.numpy())[0]).all()
    model = elastic()
    body = BodyPredictor.of([soft], like=context.loads.new_ones(1))
    monkeypatch.setattr(model.prior, "forward", lambda whitened, pairs: PriorEstimate(body.kernel, nonlinear=body))
    found = model(context)
    assert float(found.alone.kernel.factor) == 0
    assert torch.isfinite(found @ context.loads).all()


@pytest.mark.parametrize("model", [elastic(), headed()], ids=["elastic", "gated"])
def test_the_kernel_is_what_is_linear_of_the_answer(model, both):
    """On the pairs' own grid and batch, however the systems were folded."""
    context, queries = both
    softer = specimen(stiff=2.0)  # under the same loads
    batch = Pairs(GRID, torch.stack([context.loads] * 2), torch.stack([context.responses, softer.responses]))
    with torch.no_grad():
        found = model.eval()(batch)
        small = 1e-6 * queries.loads
        assert (found.kernel.grid, found.kernel.batch) == (GRID, (2,))
        assert relative(found @ small, found.kernel @ small) < 1e-3
        single = model(context)
        assert (single.kernel.grid, single.kernel.batch) == (GRID, ())
        assert relative(single @ small, single.kernel @ small) < 1e-3
        assert relative(single.kernel @ small, (found.kernel @ small)[0]) < 1e-6


def test_what_does_not_fit_is_refused(both):
    with pytest.raises(PairsError) as error:
        ConditionedNIPS(dimension=2, components=(2, 2), prior="elastic", head=True)
    assert "elastic" in error.value.got
    context, _ = both
    mask = torch.ones_like(context.responses, dtype=torch.bool)
    mask[..., ::2] = False
    with pytest.raises(PairsError) as error:
        headed()(Pairs(GRID, context.loads, context.responses, mask))
    assert error.value.got == f"{float(mask.double().mean()):.1%} measured"
