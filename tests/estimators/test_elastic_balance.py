"""Balance of forces: what a body is made of, to rounding; blind to the order of pairs and to units."""

import numpy as np
import pytest
import torch

from nipde.boundary import Neumann
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.discovery.fibres import angle_between, two_segments
from nipde.errors import PairsError
from nipde.estimators.inverse.elastic_balance import ElasticBalance
from nipde.grid import Axis, Grid
from nipde.kernels.base import Kernel
from nipde.physics.bodies import NeoHookean, TwoSegmentTissue
from nipde.physics.materials import Fibres
from nipde.physics.random_fields import PowerLawField

GRID = Grid.uniform(13)
YOUNG = np.where(np.add.outer(np.arange(12), np.arange(12)) > 11, 20.0, 1.0)
ANGLES, LINE = (0.5, 2.2), 1.0


def pairs_of(body, *, count=12, size=0.3, seed=0):
    fields = PowerLawField().sample(body.grid, rng=np.random.default_rng(seed), count=2 * count)
    loads = size * fields.reshape(count, 2, *body.grid.shape)
    return Pairs.from_arrays(loads, body.solve(loads), grid=body.grid)


@pytest.fixture(scope="module")
def stiff():
    body = NeoHookean(GRID, YOUNG, 0.3)
    return pairs_of(body, size=3.0), pairs_of(body, size=3.0, count=4, seed=1)


@pytest.fixture(scope="module")
def tissue():
    body = TwoSegmentTissue(Grid.uniform(21), ANGLES, LINE, 0.4, 0.3, Fibres(0.1, 0.5))
    return pairs_of(body, count=40, size=0.1), pairs_of(body, count=4, size=0.1, seed=1)


def relative(found, expected):
    return float((found - expected).norm() / expected.norm())


def test_a_matrix_is_found_to_rounding(stiff):
    context, queries = stiff
    found = ElasticBalance()(context)
    (body,) = found.bodies
    np.testing.assert_allclose(body.young, YOUNG, rtol=1e-6)
    assert len(body.angles) == 0
    assert not found.linear
    assert relative(found @ queries.loads, queries.responses) < 1e-6


def test_three_pairs_are_enough_without_noise(stiff):
    np.testing.assert_allclose(ElasticBalance().body(stiff[0].take(range(3))).young, YOUNG, rtol=1e-4)


def test_the_order_of_pairs_does_not_matter(stiff):
    context, queries = stiff
    turned = context.take(torch.randperm(context.count, generator=torch.Generator().manual_seed(0)))
    one, other = (ElasticBalance()(pairs) @ queries.loads for pairs in (context, turned))
    assert relative(one, other) < 1e-10


def test_units_of_force_scale_the_moduli(stiff):
    found = ElasticBalance().body(stiff[0].scaled(load=1000.0))
    np.testing.assert_allclose(found.young, 1000 * YOUNG, rtol=1e-6)


def test_small_strains_give_a_kernel(stiff):
    found = ElasticBalance(finite=False)(stiff[0].scaled(response=1e-3, load=1e-3))
    assert isinstance(found, Kernel)
    one, other = stiff[1].loads[:1], stiff[1].loads[1:2]
    assert relative(found @ (one + 2 * other), found @ one + 2 * (found @ other)) < 1e-10


def test_fibres_are_found_where_they_are(tissue):
    context, queries = tissue
    found = ElasticBalance()(context)
    (body,) = found.bodies
    assert len(body.angles) == 1  # neither a matrix alone nor a fan
    segments = two_segments(body)
    assert max(angle_between(*both) for both in zip(segments.angles, ANGLES, strict=True)) < np.radians(1)
    assert angle_between(segments.line, LINE) < np.radians(3)
    without = ElasticBalance(fan=0)(context)
    errors = [relative(which @ queries.loads, queries.responses) for which in (found, without)]
    assert errors[0] < 0.01 < 0.05 < errors[1]


def test_noise_is_survived_if_not_well(stiff):
    """No promise but a body that stands: forces are second derivatives of what was measured."""
    noisy = with_white_noise(stiff[0], share=0.01, seed=0)
    assert np.isfinite(ElasticBalance().body(noisy).young).all()


def test_systems_of_a_batch_are_found_each(stiff):
    context, queries = stiff
    both = Pairs(GRID, torch.stack([context.loads] * 2), torch.stack([context.responses, 2 * context.responses]))
    found = ElasticBalance(finite=False)(both)
    answers = found.predict(torch.stack([queries.loads] * 2))
    assert relative(answers[1], 2 * answers[0]) < 1e-6


def test_pairs_of_no_plane_body_with_a_dirichlet_boundary_are_refused(stiff):
    context, _ = stiff
    scalar = Pairs(GRID, context.loads[:, :1], context.responses[:, :1])
    free = Pairs(Grid((Axis(13, 1.0, Neumann()), Axis(13, 1.0))), context.loads, context.responses)
    for pairs in (scalar, free):
        with pytest.raises(PairsError) as error:
            ElasticBalance()(pairs)
        assert "both Dirichlet" in error.value.expected
    with pytest.raises(PairsError) as error:
        ElasticBalance()(Pairs(GRID, context.loads, context.responses * torch.nan))
    assert error.value.expected == "finite displacements"
    for nothing in (
        Pairs(GRID, 0 * context.loads, context.responses),
        Pairs(GRID, context.loads, 0 * context.responses),
    ):
        with pytest.raises(PairsError) as error:
            ElasticBalance()(nothing)
        assert error.value.got == "zeros only"
