"""What the whitened pairs share at a node: sums over pairs of products of local fields, blind to rotations of pairs.

Per pair the load, the response, its slopes and its curvature, of a vector also the gradient of its divergence; their
Gram matrix holds the coefficients of any local law between them, without anybody writing the law down.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.estimators.conditioning.whitening import Whitened
from nipde.kernels.fluxes import Fluxes, fluxes_of


def field_count(dimension: int, components: tuple[int, int]) -> int:
    """Fields per pair that `local_fields` gives."""
    return components[1] + components[0] * (2 + dimension) + (dimension if components[0] == dimension > 1 else 0)


def local_count(dimension: int, components: tuple[int, int]) -> int:
    """Numbers per node that `invariants` gives."""
    fields = field_count(dimension, components)
    return fields * (fields + 1) // 2


def invariants(pairs: Whitened, strengths: Float[Tensor, " field"]) -> Float[Tensor, "system number *space"]:
    """Upper triangle of the Gram matrix, on a signed logarithmic scale; `strengths` are learned units of the fields."""
    fields = local_fields(pairs) * strengths.exp()[:, *(None,) * pairs.grid.dimension]
    flat = fields.flatten(3).permute(0, 3, 2, 1)  # system, node, field, pair
    gram = flat @ flat.mT
    rows, columns = torch.triu_indices(gram.shape[-1], gram.shape[-1], device=gram.device)
    numbers = gram[..., rows, columns].mT
    return (numbers.sign() * torch.log1p(100 * numbers.abs())).unflatten(-1, pairs.grid.shape)


def local_fields(pairs: Whitened) -> Float[Tensor, "system pair field *space"]:
    """f, u, its central slopes along every axis, Δu and of vectors ∇(∇·u), all of a common order of magnitude."""
    grid, dimension = pairs.grid, pairs.grid.dimension
    fluxes = fluxes_of(grid, pairs.responses)
    size = float(grid.volume) ** (1 / dimension)
    drops = fluxes.drops(pairs.responses)
    slopes = slopes_of(fluxes, pairs.responses)
    curvature = fluxes.outflow(tuple(drop * shape for drop, shape in zip(drops, fluxes.shapes, strict=True)))
    curvature = curvature / fluxes.weights * fluxes.free
    loads = pairs.loads * fluxes.free
    scaled = [
        0.02 * size**2 * loads,
        pairs.responses,
        *(0.2 * size * slope for slope in slopes),
        0.02 * size**2 * curvature,
    ]
    if pairs.responses.shape[2] == dimension > 1:
        divergence = torch.stack([slope[:, :, axis] for axis, slope in enumerate(slopes)]).sum(0).unsqueeze(2)
        scaled += [0.02 * size**2 * slope * fluxes.free for slope in slopes_of(fluxes, divergence)]
    return torch.cat(scaled, 2)


def slopes_of(fluxes: Fluxes, field: Float[Tensor, "system pair component *space"]) -> list[Tensor]:
    """Along every axis the mean of the two one-sided slopes; at an end the one there is."""
    slopes = []
    for axis, drop in enumerate(fluxes.drops(field)):
        one = torch.ones_like(drop[:1, :1, :1])
        count = fluxes.to_first(one, axis) + fluxes.to_second(one, axis)
        both = fluxes.to_first(drop, axis) + fluxes.to_second(drop, axis)
        slopes.append(both / count / fluxes.grid.axes[axis].spacing)
    return slopes
