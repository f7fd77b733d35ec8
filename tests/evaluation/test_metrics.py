import numpy as np
import pytest
import torch

from nipde.boundary import Neumann, Periodic
from nipde.errors import ShapeError
from nipde.evaluation.metrics import (
    kernel_error,
    material_error,
    phase_accuracy,
    relative_errors,
)
from nipde.grid import Axis, Grid

LINE = Grid.uniform(3, dimension=1)  # weights 1/4, 1/2, 1/4


def fields(*rows):
    """(pair, 1, node)."""
    return torch.tensor(rows, dtype=torch.float64)[:, None]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_function_is_measured_by_the_quadrature():
    truth, found = fields([0, 2, 0], [2, 0, 2]), fields([0, 3, 0], [2, 1, 2])
    # √(½·1²) / √(½·2²), and √(½·1²) / √(¼·2² + ¼·2²)
    assert relative_errors(LINE, found, truth).tolist() == pytest.approx([0.5, 0.5])
    ends = np.array([True, False, True])
    assert relative_errors(LINE, found, truth, where=ends)[1] == 0
    assert float(relative_errors(LINE, found, truth, where=~ends)[0]) == pytest.approx(0.5)


def test_components_of_a_function_are_measured_together():
    truth = torch.tensor([[[0.0, 4, 0], [0, 3, 0]]])  # one pair, two components
    found = truth + torch.tensor([[[0.0], [1.0]]]) * torch.tensor([0.0, 1.0, 0.0])
    assert relative_errors(LINE, found, truth).tolist() == pytest.approx([1 / 5])


def test_batch_axes_stay_and_values_are_those_of_the_grids_norm():
    grid = Grid((Axis(5), Axis(4, 2.0, Neumann())))
    found, truth = normal(2, 3, 6, 1, 5, 4), normal(2, 3, 6, 1, 5, 4, seed=1)
    for where in (None, grid.unknown):
        expected = grid.norm(found - truth, mask=where_tensor(where)) / grid.norm(truth, mask=where_tensor(where))
        assert torch.allclose(relative_errors(grid, found, truth, where=where), expected[..., 0], rtol=1e-14)


def where_tensor(where):
    return None if where is None else torch.tensor(where)


def test_the_gradient_is_right_and_finite_at_no_error():
    truth = normal(2, 3, 1, 3)
    found = truth.clone().requires_grad_()
    relative_errors(LINE, found, truth).mean().backward()
    assert torch.equal(found.grad, torch.zeros_like(truth))
    assert torch.autograd.gradcheck(lambda values: relative_errors(LINE, values, truth), normal(2, 3, 1, 3, seed=1)
                                    .requires_grad_())  # fmt: skip
    half = truth.clone()
    half[0] += 1  # one system with an error, one without
    half.requires_grad_()
    relative_errors(LINE, half, truth).mean().backward()
    assert bool(torch.isfinite(half.grad).all())
    assert float(half.grad[0].abs().min()) > 0


def test_axes_that_only_broadcast_are_refused():
    with pytest.raises(ShapeError) as error:
        relative_errors(LINE, normal(4, 1, 3), normal(2, 4, 1, 3))
    assert error.value.got == (4, 1, 3)


def test_kernels_are_measured_over_both_points():
    truth = torch.zeros(2, 3, 3, dtype=torch.float64)
    truth[:, 1, 1] = 2.0  # weight ½·½
    found = truth.clone()
    found[0, 1, 1] = 1.0
    found[1, 0, 2] = 4.0  # weight ¼·¼
    assert kernel_error(LINE, found, truth).tolist() == pytest.approx([0.5, 1.0])
    two = torch.eye(6)  # two components: the weights repeat
    assert float(kernel_error(LINE, 1.5 * two, two)) == pytest.approx(0.5)


def test_edge_and_interior_share_the_unknown_nodes():
    square = Grid.uniform(5)
    assert int(square.edge.sum()) == 8
    assert np.argwhere(square.interior).tolist() == [[2, 2]]
    strip = Grid((Axis(5), Axis(4, 1.0, Neumann())))  # only the first axis has Dirichlet ends
    assert np.flatnonzero(strip.edge.all(1)).tolist() == [1, 3]
    assert np.flatnonzero(strip.interior.all(1)).tolist() == [2]
    for grid in (square, strip, Grid.uniform(4, dimension=3), Grid.uniform(3)):
        assert np.array_equal(grid.edge | grid.interior, grid.unknown)
        assert not (grid.edge & grid.interior).any()
    assert not Grid.uniform(6, boundary=Periodic()).edge.any()


def test_a_material_is_judged_everywhere_but_in_the_corners():
    grid = Grid.uniform(4)
    truth = np.where(np.arange(4) < 2, 12.0, 3.0) * np.ones((4, 1))
    found = truth.copy()
    found[grid.corners] = 100.0
    assert material_error(grid, found, truth) == 0
    assert phase_accuracy(grid, found, truth) == 1
    found[1, 1] = 5.9  # 6 is the geometric mean: wrong side, a node of the inside
    found[0, 2] = 6.1  # wrong side, on the rim
    found[2, 2] = 5.0  # right side, wrong value
    assert float(phase_accuracy(grid, found, truth)) == pytest.approx(10 / 12)
    assert float(phase_accuracy(grid, found, truth, where=grid.unknown)) == pytest.approx(3 / 4)
    # inner nodes weigh 1/9, those of a side half of that
    wrong = (12 - 5.9) ** 2 + (5 - 3) ** 2 + (6.1 - 3) ** 2 / 2
    right = 2 * (12**2 + 3**2) + 4 * (12**2 + 3**2) / 2
    assert float(material_error(grid, found, truth)) == pytest.approx((wrong / right) ** 0.5)
    both = material_error(grid, np.stack([found, truth]), np.stack([truth, truth]))
    assert both.tolist() == pytest.approx([(wrong / right) ** 0.5, 0])


def test_no_number_is_on_no_side():
    grid = Grid.uniform(4)
    truth = np.where(np.arange(4) < 2, 12.0, 3.0) * np.ones((4, 1))
    assert phase_accuracy(grid, np.full(grid.shape, np.nan), truth) == 0
