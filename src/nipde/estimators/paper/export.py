"""A model as one exported program, (loads, responses, queries) -> responses to the queries, that runs without nipde."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from nipde.context.pairs import Pairs
from nipde.estimators.paper.nips import NIPSMLP
from nipde.estimators.paper.token_model import TokenModel


def exported(model: TokenModel | NIPSMLP, pairs: Pairs) -> ExportedProgram:
    """Trace the model; systems and queries may vary in number, pairs, components and grid are the model's.

    `torch.export.save(program, "model.pt2")` stores it, `torch.export.load("model.pt2").module()` runs it, in physical
    units. `pairs` is any batch of two or more systems of the model's kind.
    """
    systems, queries = Dim("systems", min=1), Dim("queries", min=1)
    arguments = (pairs.loads, pairs.responses, pairs.loads.repeat(1, 2, *(1,) * (pairs.loads.ndim - 2)))
    shapes = ({0: systems}, {0: systems}, {0: systems, 1: queries})
    with torch.no_grad():
        return torch.export.export(_Program(model, pairs), arguments, dynamic_shapes=shapes)


class _Program(nn.Module):
    def __init__(self, model: TokenModel | NIPSMLP, pairs: Pairs) -> None:
        super().__init__()
        self.model, self.grid = model, pairs.grid

    def forward(
        self,
        loads: Float[Tensor, "system pair component *space"],
        responses: Float[Tensor, "system pair component *space"],
        queries: Float[Tensor, "system query component *space"],
    ) -> Float[Tensor, "system query component *space"]:
        """Responses to the queries."""
        return self.model(Pairs(self.grid, loads, responses)) @ queries
