"""A⁻¹ by factors: refused where there are none."""

import numpy as np
import pytest

from nipde.discretisation.link_solver import inverse_of
from nipde.discretisation.links import links_of
from nipde.errors import SolverError
from nipde.grid import Grid


def test_a_singular_matrix_is_an_error_that_a_fit_can_step_back_from():
    links = links_of(Grid.uniform(5))
    with pytest.raises(SolverError, match=r"conductances whose matrix has a factor.*singular"):
        inverse_of(links, np.zeros(len(links.first)))
