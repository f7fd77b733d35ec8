"""Weights of NIPS that read some of their pairs from the start, while the channels of the others hold learned fields.

Training from equal gains tends there by itself. Learned fields start as leading components of the training loads and as
random responses, and the couplings W_Qᵀ W_K as multiples of the identity.
"""

import torch
from torch import Tensor

from nipde.estimators.paper.attention import QueryKey
from nipde.estimators.paper.nips import NIPS

#: Root mean square of a learned response over that of a pair's.
RESPONSE_SHARE = 0.3
#: W_Qᵀ W_K as multiples of the identity that training tends to: in the layers before the last, and in the last.
COUPLINGS = (-3.8, 5.8)


@torch.no_grad()
def divide_channels(model: NIPS, loads: Tensor, responses: Tensor, *, reads: int) -> None:
    """Change fresh weights to those of a network that reads its first `reads` pairs; fields are (field, *space)."""
    norm, learned = model.input_norm, model.pairs - reads
    norm.weight[:, reads:] = 0.0
    norm.bias[:, reads:] = torch.cat([_leading(loads, learned), RESPONSE_SHARE * _mixed(responses, learned)]).to(
        norm.bias
    )
    for place, layer in enumerate(model.layers):
        maps = layer.maps
        assert isinstance(maps, QueryKey)
        size = COUPLINGS[place == len(model.layers) - 1]
        alone = torch.eye(*maps.query.weight.shape).to(maps.query.weight)  # one channel for each of the first pairs
        maps.query.weight.copy_(alone * abs(size) ** 0.5 * (1 if size > 0 else -1))
        maps.key.weight.copy_(alone * abs(size) ** 0.5)


def _leading(fields: Tensor, count: int) -> Tensor:
    """The leading components, each of root mean square 1; (token, component)."""
    flat = fields.flatten(1).double()
    return torch.linalg.svd(flat, full_matrices=False)[2][:count].T * flat.shape[1] ** 0.5


def _mixed(fields: Tensor, count: int) -> Tensor:
    """Random combinations, of root mean square 1 in the mean."""
    flat = fields.flatten(1).double()
    return flat.T @ torch.randn(len(flat), count, dtype=flat.dtype) / (flat.square().mean() * len(flat)).sqrt()
