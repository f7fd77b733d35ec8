"""NIPS and NIPS-mlp with the rows of the grid spread over processes: each has its rows of every field.

    K(x, y) = Σ_r a_r(x) b_r(y),   u(x) = Σ_r a_r(x) ∫ b_r f dy

The integral is a sum over processes. All of them take part in every call, in the same order; gradients of parameters
are then complete and equal on each of them, and no further exchange is needed before an optimiser's step.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from nipde.context.scaling import Scaling
from nipde.errors import PairsError
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.spectral.partition import Partition

#: Queries at a time where rows are worked through in tiles: their fields are as large as those of the context.
QUERIES = 10
#: (sample, pair, component, *rows).
Rows = Float[Tensor, "sample pair component *rows"]


@dataclass(frozen=True, eq=False)
class SpreadKernel:
    """The rows of this process: `left` holds the fields a_r, `right` the fields b_r."""

    partition: Partition
    left: Float[Tensor, "sample token rank"]
    right: Float[Tensor, "sample token rank"]
    #: Of kernels, from the network's units to physical ones.
    scale: Float[Tensor, " sample"]
    #: Queries whose errors are made together, and again in backward; all of them, once, if None.
    together: int | None = None
    #: Of NIPS-mlp: changes loads divided by `unit`.
    mixer: nn.Sequential | None = None
    unit: Float[Tensor, " sample"] | None = None

    def predict(self, loads: Rows) -> Rows:
        """Responses at this process's rows to loads given at them."""
        weights = loads.new_tensor(self.partition.cut(self.partition.grid.weights))
        flat = (self._mixed(loads) * weights).flatten(2).to(self.left)
        amounts = self.partition.total(flat @ self.right) * self.scale[:, None, None].to(self.left)
        return (amounts @ self.left.mT).unflatten(2, loads.shape[2:])

    def errors(self, loads: Rows, truth: Rows) -> Float[Tensor, "sample pair"]:
        """‖K f - u‖ / ‖u‖ in L² over the whole grid, the same on every process."""

        def some(loads: Tensor, truth: Tensor) -> Tensor:
            return relative_errors(self.predict(loads), truth, partition=self.partition)

        if self.together is None:
            return some(loads, truth)
        cut = zip(loads.split(self.together, 1), truth.split(self.together, 1), strict=True)
        each = [checkpoint(some, *part, use_reentrant=False, preserve_rng_state=False) for part in cut]
        return torch.cat(each, dim=1)

    def _mixed(self, loads: Rows) -> Rows:
        """f + MLP(f): its first layer is a sum over nodes, its second one acts at every node."""
        if self.mixer is None or self.unit is None:
            return loads
        first, last = (layer for layer in self.mixer if isinstance(layer, nn.Linear))
        into, out, bias = self.partition.copied(first.weight, last.weight, last.bias)
        unit = self.unit[:, None, None].to(loads)
        flat = loads.flatten(2) / unit
        (sums,) = self.partition.summed(linear(flat, self._columns(into)))
        (hidden,) = self.partition.copied(self.mixer[1](sums + first.bias))
        added = linear(hidden, self._columns(out.T).T, self._columns(bias))
        return ((flat + added) * unit).view_as(loads)

    def _columns(self, weights: Float[Tensor, "*row token"]) -> Float[Tensor, "*row part"]:
        """Of this process's tokens."""
        fields = weights.unflatten(-1, (-1, *self.partition.grid.shape))
        return self.partition.cut(fields).flatten(-self.partition.grid.dimension - 1)


def spread(model: NIPS | NIPSMLP, loads: Rows, responses: Rows, *, partition: Partition) -> SpreadKernel:
    """The kernel from pairs whose rows `partition.cut` has cut out, in physical units as `model(pairs)` has it."""
    network = model.nips if isinstance(model, NIPSMLP) else model
    wanted = (network.pairs, network.components, *partition.shape)
    for name, field in (("loads", loads), ("responses", responses)):
        if tuple(field.shape[1:]) != wanted or partition.grid != network.grid:
            raise PairsError(
                f"{name} are not the rows of this process", expected=f"(sample, {', '.join(map(str, wanted))})",
                got=tuple(field.shape), remedy="partition.cut(field) of fields on the model's grid",
            )  # fmt: skip
    scaling = Scaling(*(_rms(field, partition) for field in (loads, responses)))
    with torch.autocast(loads.device.type, enabled=False):
        left, right = network.factors(network.tokens_from(loads, responses, scaling), partition=partition)
    mixer, unit = (model.mixer, scaling.load) if isinstance(model, NIPSMLP) else (None, None)
    together = None if network.tile_rows is None else QUERIES
    return SpreadKernel(partition, left, right, scaling.kernel / network.grid.volume, together, mixer, unit)


def relative_errors(estimate: Rows, truth: Rows, *, partition: Partition) -> Float[Tensor, "sample pair"]:
    """‖estimate - truth‖ / ‖truth‖ in L² over the whole grid, the same on every process."""
    root = truth.new_tensor(partition.cut(partition.grid.weights)).sqrt()
    weighted = (estimate - truth).mul_(root), truth * root
    parts = [torch.linalg.vector_norm(values.flatten(2), dim=2) for values in weighted]
    # Below the smallest number a square root has no slope.
    apart, size = (square.clamp(min=torch.finfo(square.dtype).tiny).sqrt() for square in _squares(parts, partition))
    return apart / size


def _squares(parts: list[Tensor], partition: Partition) -> tuple[Tensor, ...]:
    return partition.summed(*(part.square() for part in parts))


def _rms(field: Rows, partition: Partition) -> Float[Tensor, " sample"]:
    """As `Scaling` has it."""
    weights = field.new_tensor(partition.cut(partition.grid.weights)).flatten()
    squares = partition.total((field.square().flatten(3) @ weights).mean((1, 2)))
    return (squares / partition.grid.volume).sqrt()
