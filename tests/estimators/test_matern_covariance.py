"""The covariance of a Matérn field by transforms against the dense inverse of its precision."""

import numpy as np
import pytest

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.matern_covariance import MaternCovariance
from nipde.grid import Axis, Grid

GRIDS = {
    "line": Grid((Axis(9, 2.0),)),
    "square": Grid.uniform(9),
    "oblong": Grid((Axis(7, 1.5, Neumann()), Axis(10, 0.7, Dirichlet()))),
    "periodic": Grid((Axis(8, 1.0, Periodic()), Axis(6, 2.0))),
    "odd and periodic": Grid((Axis(7, 1.0, Periodic()), Axis(6, 2.0))),
    "box": Grid.uniform((5, 4, 6), dimension=3),
}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_it_is_the_inverse_of_the_precision(grid):
    field = MaternField(grid, deviation=0.6, correlation=4.0)
    prior, size = MaternCovariance(field), grid.size
    exact = np.linalg.inv(field.quadratic(np.zeros(size))[0].toarray())
    units = np.eye(size).reshape(size, *grid.shape)
    found = prior.root(prior.root_transposed(units)).reshape(size, size)
    np.testing.assert_allclose(found, exact, atol=1e-12 * exact.max())
    np.testing.assert_allclose(prior.variance().ravel(), np.diag(exact), rtol=1e-11)
    root, transposed = (part(units).reshape(size, size) for part in (prior.root, prior.root_transposed))
    np.testing.assert_allclose(root, transposed.T, atol=1e-13 * np.abs(root).max())


def test_the_deviation_is_that_of_the_field_far_from_the_sides():
    prior = MaternCovariance(MaternField(Grid.uniform(161), deviation=0.6, correlation=20.0))
    deviation = np.sqrt(prior.variance())
    assert deviation[80, 80] == pytest.approx(0.6, rel=0.007)
    assert deviation[80, 0] == pytest.approx(0.6 * 2**0.5, rel=0.007)
    assert deviation[0, 0] == pytest.approx(1.2, rel=0.007)
