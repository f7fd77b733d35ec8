"""Every part of multigrid against dense matrices, on sides and node counts of all kinds; then steps and precision."""

import numpy as np
import pytest
import torch

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.discretisation import blocks
from nipde.discretisation import multigrid as module
from nipde.discretisation.multigrid import Interpolation, MultigridSolver, VCycle, galerkin
from nipde.discretisation.operator import EllipticOperator, TensorSensitivity
from nipde.discretisation.stencil import ScaledProduct, Stencil
from nipde.grid import Axis, Grid

D, N, P = Dirichlet(), Neumann(), Periodic()
BOXES = {
    "even and prime": [(16, D), (13, D)],
    "odd ring": [(9, D), (11, P)],
    "even ring": [(8, D), (10, P)],
    "free sides": [(12, N), (9, D)],
    "short axis": [(3, D), (50, N)],
    "line": [(60, D)],
    "cube": [(7, D), (6, N), (7, P)],
}


@pytest.fixture(params=BOXES, ids=lambda name: name.replace(" ", "-"))
def grid(request):
    return Grid(tuple(Axis(nodes, 1.0 + place / 8, side) for place, (nodes, side) in enumerate(BOXES[request.param])))


@pytest.fixture
def operator(grid):
    return rough(grid, systems=2)


@pytest.fixture
def few_unknowns(monkeypatch):
    """Several levels on small grids."""
    monkeypatch.setattr(module, "COARSEST", 6)


def rough(grid, *, systems=1, contrast=1000.0):
    high = np.random.default_rng(7).random((systems, *grid.shape)) < 0.5
    return EllipticOperator.of(grid, torch.tensor(np.where(high, np.log(contrast), 0.0)), None, -1.0)


def stripes(grid, contrast=1000.0):
    """Curved ones, some nodes wide."""
    x, y = grid.coordinates
    high = np.sin(9 * x + 4 * np.sin(7 * y)) > 0
    return EllipticOperator.of(grid, torch.tensor(np.where(high, np.log(contrast), 0.0))[None], None, -1.0)


def columns(shape, systems):
    """All unit fields as pairs."""
    size = int(np.prod(shape))
    return torch.eye(size, dtype=torch.float64).view(size, *shape).expand(systems, size, *shape).clone()


def scaled(stencil):
    scale = stencil.diagonal.rsqrt().flatten(1)
    return stencil.matrix() * scale[:, :, None] * scale[:, None]


def test_a_stencil_is_the_matrix_of_the_operator(grid, operator):
    stencil = Stencil.of(grid, operator.conductances)
    torch.testing.assert_close(stencil.matrix(), operator.matrix(), rtol=1e-14, atol=0)
    product = ScaledProduct(stencil, torch.float64)(columns(stencil.diagonal.shape[2:], 2)).flatten(2)
    torch.testing.assert_close(product, scaled(stencil), rtol=0, atol=1e-14)


def test_the_coarse_stencil_is_the_galerkin_product(grid, operator):
    stencil = Stencil.of(grid, operator.conductances)
    product, interpolation = (
        ScaledProduct(stencil, torch.float64),
        Interpolation.of(stencil, module._coarsened(stencil.lines)),
    )
    coarse = columns([line.nodes for line in interpolation.lines], 2)
    fine = interpolation(coarse)
    expected = fine.flatten(2) @ product(fine).flatten(2).mT
    found = galerkin(product, interpolation).matrix()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13 * float(expected.abs().max()))


def test_interpolation_keeps_constants_where_no_value_is_given():
    grid = Grid((Axis(13, 1.0, N), Axis(10, 1.0, P)))
    stencil = Stencil.of(grid, rough(grid).conductances)
    interpolation = Interpolation.of(stencil, [True, True])
    ones = torch.ones(1, 1, *(line.nodes for line in interpolation.lines), dtype=torch.float64)
    torch.testing.assert_close(interpolation(ones), stencil.diagonal.sqrt(), rtol=1e-12, atol=0)


