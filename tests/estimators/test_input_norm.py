"""The first norm against torch's own, whole and on rows."""

import pytest
import torch

from nipde.estimators.paper.input_norm import InputNorm
from nipde.grid import Grid
from nipde.spectral.partition import Partition

GRID = Grid.uniform((5, 4))


@pytest.mark.parametrize("gains", ["token", "pair"])
def test_it_is_the_layer_norm_with_its_gains(gains):
    torch.manual_seed(0)
    norm = InputNorm(2 * GRID.size, 3, gains=gains).double()
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    tokens = 5 + 2 * torch.randn(4, 2 * GRID.size, 3, dtype=torch.float64)
    plain = torch.nn.functional.layer_norm(tokens, (2 * GRID.size, 3)) * norm.weight + norm.bias
    assert norm.weight.numel() == (2 * GRID.size * 3 if gains == "token" else 3)
    assert torch.allclose(norm(tokens), plain, rtol=1e-12)
    fields = tokens.unflatten(1, (2, *GRID.shape)).movedim(0, -2)
    on_rows = norm.on(tokens, (norm.weight, norm.bias), partition=Partition(GRID))
    whole = plain.unflatten(1, (2, *GRID.shape)).movedim(0, -2)
    assert torch.allclose(on_rows(fields), whole, rtol=1e-12)
    assert torch.allclose(on_rows(fields[:, 2:4], slice(2, 4)), whole[:, 2:4], rtol=1e-12)
