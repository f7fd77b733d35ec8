"""A prior that assumes no law: gated convolutions, the gates from invariants of the pairs at every node.

Invariants are sums over pairs of products of local fields: per pair the load, the response, its slopes and its
curvature, of a vector also the gradient of its divergence. Their Gram matrix does not change under rotations of pairs,
and holds the coefficients of any local law between these fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from nipde.constants import constant
from nipde.context.pairs import Pairs
from nipde.discretisation.tensor_links import tensor_links
from nipde.estimators.conditioned.prior import PriorEstimate, PriorNet, WaveFunction
from nipde.estimators.conditioned.whitening import Whitened
from nipde.grid import Grid
from nipde.kernels.gated import GatedKernel
from nipde.kernels.nonlinear import NonlinearlyCorrectedKernel
from nipde.spectral.transform import transform

#: Odd terms along every axis, where there is a drift.
ODD = 2
#: An odd gate of size 1, in box sizes: what moves with v has the kernel (1 + v·(x - y)/2 + …) Δ⁻¹, and v may be 20.
REACH = 10.0
#: Fields of a prior that its nonlinear correction takes, and numbers between the layers of that.
FIELDS, HIDDEN = 8, 32
#: Slopes, responses over lengths and loads over stiffness are multiplied by these before the network sees them.
SCALES = (10.0, 50.0, 1.0)

#: Rows of neighbouring processes that local fields depend on: two, for the slope of a slope.
HALO = 2

Queries = Float[Tensor, "system query component *space"]
#: a_r of the response, c_r of the load and m_r.
Gates = tuple[Tensor, Tensor, Tensor]


class GatedPrior(nn.Module):
    """Whitened pairs to Σ_r a_r Φ m_r Φᵀ c_r; at the start Δ⁻¹ and small terms.

    Convolutions with even multipliers are symmetric, and only gates could tell x from y. With `drift` there are terms
    a(x) (x - y) Φ m Φᵀ c(y), too: odd along an axis, each made of two gated convolutions.
    """

    linear = True
    piecewise_constant: bool | None = None

    def __init__(
        self, dimension: int, *, components: tuple[int, int], channels: int, terms: int, drift: bool, fields: int,
        modes: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.modes = modes
        self.components, self.terms, self.odd = components, terms, ODD * dimension if drift else 0
        locals_ = field_count(dimension, components)
        numbers = locals_ * (locals_ + 1) // 2 + 3
        gates = (terms + self.odd) * sum(components)
        self.strengths = nn.Parameter(torch.zeros(locals_))
        self.net = PriorNet(dimension, inputs=numbers, outputs=gates + fields, channels=channels)
        self.multipliers = WaveFunction(terms + self.odd)
        self.starts = nn.Parameter(torch.zeros(terms + self.odd))
        with torch.no_grad():
            self.starts[0] = 1.0
            self.starts[terms:] = 1.0
            nn.init.normal_(self.multipliers.outer.weight, std=0.1)

    def forward(self, whitened: Whitened, pairs: Pairs) -> PriorEstimate:
        """Gates near 1."""
        return PriorEstimate(self.checked(self.with_fields(whitened)[0], whitened))

    def checked(self, kernel: GatedKernel, whitened: Whitened) -> GatedKernel:
        """No worse than a homogeneous medium; in training as it is."""
        return kernel if self.training else _no_worse_than_homogeneous(kernel, whitened)

    def with_fields(self, pairs: Whitened) -> tuple[GatedKernel, Float[Tensor, "system field *space"]]:
        """The kernel, and the further `fields` of every node."""
        gates, fields = self.gates(pairs)
        return GatedKernel(pairs.grid, *gates) * (1 / pairs.stiffness_scale).to(fields), fields

    def gates(self, pairs: Whitened) -> tuple[Gates, Float[Tensor, "system field *space"]]:
        """a_r, c_r and m_r of the whitened pairs, and the further `fields`: at this process's rows, of its modes."""
        partition = pairs.waves.partition
        numbers = torch.cat([invariants(pairs, self.strengths), self._constants(pairs)], 1)
        (out, into), count = self.components, self.terms + self.odd
        found = self.net(numbers, partition)
        left, right, fields = found.tensor_split([count * out, count * (out + into)], 1)
        left, right = left.unflatten(1, (count, out)), 1 + right.unflatten(1, (count, into))
        starts = self.starts[:, *(None,) * pairs.grid.dimension]
        multipliers = (starts + self.multipliers(pairs.waves)) * pairs.waves.inverse_laplacian(left)
        if self.modes is not None:
            multipliers = multipliers * pairs.waves.cut(_retained(pairs.grid, self.modes, like=left))
        # Terms, then x times odd ones, then odd ones times y.
        odd = REACH * left[:, self.terms :]
        along = partition.cut(_positions(pairs.grid, left)).repeat_interleave(ODD, 0)[: self.odd].unsqueeze(1)
        left = torch.cat([1 + left[:, : self.terms], along * odd, -odd], 1)
        right = torch.cat([right, along * right[:, self.terms :]], 1)
        return (left, right, torch.cat([multipliers, multipliers[self.terms :]])), fields

    def _constants(self, pairs: Whitened) -> Tensor:
        noise = pairs.noise.square().mean(1).sqrt()
        count = torch.full_like(noise, float(pairs.loads.shape[1]))
        spacing = torch.full_like(noise, pairs.grid.axes[0].spacing)
        constants = [(noise + 1e-5).log() / 4 + 1, count.log() / 4 - 1, spacing.log() / 4]
        axes = (..., None, *(None,) * pairs.grid.dimension)
        return torch.cat([value[axes].expand(-1, 1, *pairs.waves.partition.shape) for value in constants], 1)


