"""Random parts of a grid: sums without bias, all lines give the whole network, and gradients are those of the part."""

import numpy as np
import pytest
import torch

from nipde.errors import GridError, TrainingError
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.estimators.paper.spread import spread
from nipde.grid import Grid
from nipde.spectral.partition import Partition
from nipde.spectral.sampled_nodes import SampledNodes
from nipde.training.recipe import ModelRecipe, TrainingRecipe

GRID = Grid.uniform((13, 11))


def fields(seed, count=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, count, 1, *GRID.shape, generator=generator, dtype=torch.float64)


def every_line():
    return SampledNodes(GRID, lines=tuple(tuple(range(nodes)) for nodes in GRID.shape))


def test_sums_have_no_bias_and_scatter_less_than_those_of_any_nodes():
    field = torch.as_tensor(np.cos(2 * GRID.coordinates[0]) * GRID.coordinates[1])
    rng = np.random.default_rng(0)
    parts = [SampledNodes.drawn(GRID, 6, rng=rng) for _ in range(4000)]
    sums = np.array([float(part.sum(part.cut(field).sum())[0]) for part in parts])
    assert sums.mean() == pytest.approx(float(field.sum()), abs=4 * sums.std() / np.sqrt(len(sums)))
    assert sums.std() < 0.5 * float(field.std()) * GRID.size / 6
    assert all(np.all(np.diff(lines) >= 0) for part in parts for lines in part.lines)


@pytest.mark.parametrize("kind", [NIPS, NIPSMLP])
def test_all_lines_are_the_whole_grid(kind):
    torch.manual_seed(0)
    model = kind(GRID, pairs=4, layers=3, channels=5).double()
    loads, responses, asked, truth = fields(1), fields(2), fields(3), fields(4)
    answers = []
    for partition in (Partition(GRID), every_line()):
        model.zero_grad()
        cut = [partition.cut(one) for one in (loads, responses, asked, truth)]
        errors = spread(model, *cut[:2], partition=partition).errors(*cut[2:])
        errors.mean().backward()
        answers.append((errors.detach(), [one.grad.clone() for one in model.parameters()]))
    torch.testing.assert_close(answers[0][0], answers[1][0])
    for one, other in zip(answers[0][1], answers[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_gradients_are_those_of_the_part():
    torch.manual_seed(0)
    model = NIPS(GRID, pairs=4, layers=2, channels=5).double()
    part = SampledNodes.drawn(GRID, 6, rng=np.random.default_rng(1))
    cut = [part.cut(fields(seed)) for seed in (1, 2, 3, 4)]

    def loss():
        return spread(model, *cut[:2], partition=part).errors(*cut[2:]).mean()

    loss().backward()
    weight = model.layers[0].filter.weight
    place, step = np.unravel_index(int(weight.grad.abs().argmax()), weight.shape), 1e-5
    with torch.no_grad():
        ends = []
        for sign in (1, -1):
            weight[place] += sign * step
            ends.append(float(loss()))
            weight[place] -= sign * step
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(weight.grad[place]), rel=1e-5)


def test_errors():
    with pytest.raises(GridError, match="2 to 11 sampled lines"):
        SampledNodes.drawn(GRID, 12, rng=np.random.default_rng(0))
    with pytest.raises(TrainingError, match="sampled_lines for nips"):
        TrainingRecipe(ModelRecipe("nao"), steps=1, sampled_lines=4)
    with pytest.raises(TrainingError, match="tile_rows as well"):
        TrainingRecipe(ModelRecipe("nips"), steps=1, sampled_lines=4, tile_rows=2)
