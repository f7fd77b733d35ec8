"""Pairs: every way to hand them over that is right, and an error that names the axis for every way that is wrong."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nipde.boundary import Neumann
from nipde.context.pairs import Pairs
from nipde.errors import PairsError, ShapeError
from nipde.grid import Axis, Grid

LINE = Grid((Axis(7, 1.3),))
PLANE = Grid((Axis(5, 1.3), Axis(4, 2.5, Neumann())))
SPACE = Grid((Axis(5), Axis(4), Axis(3)))
GRIDS = [LINE, PLANE, SPACE]

every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.dimension}d")


def normal(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def some(grid=PLANE, *, batch=(), count=6, components=(2, 3), mask=None, noise=None):
    responses, loads = (normal(*batch, count, number, *grid.shape, seed=seed) for seed, number in enumerate(components))
    return Pairs(grid, loads, responses, mask, noise)


def random_mask(*shape):
    return normal(*shape, seed=9) > 0


# From arrays


@every_grid
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_scalar_fields_need_no_component_axis(grid, kind):
    loads, responses = (normal(6, *grid.shape, seed=seed).numpy() for seed in (1, 2))
    pairs = Pairs.from_arrays(kind(loads), kind(responses), grid=grid)
    assert (pairs.count, pairs.batch, pairs.components) == (6, (), (1, 1))
    assert np.array_equal(pairs.loads[:, 0].numpy(), loads)
    assert np.array_equal(pairs.responses[:, 0].numpy(), responses)


@every_grid
def test_the_shorthand_is_per_field(grid):
    pairs = Pairs.from_arrays(normal(6, 2, *grid.shape), normal(6, *grid.shape), grid=grid)
    assert pairs.components == (1, 2)
    assert pairs.responses.shape == (6, 1, *grid.shape)


@every_grid
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_axes_in_front_of_the_pairs_are_a_batch(grid, batch):
    loads, responses = normal(*batch, 6, 3, *grid.shape), normal(*batch, 6, 2, *grid.shape)
    pairs = Pairs.from_arrays(loads.numpy(), responses.numpy(), grid=grid)
    assert (pairs.count, pairs.batch, pairs.components) == (6, batch, (2, 3))
    assert torch.equal(pairs.loads, loads)
    assert torch.equal(pairs.responses, responses)


@pytest.mark.parametrize(
    ("given_kind", "kept"),
    [("int64", "float64"), ("int8", "float64"), ("bool", "float64"), ("float32", "float32"), ("float64", "float64")],
)
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_whole_numbers_become_float64_and_floats_stay(given_kind, kept, kind):
    values = np.arange(14).reshape(2, 7).astype(given_kind)
    pairs = Pairs.from_arrays(kind(values), kind(values), grid=LINE)
    assert pairs.loads.dtype == pairs.responses.dtype == getattr(torch, kept)
    assert np.array_equal(pairs.loads[:, 0].numpy(), values)


def test_pairs_do_not_change_when_the_array_does():
    loads = np.ones((6, 7))
    pairs = Pairs.from_arrays(loads, np.ones((6, 7)), grid=LINE)
    loads[:] = 5
    assert float(pairs.loads.max()) == 1


@pytest.mark.parametrize("turn", [lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a.astype(">f8")],
                         ids=["pairs_reversed", "x_reversed", "big_endian"])  # fmt: skip
def test_any_memory_order_of_numpy_is_read(turn):
    loads = turn(normal(6, 7).numpy())
    assert np.array_equal(Pairs.from_arrays(loads, loads, grid=LINE).loads[:, 0].numpy(), loads)


def test_complex_fields_are_refused():
    with pytest.raises(PairsError) as error:
        Pairs.from_arrays(np.ones((6, 7), dtype=complex), np.ones((6, 7)), grid=LINE)
    assert "torch.complex128" in str(error.value.got)


@pytest.mark.parametrize(
    ("shape", "read"),
    [((5, 4), (1, 1, 5, 4)), ((6, 5, 4), (6, 1, 5, 4)), ((6, 2, 5, 4), (6, 2, 5, 4)), ((1, 1, 5, 4), (1, 1, 5, 4))],
    ids=["nodes", "pair_and_nodes", "all", "ones"],
)
def test_masks_are_broadcast_over_the_responses(shape, read):
    mask, responses = random_mask(*shape), normal(6, 2, *PLANE.shape)
    missing = ~mask.reshape(read).expand(responses.shape)
    holes = torch.where(missing, torch.nan, responses)
    pairs = Pairs.from_arrays(normal(6, 3, *PLANE.shape), holes, grid=PLANE, mask=mask.numpy())
    assert torch.equal(~pairs.mask.expand(responses.shape), missing)
    with pytest.raises(PairsError) as error:
        Pairs.from_arrays(pairs.loads, holes, grid=PLANE)
    assert error.value.got.startswith(f"{int(missing.sum())} ")


# What is wrong is named


@pytest.mark.parametrize(
    ("loads", "responses", "field", "axis", "got"),
    [
        ((6, 2, 6, 4, 3), None, "loads", "axis x", "6 in"), ((6, 2, 5, 5, 3), None, "loads", "axis y", "5 in"),
        ((6, 2, 5, 4, 4), None, "loads", "axis z", "4 in"), (None, (6, 2, 6, 4, 3), "responses", "axis x", "6 in"),
        (None, (6, 2, 5, 5, 3), "responses", "axis y", "5 in"), (None, (6, 2, 5, 4, 4), "responses", "axis z", "4 in"),
        ((5, 4, 3, 6, 2), None, "loads", "axis x", "(*batch, pair, component, x, y, z)"),
        ((4, 5, 3), None, "loads", "axes", "(4, 5, 3)"), (None, (5, 4, 3), "responses", "axes", "(5, 4, 3)"),
        ((0, 1, 5, 4, 3), None, "loads", "axis pair", "0"), ((6, 0, 5, 4, 3), None, "loads", "axis component", "0"),
        (None, (6, 0, 5, 4, 3), "responses", "axis component", "0"), (None, (5, 2, 5, 4, 3), "responses", "", "(5,)"),
        ((3, 6, 2, 5, 4, 3), (2, 6, 2, 5, 4, 3), "responses", "", "(2, 6)"),
        ((3, 6, 2, 5, 4, 3), (6, 2, 5, 4, 3), "responses", "", "(6,)"),
        ((6, 2, 5, 4, 3), (3, 6, 2, 5, 4, 3), "responses", "", "(3, 6)"),
        ((6, 2, 2, 5, 4, 3), (6, 2, 5, 4, 3), "responses", "", "(6,)"),
    ],
)  # fmt: skip
def test_errors_name_the_axis(loads, responses, field, axis, got):
    right = (6, 2, 5, 4, 3)
    with pytest.raises(ShapeError) as error:
        Pairs.from_arrays(np.ones(loads or right), np.ones(responses or right), grid=SPACE)
    assert field in error.value.message
    assert axis in error.value.message
    assert got in str(error.value.got)


def test_swapped_axes_of_a_scalar_field_are_named():
    with pytest.raises(ShapeError) as error:
        Pairs.from_arrays(np.ones((6, 4, 5)), np.ones((6, 5, 4)), grid=PLANE)
    assert "(6, 1, 4, 5)" in error.value.got


def test_the_shorthand_is_for_arrays_only():
    with pytest.raises(ShapeError) as error:
        Pairs(LINE, normal(6, 7), normal(6, 7))
    assert error.value.got == "shape (6, 7)"


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf], ids=str)
@pytest.mark.parametrize("which", ["loads", "responses"])
def test_values_that_are_no_numbers_are_refused_with_their_place(which, bad):
    fields = {name: normal(3, 6, 2, *PLANE.shape) for name in ("loads", "responses")}
    fields[which][1, 4, 0, 3, 2] = fields[which][2, 0, 0, 0, 0] = bad
    with pytest.raises(PairsError) as error:
        Pairs.from_arrays(**fields, grid=PLANE)
    assert which in error.value.message
    assert error.value.got.startswith("2 ")
    assert "{'batch axis 0': 1, 'pair': 4, 'component': 0, 'x': 3, 'y': 2}" in error.value.got


def test_a_mask_hides_missing_responses_but_not_missing_loads():
    mask, holes = torch.ones(6, 1, 7, dtype=torch.bool), normal(6, 1, 7)
    mask[2, 0, 3] = False
    holes[2, 0, 3] = torch.nan
    hidden = Pairs.from_arrays(normal(6, 1, 7), holes, grid=LINE, mask=mask)
    assert torch.isnan(hidden.responses[2, 0, 3])
    with pytest.raises(PairsError) as error:
        Pairs.from_arrays(holes, normal(6, 1, 7), grid=LINE, mask=mask)
    assert "{'pair': 2, 'component': 0, 'x': 3}" in error.value.got
    holes[4, 0, 1] = torch.nan
    with pytest.raises(PairsError) as error:
        Pairs.from_arrays(normal(6, 1, 7), holes, grid=LINE, mask=mask)
    assert "{'pair': 4, 'component': 0, 'x': 1}" in error.value.got


@pytest.mark.parametrize(
    "mask",
    [np.ones((5, 1, 7), bool), np.ones((3, 6, 2, 7), bool), np.ones((6, 2, 6), bool), np.ones((6, 2, 7), int)],
    ids=["pairs", "more_axes", "nodes", "integers"],
)
def test_masks_that_do_not_fit_are_refused(mask):
    with pytest.raises(ShapeError) as error:
        Pairs.from_arrays(np.ones((6, 1, 7)), np.ones((6, 2, 7)), grid=LINE, mask=mask)
    assert "(6, 2, 7)" in error.value.expected
    assert error.value.got == f"{torch.from_numpy(mask).dtype} of shape {mask.shape}"


def test_different_precisions_are_refused():
    with pytest.raises(PairsError) as error:
        Pairs(LINE, normal(6, 1, 7).float(), normal(6, 1, 7))
    assert error.value.got == "torch.float64 on cpu"


@pytest.mark.parametrize("noise", [-1e-9, float("nan"), torch.tensor([0.1, -0.1, 0.1])], ids=str)
def test_noise_below_zero_is_refused(noise):
    with pytest.raises(PairsError):
        some(batch=(3,), noise=noise)


def test_noise_of_other_systems_is_refused():
    assert some(batch=(3,), noise=torch.ones(3)).noise.shape == (3,)
    with pytest.raises(ShapeError) as error:
        some(batch=(3,), noise=torch.ones(2))
    assert error.value.got == (2,)


def test_estimators_can_refuse_a_mask():
    mask = torch.ones(4, dtype=torch.bool)
    some().refuse_mask("Nobody")
    some(mask=mask).refuse_mask("Nobody")
    mask[1] = False
    with pytest.raises(PairsError) as error:
        some(mask=mask).refuse_mask("Nobody")
    assert error.value.got == "75.0% measured"


# Other views of the same pairs


@every_grid
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("index", [slice(1, 4), [5, 2, 2], torch.tensor([0, 3]), np.array([4]), slice(None, None, 2)])
def test_some_of_the_pairs(grid, batch, index):
    pairs = some(grid, batch=batch, noise=0.1, mask=random_mask(*batch, 6, 2, *grid.shape))
    chosen = np.arange(6)[np.asarray(index) if not isinstance(index, slice) else index]
    found = pairs.take(index)
    assert (found.count, found.batch, found.noise) == (len(chosen), batch, 0.1)
    for name in ("loads", "responses", "mask"):
        expected = torch.stack([getattr(pairs, name).select(len(batch), pair) for pair in chosen], len(batch))
        assert torch.equal(getattr(found, name), expected)


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
def test_a_single_pair_is_still_a_pair(batch):
    pairs = some(batch=batch)
    found = pairs.take(4)
    assert (found.count, found.batch) == (1, batch)
    assert torch.equal(found.loads, pairs.loads.narrow(len(batch), 4, 1))


@settings(max_examples=30, deadline=None)
@given(
    order=st.permutations(range(6)), batch=st.sampled_from([(), (3,), (6,)]),
    shape=st.sampled_from([(4,), (1, 2, 5, 4), (6, 1, 5, 4), (6, 2, 1, 4), (1, 1, 1, 1)]),
)  # fmt: skip
def test_a_permutation_takes_the_mask_along(order, batch, shape):
    pairs = some(batch=batch, mask=random_mask(*shape))
    turned = pairs.take(order)
    seen, expected = (each.mask.expand(pairs.responses.shape) for each in (turned, pairs))
    for place, pair in enumerate(order):
        assert torch.equal(turned.loads.select(len(batch), place), pairs.loads.select(len(batch), pair))
        assert torch.equal(seen.select(len(batch), place), expected.select(len(batch), pair))


def test_a_mask_shared_by_the_systems_is_cut_with_the_pairs():
    mask = random_mask(6, 1, *PLANE.shape)
    assert torch.equal(some(batch=(3,), mask=mask).take(slice(2)).mask, mask[:2])


def test_no_pairs_at_all_are_refused():
    with pytest.raises(ShapeError) as error:
        some().take([])
    assert error.value.got == 0


@every_grid
@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
def test_mixing_by_a_rotation_keeps_the_law_and_the_energy(grid, batch):
    pairs, (rotation, _) = some(grid, batch=batch, noise=0.1), torch.linalg.qr(normal(6, 6, seed=5))
    mixed = pairs.mixed(rotation)
    assert (mixed.count, mixed.batch, mixed.components, mixed.noise) == (6, batch, (2, 3), 0.1)
    for name in ("loads", "responses"):
        old, new = (getattr(each, name).flatten(len(batch) + 1) for each in (pairs, mixed))
        assert torch.allclose(new, torch.einsum("...dn,de->...en", old, rotation), rtol=0, atol=1e-13)
        assert torch.allclose(new.mT @ new, old.mT @ old, rtol=0, atol=1e-12)
        assert not torch.allclose(new, old, atol=0.1)
    assert torch.allclose(mixed.mixed(rotation.T).loads, pairs.loads, rtol=0, atol=1e-13)


def test_mixing_may_change_the_number_of_pairs_but_not_with_a_mask():
    assert some(batch=(3,)).mixed(normal(6, 4)).loads.shape == (3, 4, 3, 5, 4)
    with pytest.raises(PairsError) as error:
        some(mask=random_mask(4)).mixed(torch.eye(6))
    assert error.value.got == "a mask"


def test_other_units():
    pairs, per_system = some(batch=(3,), noise=0.5), torch.tensor([1.0, -2.0, 4.0])
    found = pairs.scaled(load=10, response=per_system)
    assert torch.equal(found.loads, pairs.loads * 10)
    for system, factor in enumerate(per_system.tolist()):
        assert torch.equal(found.responses[system], pairs.responses[system] * factor)
    assert found.noise.tolist() == [0.5, 1.0, 2.0]
    assert pairs.scaled(response=-3).noise == 1.5
    assert pairs.scaled(load=3).noise == 0.5
    assert some().scaled(response=2).noise is None


def test_another_precision():
    pairs = some(batch=(3,), mask=random_mask(4), noise=torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64))
    single = pairs.to(dtype=torch.float32)
    assert single.loads.dtype == single.responses.dtype == torch.float32
    assert torch.equal(single.loads, pairs.loads.float())
    assert torch.equal(single.mask, pairs.mask)
    assert single.noise.dtype == torch.float32
    assert pairs.to().loads.dtype == torch.float64
    elsewhere = some(mask=random_mask(4), noise=0.1).to(device="meta")
    assert {elsewhere.loads.device.type, elsewhere.responses.device.type, elsewhere.mask.device.type} == {"meta"}


# One system of many


@every_grid
@pytest.mark.parametrize("number", [0, 2, -1])
def test_one_system_has_its_own_fields_mask_and_noise(grid, number):
    levels = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    mask = random_mask(3, 6, 2, *grid.shape)
    pairs = Pairs(grid, some(grid, batch=(3,)).loads, some(grid, batch=(3,)).responses, mask, levels, 2 * levels)
    found = pairs.system(number)
    assert (found.batch, found.count, found.components) == ((), 6, (2, 3))
    for name in ("loads", "responses", "mask"):
        assert torch.equal(getattr(found, name), getattr(pairs, name)[number])
    assert float(found.noise) == float(levels[number])
    assert float(found.load_noise) == 2 * float(levels[number])


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 5, 4), (6, 1, 5, 4)], ids=str)
def test_what_all_systems_share_each_of_them_has(shape):
    mask = random_mask(*shape)
    found = some(batch=(3,), mask=mask, noise=0.1).system(1)
    assert torch.equal(found.mask, mask)
    assert found.noise == 0.1
    assert some(batch=(3,), noise=torch.tensor(0.25)).system(2).noise == 0.25
    assert some(batch=(3,)).system(0).noise is None


def test_a_mask_that_is_broadcast_over_the_systems_serves_each_of_them():
    mask = random_mask(1, 6, 1, *PLANE.shape)
    pairs = some(batch=(3,), mask=mask)
    for number in range(3):
        expected = pairs.mask.expand(pairs.responses.shape)[number]
        assert torch.equal(pairs.system(number).mask.expand(expected.shape), expected)
