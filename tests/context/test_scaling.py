"""Units: what an estimator sees is the same in every unit, and the kernel carries the units back."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nipde.boundary import Neumann, Periodic
from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.errors import PairsError
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel

LINE = Grid((Axis(7, 1.3),))
PLANE = Grid((Axis(5, 1.3), Axis(4, 2.5, Periodic())))
SPACE = Grid((Axis(5, 1.3), Axis(4, 2.5, Neumann()), Axis(3, 0.7, Periodic())))

every_grid = pytest.mark.parametrize("grid", [LINE, PLANE, SPACE], ids=lambda grid: f"{grid.dimension}d")
every_batch = pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def some(grid=PLANE, *, batch=(), mask=None, noise=None):
    """Pairs of very different size from system to system."""
    sizes = 10.0 ** torch.arange(int(np.prod(batch)), dtype=torch.float64).reshape(batch)
    loads, responses = normal(*batch, 6, 3, *grid.shape, seed=1), normal(*batch, 6, 2, *grid.shape, seed=2)
    return Pairs(grid, loads, responses, mask, noise).scaled(load=7 * sizes, response=0.03 / sizes)


def slow_rms(field, grid):
    """Of one system: the root of the mean over pairs and components of ∫ f² dx / volume."""
    each = [float(grid.integrate(component**2)) / grid.volume for pair in field for component in pair]
    return np.sqrt(np.mean(each))


def distance(found, expected):
    return float((found - expected).norm() / expected.norm())


@every_grid
@every_batch
def test_it_is_the_root_mean_square_over_the_volume(grid, batch):
    pairs = some(grid, batch=batch)
    scaling = Scaling.of(pairs)
    assert scaling.load.shape == scaling.response.shape == batch
    for place in np.ndindex(batch):
        assert float(scaling.load[place]) == pytest.approx(slow_rms(pairs.loads[place], grid), rel=1e-14)
        assert float(scaling.response[place]) == pytest.approx(slow_rms(pairs.responses[place], grid), rel=1e-14)


@every_grid
@every_batch
def test_normalised_pairs_have_unit_size(grid, batch):
    pairs = some(grid, batch=batch)
    normalised = Scaling.of(pairs).normalised(pairs)
    for place in np.ndindex(batch):
        assert slow_rms(normalised.loads[place], grid) == pytest.approx(1, rel=1e-14)
        assert slow_rms(normalised.responses[place], grid) == pytest.approx(1, rel=1e-14)


def test_nothing_is_shifted():
    pairs = some()
    normalised = Scaling.of(pairs).normalised(pairs)
    for name in ("loads", "responses"):
        ratio = getattr(normalised, name) / getattr(pairs, name)
        assert float(ratio.max() / ratio.min()) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("shape", [(5, 4), (6, 2, 5, 4), (3, 6, 1, 5, 4)], ids=["nodes", "own", "by_system"])
@pytest.mark.parametrize("hidden", [torch.nan, torch.inf, 1e300], ids=str)
def test_masked_nodes_do_not_count(shape, hidden):
    mask = normal(*shape, seed=9) > 0
    whole = some(batch=(3,))
    missing = ~mask.expand(whole.responses.shape)
    pairs = Pairs(PLANE, whole.loads, torch.where(missing, hidden, whole.responses), mask)
    scaling = Scaling.of(pairs)
    weights = torch.tensor(PLANE.weights) * ~missing
    expected = ((whole.responses**2 * weights).flatten(1).sum(1) / weights.flatten(1).sum(1)) ** 0.5
    assert distance(scaling.response, expected) < 1e-15
    assert torch.equal(scaling.load, Scaling.of(whole).load)
    assert distance(scaling.response, Scaling.of(whole).response) > 1e-3
    assert torch.isfinite(scaling.normalised(pairs).responses[~missing]).all()


def test_a_mask_that_hides_nothing_changes_nothing():
    whole = some(batch=(3,))
    masked = Scaling.of(Pairs(PLANE, whole.loads, whole.responses, torch.ones(5, 4, dtype=torch.bool)))
    assert distance(masked.response, Scaling.of(whole).response) < 1e-15


units = st.floats(1e-12, 1e12)


@settings(max_examples=60, deadline=None)
@given(load=units, response=units, batch=st.sampled_from([(), (3,)]), grid=st.sampled_from([LINE, PLANE, SPACE]))
def test_a_change_of_units_changes_only_the_factor_of_the_kernel(load, response, batch, grid):
    pairs = some(grid, batch=batch, noise=0.2)
    other = pairs.scaled(load=load, response=response)
    before, after = Scaling.of(pairs), Scaling.of(other)
    seen, seen_after = before.normalised(pairs), after.normalised(other)
    assert distance(seen_after.loads, seen.loads) < 1e-15
    assert distance(seen_after.responses, seen.responses) < 1e-15
    assert distance(seen_after.noise, seen.noise) < 1e-15
    assert distance(after.kernel, before.kernel * (response / load)) < 2e-15


def test_a_unit_that_is_a_power_of_two_changes_not_a_bit():
    pairs = some(batch=(3,))
    other = pairs.scaled(load=2.0**40, response=torch.tensor([2.0**-30, 2.0, 2.0**7]))
    seen, seen_after = (Scaling.of(each).normalised(each) for each in (pairs, other))
    assert torch.equal(seen.loads, seen_after.loads)
    assert torch.equal(seen.responses, seen_after.responses)


@pytest.mark.parametrize("unit", [1e-25, 1e-15, 1e15, 1e25], ids=str)
def test_float32_knows_units_whose_square_it_cannot_hold(unit):
    pairs = some(batch=(3,)).to(dtype=torch.float32)
    other = pairs.scaled(load=unit, response=unit)
    seen, seen_after = (Scaling.of(each).normalised(each) for each in (pairs, other))
    assert seen_after.loads.dtype == torch.float32
    assert distance(seen_after.loads, seen.loads) < 1e-6
    assert distance(seen_after.responses, seen.responses) < 1e-6


@every_batch
def test_the_kernel_of_normalised_pairs_acts_on_physical_ones_after_scaling(batch):
    law = DenseKernel(PLANE, normal(*batch, 2 * PLANE.size, 3 * PLANE.size, seed=4))
    loads = some(batch=batch).loads
    pairs = Pairs(PLANE, loads, law @ loads)
    scaling = Scaling.of(pairs)
    seen = scaling.normalised(pairs)
    # The law in normalised units, found by hand: response' = response / r, load' = load / l, so K' = K l / r.
    normalised_law = law * (scaling.load / scaling.response)
    assert distance(normalised_law @ seen.loads, seen.responses) < 1e-14
    assert distance((normalised_law * scaling.kernel) @ pairs.loads, pairs.responses) < 1e-14
    assert distance((normalised_law * scaling.kernel).dense(), law.dense()) < 1e-15


@pytest.mark.parametrize("which", ["loads", "responses"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
def test_zeros_have_no_unit(which, batch):
    fields = {"loads": some(batch=batch).loads.clone(), "responses": some(batch=batch).responses.clone()}
    fields[which][(1,) if batch else ...] = 0
    with pytest.raises(PairsError) as error:
        Scaling.of(Pairs(PLANE, **fields))
    assert which in error.value.message
    fields[which][..., 2, 0, 1, 2] = 1e-9
    assert float(getattr(Scaling.of(Pairs(PLANE, **fields)), which[:-1]).min()) > 0


def test_responses_that_are_zero_wherever_measured_have_no_unit():
    mask = torch.zeros(5, 4, dtype=torch.bool)
    mask[2, 1:3] = True
    whole = some()
    with pytest.raises(PairsError) as error:
        Scaling.of(Pairs(PLANE, whole.loads, whole.responses * ~mask, mask))
    assert "responses" in error.value.message


@pytest.mark.parametrize("noise", [0.2, torch.tensor([0.2, 0.4, 0.0]).double()], ids=["shared", "by_system"])
def test_noise_scales_with_the_responses(noise):
    whole = some(batch=(3,))
    pairs = Pairs(PLANE, whole.loads, whole.responses, noise=noise)
    scaling = Scaling.of(pairs)
    found = scaling.normalised(pairs).noise
    assert found.shape == (3,)
    assert distance(found, noise / scaling.response) < 1e-15
    assert scaling.normalised(whole.scaled(load=5)).noise is None