@dataclass(frozen=True, eq=False)
class CorrectedGatedPrior:
    """A gated prior and its nonlinear correction: u = K_θ (f + g), g a pointwise function of f, K_θ f and its slopes.

    If A(u) = f is the law and K_θ = A'(0)⁻¹, then u = K_θ (f - r(u)) with r = A - A'(0) of second order: a local
    function of u where A is a balance of stresses. One such step is taken from u = K_θ f. The order of pairs does not
    matter to it.
    """

    prior: GatedPrior
    head: "NonlinearCorrection"
    linear: bool = field(default=False, init=False)
    piecewise_constant: bool | None = field(default=None, init=False)

    def __call__(self, whitened: Whitened, pairs: Pairs) -> PriorEstimate:
        """The correction depends on the size of the box: strains have no unit."""
        kernel, fields = self.prior.with_fields(whitened)
        kernel = self.prior.checked(kernel, whitened)
        stiffness = whitened.stiffness_scale.to(whitened.loads)
        size = float(pairs.grid.volume) ** (1 / pairs.grid.dimension)

        def correction(loads: Tensor, responses: Tensor) -> Tensor:
            return self.head(whitened.grid, loads, responses, fields, stiffness=stiffness, size=size)

        return PriorEstimate(kernel, nonlinear=NonlinearlyCorrectedKernel(whitened.grid, kernel, correction))


class NonlinearCorrection(nn.Module):
    """A pointwise network of slopes, responses, loads and `FIELDS` fields of the prior; zero at the start."""

    def __init__(self, dimension: int, *, components: tuple[int, int]) -> None:
        super().__init__()
        out, into = components
        self.place = nn.Linear(FIELDS, HIDDEN)
        self.inner = nn.Linear(out * (dimension + 1) + into, HIDDEN, bias=False)
        self.middle = nn.Linear(HIDDEN, HIDDEN)
        self.outer = nn.Linear(HIDDEN, (dimension + 1) * into, bias=False)
        nn.init.zeros_(self.outer.weight)

    def forward(
        self, grid: Grid, loads: Queries, responses: Queries, fields: Float[Tensor, "system field *space"], *,
        stiffness: Float[Tensor, " system"], size: float,
    ) -> Queries:  # fmt: skip
        """Loads to add, in the unit of loads; `stiffness` that of the whitened pairs, `size` the length of its box."""
        links, into = tensor_links(grid, responses), loads.shape[2]
        axes = (..., *(None,) * (grid.dimension + 2))
        unit = stiffness[axes] * size
        inputs = [SCALES[0] * slope / size for slope in links.slopes(responses)]
        inputs += [SCALES[1] * responses / size, SCALES[2] * loads / unit]
        rest = self.place(fields.movedim(1, -1)).unsqueeze(1)
        hidden = rest + self.inner(torch.cat(inputs, 2).movedim(2, -1))
        # At rest nothing is added, whatever the network holds.
        outputs = self.outer(self._deep(hidden) - self._deep(rest)).movedim(-1, 2) * links.is_unknown
        plain, stresses = outputs[:, :, :into], outputs[:, :, into:].unflatten(2, (grid.dimension, into))
        pushed = torch.stack([links.slopes(stresses[:, :, axis])[axis] for axis in range(grid.dimension)]).sum(0)
        return (plain + 0.1 * pushed) * links.is_unknown * unit

    def _deep(self, hidden: Tensor) -> Tensor:
        return gelu(self.middle(gelu(hidden)))


def field_count(dimension: int, components: tuple[int, int]) -> int:
    """Fields per pair that `local_fields` gives."""
    return components[1] + components[0] * (2 + dimension) + (dimension if components[0] == dimension > 1 else 0)


