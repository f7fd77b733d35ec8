import numpy as np
import pytest
import torch

from nipde.discretisation.links import Harmonic
from nipde.evaluation.evaluate import permeability_in
from nipde.kernels.dense import DenseKernel
from nipde.kernels.law import LawKernel
from nipde.physics.darcy import Darcy

MEAN = Harmonic()


def smooth(grid, *, turn=0.0):
    x, y = grid.coordinates
    return 2 + np.sin(3 * x + turn) * np.cos(2 * y)


def test_a_law_tells_its_permeability_and_a_larger_kernel_a_smaller_one(own):
    kernel = LawKernel.of(Darcy(own.grid, smooth(own.grid)))
    assert np.array_equal(permeability_in(kernel, face_mean=MEAN), smooth(own.grid))
    found = permeability_in(kernel * 1.1, face_mean=MEAN)
    assert found == pytest.approx(smooth(own.grid) / 1.1)
    assert np.linalg.inv(Darcy(own.grid, found).matrix.toarray()) == pytest.approx(
        1.1 * np.linalg.inv(Darcy(own.grid, smooth(own.grid)).matrix.toarray())
    )


def test_a_kernel_without_a_law_is_given_the_nearest(own):
    kernel = DenseKernel(own.grid, LawKernel.of(Darcy(own.grid, smooth(own.grid))).dense())
    found = permeability_in(kernel, face_mean=MEAN)
    inside = own.grid.unknown
    assert found[inside] == pytest.approx(smooth(own.grid)[inside], rel=0.02)


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_no_law_is_near_a_kernel_of_nothing(own, value):
    kernel = DenseKernel(own.grid, torch.full((own.grid.size,) * 2, value, dtype=torch.float64))
    assert np.isnan(permeability_in(kernel, face_mean=MEAN)).all()
