"""Symmetries of a box are a group, and laws do not see them."""

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.context.symmetry import Symmetry, check_components, symmetries, transformed
from nipde.errors import ShapeError
from nipde.grid import Axis, Grid
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.darcy import Darcy

LINE, SQUARE, CUBE = (Grid.uniform(5, dimension=dimension) for dimension in (1, 2, 3))
RECTANGLE = Grid((Axis(5), Axis(6)))
BOXES = {
    "line": (LINE, 2),
    "square": (SQUARE, 8),
    "cube": (CUBE, 48),
    "rectangle": (RECTANGLE, 4),
    "longer": (Grid((Axis(5), Axis(5, 2.0))), 4),
    "mixed": (Grid((Axis(5, boundary=Neumann()), Axis(5, boundary=Dirichlet()))), 4),
    "periodic": (Grid.uniform(5, boundary=Periodic()), 8),
    "prism": (Grid((Axis(5), Axis(4), Axis(5))), 16),
}
every_box = pytest.mark.parametrize("name", BOXES)


def field_on(grid: Grid, *leading: int) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(3).normal(size=(*leading, *grid.shape)))


@every_box
def test_there_are_as_many_as_the_box_has_and_the_first_changes_nothing(name):
    grid, count = BOXES[name]
    found, field = symmetries(grid), field_on(grid, 2, 1)
    assert len(set(found)) == len(found) == count
    assert torch.equal(transformed(field, found[0], grid), field)
    assert len({transformed(field, element, grid).numpy().tobytes() for element in found}) == count


@every_box
@pytest.mark.parametrize("vector", [False, True])
def test_one_after_another_is_one_of_them(name, vector):
    grid, _ = BOXES[name]
    field, found = field_on(grid, grid.dimension if vector else 1), symmetries(grid)
    images = {transformed(field, element, grid).numpy().tobytes() for element in found}
    for element in found:
        again = {transformed(transformed(field, one, grid), element, grid).numpy().tobytes() for one in found}
        assert again == images


@every_box
def test_integrals_stay(name):
    grid, _ = BOXES[name]
    field = field_on(grid, 3, 1)
    for element in symmetries(grid):
        torch.testing.assert_close(grid.integrate(transformed(field, element, grid)), grid.integrate(field))


def test_gradients_turn_as_vectors():
    x, y, z = CUBE.coordinates
    slopes = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    plane = torch.as_tensor(x + 2 * y + 3 * z)[None]
    gradient = slopes[:, None, None, None].expand(3, *CUBE.shape)
    for element in symmetries(CUBE):
        found = torch.stack(torch.gradient(transformed(plane, element, CUBE)[0], spacing=CUBE.spacing))
        torch.testing.assert_close(found, transformed(gradient, element, CUBE))


@pytest.mark.parametrize("name", ["line", "square", "cube", "rectangle", "mixed"])
def test_a_darcy_pair_stays_a_darcy_pair(name):
    grid, _ = BOXES[name]
    draw = np.random.default_rng(4)
    permeability, loads = torch.tensor(draw.uniform(1.0, 9.0, grid.shape))[None], field_on(grid, 2, 1)
    responses = torch.as_tensor(Darcy(grid, permeability[0].numpy()).solve(loads.numpy()))
    for element in symmetries(grid):
        law = Darcy(grid, transformed(permeability, element, grid)[0].numpy())
        expected = law.solve(transformed(loads, element, grid).numpy())
        np.testing.assert_allclose(transformed(responses, element, grid), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["square", "cube", "rectangle"])
def test_a_flow_turns_with_its_medium(name):
    grid, _ = BOXES[name]
    velocity, loads = 3.0 * field_on(grid, grid.dimension).tanh(), field_on(grid, 2, 1)
    still = np.ones(grid.shape)
    responses = torch.as_tensor(AdvectionDiffusion(grid, still, velocity.numpy()).solve(loads.numpy()))
    for element in symmetries(grid):
        law = AdvectionDiffusion(grid, still, transformed(velocity, element, grid).numpy())
        expected = law.solve(transformed(loads, element, grid).numpy())
        np.testing.assert_allclose(transformed(responses, element, grid), expected, rtol=1e-10, atol=1e-13)


def test_a_quarter_turn_is_what_one_thinks():
    field = torch.arange(9.0).view(1, 3, 3)
    grid, swap = Grid.uniform(3), Symmetry((1, 0), (False, True))
    assert torch.equal(transformed(field, swap, grid)[0], torch.rot90(field[0], -1))
    vector = torch.stack([torch.ones(3, 3), torch.zeros(3, 3)])
    assert torch.equal(transformed(vector, swap, grid)[:, 1, 1], torch.tensor([0.0, -1.0]))


@pytest.mark.parametrize(("grid", "components"), [(SQUARE, 3), (LINE, 2), (CUBE, 2)])
def test_what_is_neither_scalar_nor_vector_is_refused(grid, components):
    with pytest.raises(ShapeError) as refused:
        check_components(components, grid)
    assert refused.value.got == components
    with pytest.raises(ShapeError):
        transformed(field_on(grid, components), symmetries(grid)[0], grid)


def test_a_field_of_another_grid_is_refused():
    with pytest.raises(ShapeError) as error:
        transformed(field_on(SQUARE, 1), symmetries(RECTANGLE)[0], RECTANGLE)
    assert "(1, 5, 5)" in error.value.got
