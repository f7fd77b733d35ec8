"""Few factors answer like the kernel they come from, whichever way they were found."""

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.report import kernel_factors
from nipde.report.kernel_factors import MOST, TOLERANCE, WHOLE_UP_TO, factors_of, save_program

GRIDS = {
    "square": Grid.uniform(11),
    "plate": Grid((Axis(9, 40.0), Axis(7, 5.0))),
    "sliding": Grid((Axis(9, 1.5, Dirichlet()), Axis(8, 0.5, Neumann()))),
    "line": Grid((Axis(21),)),
}
every_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


def rock_of(grid):
    return TwoPhase()(GaussianField(4.0, waves=6).sample(grid, rng=np.random.default_rng(0), count=1)[0])


def kernel_of(grid):
    return DenseKernel(grid, torch.tensor(Darcy(grid, rock_of(grid)).green()))


def flat(fields):
    return fields.reshape(len(fields), -1)


def smooth_loads(grid, *, count=5):
    return torch.tensor(GaussianField(4.0, waves=6).sample(grid, rng=np.random.default_rng(4), count=count))


@every_grid
def test_what_is_truncation_error_is_what_is_said(grid):
    kernel = kernel_of(grid)
    found = factors_of(kernel)
    root = np.sqrt(grid.weights.reshape(-1))
    rest = (flat(found.left).T @ flat(found.right) - kernel.values.numpy()) * np.outer(root, root)
    whole = kernel.values.numpy() * np.outer(root, root)
    assert np.linalg.norm(rest) / np.linalg.norm(whole) == pytest.approx(found.truncation_error, rel=1e-6, abs=1e-12)
    assert found.truncation_error <= TOLERANCE
    assert 0 < len(found.left) < grid.size
    assert found.left.shape == found.right.shape == (len(found.left), *grid.shape)


def orthogonal(grid, fields):
    product = flat(fields) * grid.weights.reshape(-1) @ flat(fields).T
    sizes = np.sqrt(np.diagonal(product))
    return np.abs(product / np.outer(sizes, sizes) - np.eye(len(sizes))).max()


@every_grid
@pytest.mark.parametrize("iterated", [False, True], ids=["whole", "iterated"])
def test_factors_are_orthogonal_in_the_product_of_the_grid_and_strongest_first(grid, iterated, monkeypatch):
    if iterated:
        monkeypatch.setattr(kernel_factors, "WHOLE_UP_TO", 0)
        monkeypatch.setattr(kernel_factors, "MOST", 6)
    found = factors_of(kernel_of(grid))
    left, right = found.left[:6], found.right[:6]
    assert orthogonal(grid, left) <= 1e-6
    assert orthogonal(grid, right) <= 1e-6
    sizes = grid.norm(left) * grid.norm(right)
    assert (np.diff(sizes) <= 1e-9 * sizes[0]).all()


@pytest.mark.parametrize("grid", [*GRIDS.values(), Grid.uniform((8, 7, 6))], ids=[*GRIDS, "box"])
def test_few_are_nearly_as_good_as_the_largest(grid, monkeypatch):
    kernel = kernel_of(grid)
    whole = factors_of(kernel)
    monkeypatch.setattr(kernel_factors, "WHOLE_UP_TO", 0)
    monkeypatch.setattr(kernel_factors, "MOST", 8)
    few = factors_of(kernel)
    assert len(few.left) == 8
    root = np.sqrt(grid.weights.reshape(-1))
    dense, best, found = (
        root[:, None] * (flat(left).T @ flat(right)) * root
        for left, right in ((whole.left, whole.right), (whole.left[:8], whole.right[:8]), (few.left, few.right))
    )
    error = np.linalg.norm(dense - found)
    assert error < 1.02 * np.linalg.norm(dense - best)
    assert few.truncation_error == pytest.approx(error / np.linalg.norm(dense), rel=0.4)  # from a few random loads


@pytest.mark.slow
@pytest.mark.parametrize(("most", "error"), [(150, 2e-2), (MOST, 5e-3)], ids=["few", "as many as stored"])
def test_a_large_grid_is_answered_by_few_factors(most, error, tmp_path, monkeypatch):
    grid = Grid.uniform(46)
    assert grid.size > WHOLE_UP_TO
    monkeypatch.setattr(kernel_factors, "MOST", most)
    kernel, loads = kernel_of(grid), smooth_loads(grid)
    expected = kernel.predict(loads[:, None])[:, 0]
    factors = factors_of(kernel)
    assert len(factors.left) == most
    save_program(kernel, factors, tmp_path / "program.pt2")
    assert (tmp_path / "program.pt2").stat().st_size < 1.2 * 2 * 4 * most * grid.size + 1e5
    answers = torch.export.load(tmp_path / "program.pt2").module()(loads.float()).double()
    assert float((grid.norm(answers - expected) / grid.norm(expected)).max()) <= error


@every_grid
def test_a_program_answers_any_number_of_loads(grid, tmp_path):
    kernel = kernel_of(grid)
    save_program(kernel, factors_of(kernel), tmp_path / "program.pt2")
    program = torch.export.load(tmp_path / "program.pt2").module()
    for count in (1, 2, 7):
        loads = torch.randn(count, *grid.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        expected = kernel.predict(loads[:, None])[:, 0]
        answers = program(loads.float())
        assert answers.shape == expected.shape
        assert float((answers - expected).abs().max() / expected.abs().max()) <= 1e-5