def invariants(pairs: Whitened, strengths: Float[Tensor, " field"]) -> Float[Tensor, "system number *space"]:
    """Upper triangle of the Gram matrix, on a signed logarithmic scale; `strengths` are learned units of the fields."""
    fields = local_fields(pairs) * strengths.exp()[:, *(None,) * pairs.grid.dimension]
    flat = fields.flatten(3).permute(0, 3, 2, 1)  # system, node, field, pair
    gram = flat @ flat.mT
    rows, columns = torch.triu_indices(gram.shape[-1], gram.shape[-1], device=gram.device)
    numbers = gram[..., rows, columns].mT
    return (numbers.sign() * torch.log1p(100 * numbers.abs())).unflatten(-1, fields.shape[3:])


def local_fields(pairs: Whitened) -> Float[Tensor, "system pair field *space"]:
    """f, u, its central slopes along every axis, Δu and of vectors ∇(∇·u), all of a common order of magnitude."""
    partition, dimension = pairs.waves.partition, pairs.grid.dimension
    size = float(pairs.grid.volume) ** (1 / dimension)
    grid, start = partition.halo_grid(HALO)
    responses = partition.with_halo(pairs.responses, HALO)
    links = tensor_links(grid, responses)
    slopes = links.slopes(responses)
    curvature = links.laplacian(responses) / links.volume * links.is_unknown
    gradients = (0.2 * size * slope for slope in slopes)
    scaled = [responses, *gradients, 0.02 * size**2 * curvature]
    if responses.shape[2] == dimension > 1:
        divergence = torch.stack([slope[:, :, axis] for axis, slope in enumerate(slopes)]).sum(0).unsqueeze(2)
        scaled += [0.02 * size**2 * slope * links.is_unknown for slope in links.slopes(divergence)]
    *own, is_unknown = (field.narrow(-dimension, start, partition.shape[0]) for field in (*scaled, links.is_unknown))
    return torch.cat([0.02 * size**2 * pairs.loads * is_unknown, *own], 2)


def _no_worse_than_homogeneous(kernel: GatedKernel, pairs: Whitened) -> GatedKernel:
    """The same, but a homogeneous medium for systems whose pairs it explains better.

    Gates are products of a network's outputs and grow without bound on pairs that are unlike those of training: more
    noise, or gaps filled by fields with kinks. What they predict then is many times the response.
    """
    given, axes = pairs.responses.double(), (..., *(None,) * (pairs.responses.ndim - 1))
    # As measured, sums over pairs are sums over whitened ones times their strengths.
    strengths = pairs.strengths[(..., *(None,) * (given.ndim - 2))]

    def size(one: Tensor, *, measured: bool) -> Float[Tensor, " system"]:
        return (one.square() * strengths if measured else one.square()).flatten(1).sum(1)

    compliance, medium = given.new_ones(len(given)), torch.zeros_like(given)
    if kernel.components[0] == kernel.components[1]:
        waves, loads = transform(pairs.grid), pairs.loads.double()
        medium = waves.synthesis(waves.analysis(loads) * waves.inverse_laplacian(loads))
        fit = (strengths * medium * given).flatten(1).sum(1) / size(medium, measured=True)
        # Errors of filled values, whitened, may drown the stiffness of the whitened pairs.
        drowned = ~(size(given - medium, measured=True) <= size(given, measured=True))
        compliance = torch.where(drowned, fit.nan_to_num().clamp(min=0), compliance)
        medium = medium * compliance[axes]
    stiffness = pairs.stiffness_scale
    rest = given - kernel.predict(pairs.loads) * stiffness[axes]
    better = size(rest, measured=True) <= size(given, measured=True)  # false where the kernel is not a number
    if kernel.components == (1, 1):
        better &= size(rest, measured=False) <= size(given - medium, measured=False)
    return kernel if bool(better.all()) else kernel.homogeneous_in(~better, compliance / stiffness)


def _retained(grid: Grid, modes: Sequence[int], *, like: Tensor) -> Float[Tensor, "*mode"]:
    """1 for the longest waves along every axis, 0 for the others."""
    table = torch.zeros(transform(grid).shape, dtype=like.dtype, device=like.device)
    table[tuple(map(slice, modes))] = 1
    return table


def _positions(grid: Grid, like: Tensor) -> Float[Tensor, "axis *space"]:
    """Along every axis, from the middle of the box."""
    return constant(_from_the_middle, grid, like=like)


def _from_the_middle(grid: Grid) -> Float[np.ndarray, "axis *space"]:
    return np.stack([place - axis.length / 2 for place, axis in zip(grid.coordinates, grid.axes, strict=True)])
