"""Readouts are exact where they can be: everywhere in an even medium, and within a phase for the local ones."""

import numpy as np
import pytest
import torch

from benchmarks.readouts import READOUTS, diagonal, inferred, nearest_law, row_integral, stencil, stiffness
from nipde.boundary import Dirichlet, Neumann
from nipde.context.pairs import Pairs
from nipde.errors import KernelError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

GRID = Grid.uniform(11)
COMPARED = {"row integral": row_integral, "diagonal": diagonal, "stiffness": stiffness, "stencil": stencil}
BOXES = {
    "square": GRID,
    "plate in millimetres": Grid((Axis(9, 40.0), Axis(11, 90.0))),
    "sliding side": Grid((Axis(9, 1.5, Dirichlet()), Axis(8, 0.5, Neumann()))),
    "line": Grid((Axis(15, 3.0),)),
}

each = pytest.mark.parametrize("readout", COMPARED.values(), ids=COMPARED)


def kernel_of(permeability, *, grid=GRID):
    return DenseKernel(grid, torch.tensor(Darcy(grid, permeability).green()))


def rock(*, seed=0, grid=GRID):
    return TwoPhase()(GaussianField(4.0, waves=8).sample(grid, rng=np.random.default_rng(seed), count=1)[0])


def surrounded(field):
    """Free nodes whose neighbours along both axes are of their own phase."""
    alike = np.zeros(field.shape, dtype=bool)
    middle = field[1:-1, 1:-1]
    around = (field[:-2, 1:-1], field[2:, 1:-1], field[1:-1, :-2], field[1:-1, 2:])
    alike[1:-1, 1:-1] = np.logical_and.reduce([other == middle for other in around])
    return alike


@each
@pytest.mark.parametrize("grid", BOXES.values(), ids=BOXES)
def test_an_even_medium_is_read_exactly(readout, grid):
    found = readout(kernel_of(np.full(grid.shape, 5.0), grid=grid))
    assert found.shape == grid.shape
    assert found[grid.unknown] == pytest.approx(np.full(grid.unknown.sum(), 5.0), rel=1e-8)


@each
def test_twice_the_response_is_half_the_material(readout):
    kernel, free = kernel_of(rock()), GRID.unknown
    assert readout(kernel * 2)[free] == pytest.approx(readout(kernel)[free] / 2, rel=1e-8)


@each
def test_lengths_in_another_unit_scale_the_material_with_their_square(readout):
    kernel, free = kernel_of(rock()), GRID.unknown
    other = DenseKernel(GRID.stretched(50.0), kernel.values / 50.0**2)  # the same answers to the same loads
    assert readout(other)[free] == pytest.approx(2500 * readout(kernel)[free], rel=1e-8)


@pytest.mark.parametrize("readout", [stencil, stiffness])
def test_local_readouts_are_exact_within_a_phase(readout):
    field = rock(seed=3)
    alike = surrounded(field)
    assert 20 < alike.sum() < 81
    assert readout(kernel_of(field))[alike] == pytest.approx(field[alike], rel=1e-6)


@pytest.mark.parametrize("readout", [stencil, stiffness])
def test_dirichlet_nodes_take_the_nearest_value_inside(readout):
    found = readout(kernel_of(rock()))
    assert found[0, 3] == found[1, 3]
    assert found[-1, -1] == found[-2, -2]


@each
def test_a_softer_spot_is_seen_where_it_is(readout):
    field = np.full(GRID.shape, 4.0)
    field[3, 7] = 2.0
    found = np.where(GRID.unknown, readout(kernel_of(field)), np.inf)
    assert np.unravel_index(found.argmin(), GRID.shape) == (3, 7)


def test_the_law_nearest_to_a_true_kernel_is_its_own():
    field = rock(seed=1)
    found = nearest_law(kernel_of(field))
    error = np.abs(np.log(found / field))[GRID.unknown]
    assert np.mean(error) <= 0.03
    assert np.array_equal((found > 6)[GRID.unknown], (field > 6)[GRID.unknown])


def test_the_inferred_field_is_the_coefficient_of_the_kernel():
    torch.manual_seed(0)
    field, loads = rock(seed=1), GaussianField(1.0, waves=8).sample(GRID, rng=np.random.default_rng(2), count=10)
    pairs = Pairs.from_arrays(loads, Darcy(GRID, field).solve(loads), grid=GRID, noise=0.0)
    options = {"dimension": 2, "channels": 8}
    found = inferred(ConditionedNIPS(**options).double().eval().requires_grad_(False)(pairs))
    assert found[GRID.unknown] == pytest.approx(field[GRID.unknown], rel=0.05)
    gated = ConditionedNIPS(**options, prior="gated", terms=2).double().eval().requires_grad_(False)(pairs)
    for kernel in (gated, kernel_of(field)):
        with pytest.raises(KernelError):
            inferred(kernel)


def test_a_kernel_that_answers_the_wrong_way_round_has_no_ratio():
    found = row_integral(kernel_of(np.ones(GRID.shape)) * -1)
    assert np.isnan(found[GRID.unknown]).all()


def test_every_readout_has_a_name_of_its_own():
    assert set(READOUTS.values()) == {inferred, nearest_law, *COMPARED.values()}
