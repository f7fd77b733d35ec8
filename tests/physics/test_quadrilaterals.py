"""Elements: the polynomials, the quadrature, the loads, and how fields enter and leave a mesh."""

import numpy as np
import pytest

from nipde.boundary import Neumann, Periodic
from nipde.errors import PhysicsError
from nipde.grid import Axis, Grid
from nipde.physics.quadrilaterals import Quadrilaterals, mesh_of, shape_functions
from nipde.physics.supports import Unknowns

BOX = Grid((Axis(5, 2.0), Axis(4, 0.9, Neumann())))
every_mesh = pytest.mark.parametrize(("degree", "refine"), [(1, 1), (1, 3), (2, 1), (2, 2)])


@pytest.mark.parametrize("degree", [1, 2])
def test_shape_functions_reproduce_polynomials_and_their_slopes(degree):
    places, nodes = np.linspace(-0.2, 1.3, 7), np.linspace(0, 1, degree + 1)
    values, slopes = shape_functions(degree, places)
    for power in range(degree + 1):
        assert np.allclose(values @ nodes**power, places**power, atol=1e-14)
        assert np.allclose(slopes @ nodes**power, power * places ** max(power - 1, 0), atol=1e-13)
    at_nodes, _ = shape_functions(degree, nodes)
    assert np.allclose(at_nodes, np.eye(degree + 1), atol=1e-15)


@every_mesh
def test_gradients_of_a_polynomial_are_exact_at_every_point(degree, refine):
    mesh = Quadrilaterals(BOX, degree, refine)
    (x, y), (px, py) = mesh.coordinates, np.moveaxis(mesh.points, -1, 0)
    found = np.einsum("pla,el->epa", mesh.gradients, (3 * x * y - 2 * y + x**degree).reshape(-1)[mesh.elements])
    assert np.allclose(found[..., 0], 3 * py + degree * px ** (degree - 1), atol=1e-12)
    assert np.allclose(found[..., 1], 3 * px - 2, atol=1e-12)


@every_mesh
def test_weights_sum_to_the_area_and_integrate_polynomials(degree, refine):
    mesh = Quadrilaterals(BOX, degree, refine)
    x, y = np.moveaxis(mesh.points, -1, 0)
    assert mesh.weights.sum() * len(mesh.elements) == pytest.approx(BOX.volume, rel=1e-14)
    power = 2 * degree + 1
    exact = 2.0 ** (power + 1) / (power + 1) * 0.9 ** (power + 1) / (power + 1)
    assert np.sum(mesh.weights * x**power * y**power) == pytest.approx(exact, rel=1e-13)


@every_mesh
def test_nodal_forces_do_the_work_of_the_bilinear_load(degree, refine):
    mesh, rng = Quadrilaterals(BOX, degree, refine), np.random.default_rng(0)
    x, y = BOX.coordinates
    loads = np.stack([1 + 2 * x - y + 3 * x * y, y - 4 * x])
    forces = mesh.nodal_forces(np.stack([loads, 2 * loads]))
    assert np.array_equal(forces[1], 2 * forces[0])
    motion = rng.standard_normal((2, 4))
    mx, my = mesh.coordinates
    u = np.einsum("cb,bxy->xyc", motion, np.stack([np.ones_like(mx), mx, my, mx * my])).reshape(-1, 2)
    points, weights = np.polynomial.legendre.leggauss(4)
    qx, qy = np.meshgrid((points + 1), 0.45 * (points + 1), indexing="ij")
    moved = np.einsum("cb,bxy->cxy", motion, np.stack([np.ones_like(qx), qx, qy, qx * qy]))
    work = moved[0] * (1 + 2 * qx - qy + 3 * qx * qy) + moved[1] * (qy - 4 * qx)
    assert np.sum(forces[0] * u) == pytest.approx(0.45 * np.einsum("p,q,pq", weights, weights, work), rel=1e-12)


@every_mesh
def test_the_grids_nodes_are_nodes_of_the_mesh(degree, refine):
    mesh = mesh_of(BOX, degree, refine)
    assert mesh is mesh_of(BOX, degree, refine)
    nodes = np.moveaxis(mesh.coordinates, 0, -1).reshape(-1, 2)
    assert np.allclose(mesh.at_nodes(nodes), np.stack(BOX.coordinates), atol=1e-15)


def test_cells_keep_their_place():
    mesh = Quadrilaterals(BOX, 2, 2)
    cellwise = np.arange(12.0).reshape(4, 3)
    x, y = np.moveaxis(mesh.points, -1, 0)
    assert np.array_equal(mesh.at_points(cellwise), cellwise[(x / 0.5).astype(int), (y / 0.3).astype(int)])


@every_mesh
@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_a_band_is_the_matrix_and_is_as_narrow_as_the_short_side_allows(degree, refine, axes):
    grid = Grid(tuple(BOX.axes[place] for place in axes))
    mesh, rng = Quadrilaterals(grid, degree, refine), np.random.default_rng(0)
    unknowns = Unknowns(mesh, rng.random((*mesh.shape, 2)) < 0.2)
    count = 2 * mesh.elements.shape[1]
    blocks = rng.standard_normal((len(mesh.elements), count, count))
    blocks = blocks @ blocks.transpose(0, 2, 1)
    band, dense = np.zeros(unknowns.slot_count), np.zeros((2 * np.prod(mesh.shape),) * 2)
    rows, columns = np.tril_indices(count // 2)
    for nodes, block, slots in zip(mesh.elements, blocks, unknowns.slots, strict=True):
        places = (2 * nodes[:, None] + np.arange(2)).reshape(-1)
        dense[np.ix_(places, places)] += block
        np.add.at(band, slots, block.reshape(count // 2, 2, count // 2, 2)[rows, :, columns].reshape(-1))
    free = np.ix_(unknowns.places, unknowns.places)
    found = unknowns.matrix(band).toarray()
    assert np.allclose(found[free], dense[free], atol=1e-12)
    assert np.count_nonzero(found) == np.count_nonzero(dense[free])
    assert unknowns.bandwidth < 2 * (degree * min(mesh.shape) + degree + 1)
    right = rng.standard_normal(unknowns.size)
    assert np.allclose(dense[free] @ unknowns.solve(band, right), right, atol=1e-8)


def test_a_matrix_that_is_not_positive_definite_is_told():
    unknowns = Unknowns(Quadrilaterals(BOX), np.zeros((5, 4, 2), dtype=bool))
    with pytest.raises(np.linalg.LinAlgError):
        unknowns.solve(np.zeros(unknowns.slot_count), np.ones(unknowns.size))


def test_other_grids_and_degrees_are_refused():
    for grid in (Grid.uniform(5, dimension=3), Grid((Axis(5, 1.0, Periodic()), Axis(5, 1.0)))):
        with pytest.raises(PhysicsError) as error:
            Quadrilaterals(grid)
        assert error.value.got == grid
    for degree, refine in ((3, 1), (1, 0)):
        with pytest.raises(PhysicsError) as error:
            Quadrilaterals(BOX, degree, refine)
        assert error.value.got == (degree, refine)
