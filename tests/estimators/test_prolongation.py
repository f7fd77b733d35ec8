import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.errors import TrainingError
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS
from nipde.estimators.paper.prolongation import start_from
from nipde.grid import Grid


def network(nodes, *, layers=2, seed=0, pairs=4, channels=3, **options):
    torch.manual_seed(seed)
    model = NIPS(Grid.uniform(nodes), pairs=pairs, layers=layers, channels=channels, **options).double()
    with torch.no_grad():
        model.input_norm.weight.copy_(torch.rand_like(model.input_norm.weight))
    return model


def smooth_pairs(grid, count=4):
    x, y = (torch.as_tensor(axis.copy()) for axis in grid.coordinates)
    loads = torch.stack([torch.sin((n + 1) * x + n) * torch.cos(2 * y - n) for n in range(count)])[:, None]
    return Pairs(grid, loads, loads.roll(1, 0) * 0.3)


def answers(model):
    pairs = smooth_pairs(model.grid)
    return model(pairs).predict(pairs.loads).detach()


@pytest.mark.parametrize("nodes", [7, 8])
@pytest.mark.parametrize("layers", [2, 3, 5])
def test_on_the_same_grid_added_layers_change_nothing(nodes, layers):
    old, new = network(nodes), network(nodes, layers=layers, seed=1)
    assert not torch.allclose(answers(new), answers(old))
    start_from(new, old)
    assert torch.allclose(answers(new), answers(old), rtol=1e-12)


def test_added_layers_learn():
    new = network(7, layers=3, seed=1)
    start_from(new, network(7))
    answers_now = new(smooth_pairs(new.grid)).predict(smooth_pairs(new.grid).loads)
    answers_now.square().sum().backward()
    assert new.layers[1].norm.weight.grad.abs().min() > 0


def test_smooth_tables_and_filters_are_read_at_the_nodes_and_waves_of_a_finer_grid():
    old, new = network(9), network(17)
    with torch.no_grad():  # a filter that falls with the wave, tables linear in space: both known on any grid
        for model in (old, new):
            x, y = (torch.as_tensor(axis.copy()) for axis in model.grid.coordinates)
            model.input_norm.weight.copy_(
                (1 + x + 2 * y).flatten().repeat(2)[:, None].expand_as(model.input_norm.weight)
            )
    start_from(new, old)
    x, y = (torch.as_tensor(axis.copy()) for axis in new.grid.coordinates)
    expected = (1 + x + 2 * y).flatten().repeat(2)[:, None].expand_as(new.input_norm.weight)
    assert torch.allclose(new.input_norm.weight, expected, rtol=1e-12)
    assert torch.equal(new.layers[0].filter.weight[:, 0, 0, 0], old.layers[0].filter.weight[:, 0, 0, 0])
    for name in ("query", "key"):
        assert torch.equal(getattr(new.layers[1].maps, name).weight, getattr(old.layers[1].maps, name).weight)


def test_a_filter_of_one_value_stays_one_value():
    old, new = network(8), network(13)
    with torch.no_grad():
        old.layers[0].filter.weight.fill_(0.7)
    start_from(new, old)
    assert torch.allclose(new.layers[0].filter.weight, torch.full_like(new.layers[0].filter.weight, 0.7), rtol=1e-12)


def test_a_finer_network_is_nearer_to_the_old_one_than_a_fresh_one():
    old, new = network(9), network(17, seed=1)
    with torch.no_grad():
        for layer in old.layers:
            layer.filter.weight.mul_(0.1).add_(0.5)
        old.input_norm.weight.fill_(1.0)
    fresh = (answers(new)[..., ::2, ::2] - answers(old)).norm()
    start_from(new, old)
    assert (answers(new)[..., ::2, ::2] - answers(old)).norm() < 0.3 * answers(old).norm() < fresh


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (network(7), network(7, pairs=5)),
        (network(7), network(7, channels=2)),
        (network(7), network(7, layers=3)),
        (network(7), NAO(Grid.uniform(7), pairs=4, layers=2, channels=3)),
        (network(7), NIPS(Grid.uniform(7, dimension=3), pairs=4, layers=2, channels=3)),
    ],
    ids=["pairs", "channels", "layers", "kind", "dimension"],
)
def test_networks_that_do_not_go_together_are_refused(new, old):
    before = {name: value.clone() for name, value in new.state_dict().items()}
    with pytest.raises(TrainingError):
        start_from(new, old)
    assert all(torch.equal(value, before[name]) for name, value in new.state_dict().items())