def test_a_cycle_is_symmetric_positive_and_close_to_the_inverse(grid, operator, few_unknowns):
    stencil = Stencil.of(grid, operator.conductances)
    cycle = VCycle(stencil, torch.float64)
    assert cycle.levels
    found = cycle(columns(stencil.diagonal.shape[2:], 2)).flatten(2)
    torch.testing.assert_close(found, found.mT, rtol=0, atol=1e-13 * float(found.abs().max()))
    assert float(torch.linalg.eigvalsh(found).min()) > 0
    shares = torch.linalg.eigvals(found @ scaled(stencil)).real
    assert float(shares.min()) > 0
    assert float(shares.max()) < 1 + 1e-9


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 3e-11), (torch.float32, 2e-5)], ids=["double", "single"])
def test_solutions_are_those_of_the_dense_matrix(grid, operator, few_unknowns, dtype, error):
    moments = torch.randn(2, 3, *grid.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected, unknown = torch.zeros_like(moments), operator.links.unknown
    expected.flatten(2)[..., unknown] = torch.linalg.solve(operator.matrix(), moments.flatten(2)[..., unknown].mT).mT
    found = MultigridSolver(grid, operator.conductances)(moments.to(dtype))
    assert found.dtype == dtype
    assert float((found - expected).norm() / expected.norm()) < error


def test_nothing_waits_for_a_device_or_leaves_it(grid, operator, few_unknowns):
    stencil = Stencil.of(grid, operator.conductances)
    couplings = {offset: coupling.to("meta") for offset, coupling in stencil.couplings.items()}
    cycle = VCycle(Stencil(stencil.lines, stencil.diagonal.to("meta"), couplings), torch.float32)
    field = torch.zeros(2, 3, *stencil.diagonal.shape[2:], device="meta")
    assert cycle(field).shape == field.shape  # a value that is read on the way would be an error


def test_sizes_of_loads_do_not_matter(few_unknowns):
    grid = Grid.uniform(12)
    solve = MultigridSolver(grid, rough(grid).conductances)
    moments = torch.rand(1, 1, *grid.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    both = solve(torch.cat([moments, 1e-80 * moments, 0 * moments], 1))
    torch.testing.assert_close(both[:, 1:2] * 1e80, both[:, :1], rtol=1e-9, atol=0)
    assert not both[:, 2].any()


def cycles(grid, operator, monkeypatch):
    """Of a solve in single precision."""
    calls, plain = [], VCycle.__call__
    monkeypatch.setattr(VCycle, "__call__", lambda self, residual: calls.append(1) or plain(self, residual))
    MultigridSolver(grid, operator.conductances)(operator.links.volume[None, None].float())
    monkeypatch.undo()
    return len(calls)


def test_steps_do_not_grow_with_the_grid_or_the_contrast(monkeypatch):
    counts = {
        (nodes, contrast): cycles(grid := Grid.uniform(nodes), stripes(grid, contrast), monkeypatch)
        for nodes in (41, 96, 161)
        for contrast in (1.0, 1000.0)
    }
    assert max(counts.values()) <= 9, counts


def test_steps_do_not_grow_with_the_shape_of_the_cells(monkeypatch):
    flat = Grid((Axis(65, 1.0, D), Axis(65, 12.0, D)))
    assert cycles(flat, stripes(flat, 4.0), monkeypatch) <= 9


def test_blocks_of_pairs_change_nothing(monkeypatch):
    grid = Grid.uniform(14)
    operator, generator = rough(grid, systems=2), torch.Generator().manual_seed(1)
    fields = torch.randn(2, 5, *grid.shape, dtype=torch.float64, generator=generator)
    point = torch.randn(2, 3, *grid.shape, dtype=torch.float64, generator=generator)
    weights = torch.rand(2, 5, 1, 1, dtype=torch.float64, generator=generator)

    def both():
        sensitivity = TensorSensitivity(operator.links, point, fields, mean_power=-1.0)
        normal = sensitivity.normal(point, weigh=lambda some, pairs: some * weights[:, pairs])
        torch.testing.assert_close(normal, sensitivity.vjp(sensitivity.jvp(point) * weights))
        return MultigridSolver(grid, operator.conductances)(fields), normal

    whole = both()
    monkeypatch.setattr(blocks, "BLOCK", 2 * 2 * grid.size)
    assert len(blocks.pair_blocks(fields)) == 3
    for found, expected in zip(both(), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10 * float(expected.abs().max()))
