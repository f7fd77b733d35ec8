import pytest
import torch

from benchmarks.step_cost import Traffic, step_cost
from nipde.estimators.paper.nips import NIPS
from nipde.grid import Grid
from nipde.training.recipe import ModelRecipe


def test_a_product_reads_two_matrices_and_writes_one():
    left, right = torch.ones(3, 5), torch.ones(5, 7)
    with Traffic() as traffic:
        left @ right
        left.mT.expand(2, 5, 3)  # a view
    assert traffic.bytes == 4 * (3 * 5 + 5 * 7 + 3 * 7)


@pytest.mark.parametrize("kind", ["nips", "nao", "nao-f", "nao-wp", "afno"])
def test_a_step_without_values_costs_what_a_real_one_does(kind):
    """On the meta device any look at a value is an error: forward, loss and backward have none."""
    model = ModelRecipe(kind, layers=2, channels=4).build(Grid.uniform(7), pairs=6)
    real = step_cost(model, batch=3, device="cpu")
    counted = step_cost(model.to("meta"), batch=3, device="meta")
    assert counted["operations"] == real["operations"] > 0
    assert counted["bytes"] == pytest.approx(real["bytes"], rel=0.03)  # devices differ in how they cut small operations
    assert counted["batch_bytes"] == real["batch_bytes"] == 2 * 4 * 3 * 6 * 7 * 7


def test_products_of_a_nips_layer_are_those_of_its_equations():
    """A second layer adds, to T tokens of d pairs in real waves of n nodes per axis, what its docstring says."""
    nodes, pairs, channels, batch = 9, 6, 4, 2
    cost = [
        step_cost(NIPS(Grid.uniform(nodes), pairs=pairs, layers=layers, channels=channels), batch=batch, device="cpu")
        for layers in (2, 3)
    ]
    added = cost[1]["operations"] - cost[0]["operations"]
    waves = 2 * (nodes // 2 + 1)  # cosines and sines of an axis
    columns = 2 * batch * pairs  # fields, samples and pairs
    transform = 2 * columns * (waves * nodes * nodes + waves * nodes * waves)  # along one axis, then the other
    modes, tokens = (waves // 2) ** 2, 2 * nodes**2
    multiplier = 2 * columns * modes * 4 * 4  # 4 parities of every mode
    gram, mix = 2 * batch * tokens * pairs**2, 2 * batch * 2 * (4 * modes) * pairs**2
    forward = 2 * transform + multiplier + gram + mix
    # Backward: the transforms again; multiplier three times, one of them to recompute; Gram and mixing twice.
    backward = 2 * transform + 3 * multiplier + gram + 2 * mix
    assert added == pytest.approx(forward + backward, rel=0.05)
