"""The tiled kernel network is the plain one, values and gradients, however the tiles fall."""

import pytest
import torch

from nipde.boundary import Periodic
from nipde.estimators.paper import nao
from nipde.estimators.paper.nao import NAO, KernelNetwork
from nipde.grid import Axis, Grid

GRIDS = {
    "1d": Grid((Axis(13, 1.7),)),
    "1d-periodic": Grid((Axis(12, 0.4, Periodic()),)),
    "2d": Grid((Axis(5, 1.3), Axis(4, 2.5))),
    "3d": Grid((Axis(3), Axis(4, 0.8), Axis(3))),
}
every_grid = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
#: Pairs per tile: less than a row, one row, some rows that do not divide the rows, all of them, far more.
TILES = [1, 20, 67, 129, 400, 10**6]


def both_forms(grid: Grid, *, seed: int = 0) -> tuple[KernelNetwork, KernelNetwork]:
    torch.manual_seed(seed)
    tiled, plain = (KernelNetwork(grid, form=form).double() for form in ("tiled", "plain"))
    with torch.no_grad():
        for parameter in tiled.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))  # far from the start, on both sides of the kink
    plain.load_state_dict(tiled.state_dict())
    return tiled, plain


def with_gradients(network: KernelNetwork, gradient: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    values = network()
    values.backward(gradient)
    return values.detach(), {name: parameter.grad for name, parameter in network.named_parameters()}


@every_grid
@pytest.mark.parametrize("tile", TILES)
def test_tiles_give_the_plain_values_and_gradients(grid, tile, monkeypatch):
    monkeypatch.setattr(nao, "TILE_PAIRS", tile)
    tiled, plain = both_forms(grid)
    gradient = torch.randn(grid.size, grid.size, dtype=torch.float64)
    (values, found), (expected, truth) = (with_gradients(network, gradient) for network in (tiled, plain))
    assert values.shape == (grid.size, grid.size)
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12)
    assert found.keys() == truth.keys() == {f"{layer}.{part}" for layer in ("first", "second", "third")
                                            for part in ("weight", "bias")}  # fmt: skip
    for name, value in truth.items():
        assert float((found[name] - value).norm() / value.norm()) < 1e-12, name


def test_gradients_that_are_not_contiguous_are_taken_as_they_are():
    tiled, plain = both_forms(GRIDS["2d"])
    for gradient in (torch.randn(20, 20, dtype=torch.float64).mT, torch.ones((), dtype=torch.float64).expand(20, 20)):
        for name, value in with_gradients(plain, gradient)[1].items():
            torch.testing.assert_close(with_gradients(tiled, gradient)[1][name], value, rtol=1e-11, atol=1e-11)
            tiled.zero_grad()
        plain.zero_grad()


@pytest.mark.parametrize("tile", [7, 2048])
def test_gradients_are_those_of_finite_differences(tile, monkeypatch):
    monkeypatch.setattr(nao, "TILE_PAIRS", tile)
    generator = torch.Generator().manual_seed(1)
    shapes = [(4, 3), (5, 3), (6, 3), (6,), (1, 6), (1,)]
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
    assert torch.autograd.gradcheck(nao._Tiled.apply, inputs)


def test_values_are_the_network_at_two_positions_in_lengths_of_the_box():
    grid = GRIDS["2d"]
    tiled, _ = both_forms(grid)
    x, z = 7, 13
    places = torch.tensor([[axis_x / 1.3, axis_y / 2.5] for axis_x, axis_y in zip(
        *(coordinates.ravel() for coordinates in grid.coordinates), strict=True)])  # fmt: skip
    hidden = torch.cat([places[x], places[z]])
    for layer in (tiled.first, tiled.second):
        hidden = torch.nn.functional.leaky_relu(layer(hidden), 0.01)
    found, expected = tiled()[x, z].detach(), tiled.third(hidden)[0].detach()
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def test_two_positions_are_told_apart():
    values = both_forms(GRIDS["2d"])[0]().detach()
    assert float((values - values.mT).norm() / values.norm()) > 1e-2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_whole_network_does_not_notice_the_form(dtype):
    grid = GRIDS["2d"]
    found = []
    for form in ("tiled", "plain"):
        torch.manual_seed(3)
        model = NAO(grid, pairs=4, channels=3, layers=2, kernel_networks=form).to(dtype)
        tokens = torch.randn(2, model.tokens, 4, generator=torch.Generator().manual_seed(2)).to(dtype)
        left, right = model.factors(tokens)
        (left @ right.mT).square().sum().backward()
        found.append([(left @ right.mT).detach(), *(parameter.grad for parameter in model.parameters())])
    for one, other in zip(*found, strict=True):
        assert float((one - other).norm() / other.norm()) < (1e-12 if dtype == torch.float64 else 1e-5)


def test_hidden_values_are_not_kept():
    network = KernelNetwork(Grid.uniform(11))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.numel()) or tensor, lambda x: x):
        network()
    assert sum(kept) < 121 * 121  # the plain form keeps 192 times as many
