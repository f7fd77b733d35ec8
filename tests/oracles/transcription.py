"""The paper's models once more, equation by equation, with complex FFTs and no care for speed.

Each function reads the parameters of a model and returns its response to the loads of the context, u = ∫ K f. They
are the oracle of the fast paths, and `python -m benchmarks step` measures their speed against it.
"""

from math import sqrt
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.context.scaling import Scaling
from nipde.estimators.paper.afno import AFNO, SHRINKAGE, AFNOLayer
from nipde.estimators.paper.attention import Attention, Projections, QueryKey, linear_attention
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS, NIPSMLP, NIPSLayer
from nipde.estimators.paper.token_model import TokenModel
from nipde.spectral.filter import SpectralFilter
from nipde.spectral.waves import Matrices, analysis, synthesis


def convolve(
    multiplier: SpectralFilter, tokens: Float[Tensor, "sample token pair"]
) -> Float[Tensor, "sample token pair"]:
    """F⁻¹(R · F v) for every scalar field, corner by corner."""
    axes = tuple(range(2, 2 + len(multiplier.shape)))
    fields = tokens.unflatten(1, (len(multiplier.weight), *multiplier.shape))
    spectrum = torch.fft.rfftn(fields, dim=axes)
    weights = torch.view_as_complex(multiplier.weight)
    found = torch.zeros_like(spectrum)
    for corner in range(weights.shape[1]):
        rows = [
            slice(-modes, None) if corner >> axis & 1 else slice(0, modes)
            for axis, modes in enumerate(multiplier.modes[:-1])
        ]
        place = (slice(None), slice(None), *rows, slice(0, multiplier.modes[-1]))
        found[place] = spectrum[place] * weights[:, corner, ..., None]
    return torch.fft.irfftn(found, s=multiplier.shape, dim=axes).flatten(1, -2)


def plain_fourier_attention(
    tokens: Float[Tensor, "field *space sample pair"],
    blocks: Float[Tensor, "field mode parity parity"],
    weights: Projections,
    *,
    scale: float,
    matrices: Matrices,
) -> Float[Tensor, "field *space sample pair"]:
    """The definition of `nipde.estimators.paper.fourier_attention.fourier_attention`."""
    flat = tokens.flatten(-2)
    convolved = synthesis(blocks @ analysis(flat, matrices), matrices).view_as(tokens)
    queries = convolved @ weights.query.T + weights.query_bias
    keys = tokens @ weights.key.T + weights.key_bias
    return torch.einsum(
        "...bk,bke->...be", queries, scale * torch.einsum("tbk,tbe->bke", keys.flatten(0, -3), tokens.flatten(0, -3))
    )


def plain_nips(
    model: NIPS | NIPSMLP, pairs: Pairs, *, attention: Attention = linear_attention
) -> Float[Tensor, "*batch_pair_component_space"]:
    """NIPS and NIPS-mlp, algorithm 1 of the paper in its authors' order: convolve all d channels, then project."""
    nips = model.nips if isinstance(model, NIPSMLP) else model
    tokens, scaling = _tokens(nips, pairs)
    layers = [cast(NIPSLayer, layer) for layer in nips.layers]
    scale = nips.attention_scale(nips.channels)
    found = nips.input_norm(tokens)
    for layer in layers:
        if layer.norm is not None:
            asking = convolve(layer.filter, found)
            found = found + layer.norm(attention(asking, found, layer.maps.projections(), scale))
    last, half = layers[-1], nips.tokens // 2
    convolved = convolve(last.filter, found)
    queries = last.maps.query(convolved[:, :half] + convolved[:, half:])
    keys = last.maps.key(found[:, :half])
    loads = tokens[:, :half]
    if isinstance(model, NIPSMLP):
        loads = loads + model.mixer(loads.mT).mT
    return _response(queries, keys, loads, channels=nips.channels, model=nips, pairs=pairs, scaling=scaling)


def plain_nao(
    model: NAO, pairs: Pairs, *, attention: Attention = linear_attention
) -> Float[Tensor, "*batch_pair_component_space"]:
    """NAO and its variants: every kernel network is evaluated pair of nodes by pair of nodes."""
    tokens, scaling = _tokens(model, pairs)
    found = model.input_norm(tokens)
    *before, last = (cast(QueryKey, maps) for maps in model.maps)
    for layer, (maps, norm) in enumerate(zip(before, model.norms, strict=True)):
        asking = model.projected(layer, found)
        found = found + norm(attention(asking, found, maps.projections(), model.attention_scale(model.channels)))
    queries = last.query(model.projected(len(before), found))
    size, half = model.grid.size, model.tokens // 2
    weights = tokens.new_tensor(model.grid.weights / model.grid.volume).flatten()
    seen = torch.zeros_like(queries[:, :half])
    for field, network in enumerate(model.kernel_networks):
        values = network()
        into = slice((field % model.components) * size, (field % model.components + 1) * size)
        seen[:, into] += (values * weights) @ queries[:, field * size : (field + 1) * size]
    return _response(
        seen, last.key(found[:, :half]), tokens[:, :half],
        channels=model.channels, model=model, pairs=pairs, scaling=scaling,
    )  # fmt: skip


def plain_afno(model: AFNO, pairs: Pairs) -> Float[Tensor, "*batch_pair_component_space"]:
    """AFNO in complex numbers."""
    tokens, scaling = _tokens(model, pairs)
    fields = (model.input_norm(tokens) + model.token_bias).unflatten(1, (model.fields, *model.grid.shape))
    axes = tuple(range(2, 2 + model.grid.dimension))
    for layer in (cast(AFNOLayer, layer) for layer in model.layers):
        modes = torch.fft.rfftn(fields, dim=axes, norm="ortho")
        inner, outer = ((torch.complex(*part.weight), torch.complex(*part.bias)) for part in (layer.inner, layer.outer))
        hidden = modes @ inner[0] + inner[1]
        hidden = torch.complex(hidden.real.clamp_min(0), hidden.imag.clamp_min(0))
        mixed = hidden @ outer[0] + outer[1]
        mixed = torch.complex(
            *(part.sign() * (part.abs() - SHRINKAGE).clamp_min(0) for part in (mixed.real, mixed.imag))
        )
        fields = fields + torch.fft.irfftn(mixed, s=model.grid.shape, dim=axes, norm="ortho")
    loads, responses = fields.flatten(1, -2).chunk(2, dim=1)
    return _response(
        responses, loads, tokens[:, : model.tokens // 2],
        channels=model.pairs, model=model, pairs=pairs, scaling=scaling,
    )  # fmt: skip


def _tokens(model: TokenModel, pairs: Pairs) -> tuple[Tensor, Scaling]:
    scaling = Scaling.of(pairs)
    return model.tokens_of(pairs, scaling), scaling


def _response(
    queries: Tensor,
    keys: Tensor,
    loads: Tensor,
    *,
    channels: int,
    model: TokenModel,
    pairs: Pairs,
    scaling: Scaling,
) -> Tensor:
    """s Q (Kᵀ W f), in physical units."""
    weights = loads.new_tensor(model.grid.weights / model.grid.volume).flatten().repeat(model.components)
    found = queries @ (keys.mT @ (weights[:, None] * loads)) / sqrt(channels)
    fields = found.mT.reshape(pairs.responses.shape)
    return fields * scaling.response[(..., *(None,) * (model.grid.dimension + 2))]
