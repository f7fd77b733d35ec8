"""Gated Conditioned NIPS with the rows of the grid spread over processes: each has its rows of every field.

Sums over nodes are sums over processes, transforms exchange rows for columns, slopes need a halo. Parameters
are copied to every process and all else is its own: gradients are summed once per exchange, and are then complete and
equal on each of them. All processes take part in every call, in the same order.
"""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from nipde.errors import PairsError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.conditioned.gated_prior import GatedPrior, Gates
from nipde.estimators.conditioned.whitening import noise_or_zero
from nipde.estimators.paper.spread import Rows, relative_errors
from nipde.kernels.gated import gated_responses
from nipde.spectral.full_precision import full_precision
from nipde.spectral.partition import Partition
from nipde.spectral.slab_transform import SlabTransform


@dataclass(frozen=True, eq=False)
class SpreadGatedKernel:
    """The rows of this process, on a box of volume 1."""

    waves: SlabTransform
    gates: Gates
    #: Of the prior, from whitened to physical units.
    scale: Float[Tensor, " system"]
    #: Fields l and r of the correction.
    left: Float[Tensor, "system pair component *rows"] | None = None
    right: Float[Tensor, "system pair component *rows"] | None = None

    def predict(self, loads: Rows) -> Rows:
        """Responses at this process's rows to loads given at them."""
        return self.predict_with_prior(loads)[0]

    def predict_with_prior(self, loads: Rows) -> tuple[Rows, Rows]:
        """The response, and that of the prior alone."""
        axes = (..., *(None,) * (loads.ndim - 1))
        alone = gated_responses(loads, *self.gates, waves=self.waves) * self.scale[axes]
        if self.left is None or self.right is None:
            return alone, alone
        partition = self.waves.partition
        weighted = loads.to(alone) * alone.new_tensor(partition.cut(partition.grid.weights))
        amounts = partition.total(weighted.flatten(2) @ self.right.flatten(2).mT)
        return alone + (amounts @ self.left.flatten(2)).view_as(alone), alone

    def errors(self, loads: Rows, truth: Rows, *, prior_weight: float = 0.0) -> Float[Tensor, "system query"]:
        """Relative error of every response, plus `prior_weight` times that of the prior; the same on every process."""
        answers, alone = self.predict_with_prior(loads)
        found = relative_errors(answers, truth, partition=self.waves.partition)
        if not prior_weight:
            return found
        return found + prior_weight * relative_errors(alone, truth, partition=self.waves.partition)


def spread_gated(
    model: ConditionedNIPS, loads: Rows, responses: Rows, *, partition: Partition,
    noise: Tensor | float, load_noise: Tensor | float | None = None,
) -> SpreadGatedKernel:  # fmt: skip
    """The kernel from pairs whose rows `partition.cut` has cut out; as in training, gates are taken as they are."""
    if model.config.prior != "gated" or model.config.head:
        raise PairsError(expected="a gated prior without a head", got=model.config.prior, remedy="use one process")
    wanted = partition.shape
    for name, field in (("loads", loads), ("responses", responses)):
        if tuple(field.shape[3:]) != wanted:
            raise PairsError(
                f"{name} are not the rows of this process",
                expected=f"(system, pair, component, {', '.join(map(str, wanted))})", got=tuple(field.shape),
                remedy="partition.cut(field) of fields on the whole grid",
            )  # fmt: skip
    names, values = zip(*model.named_parameters(), strict=True)
    copies = {f"model.{name}": copy for name, copy in zip(names, partition.copied(*values), strict=True)}
    given = {"partition": partition, "noise": noise_or_zero(noise, loads).expand(len(loads)), "load_noise": load_noise}
    with full_precision(model.balance):
        return functional_call(_OnRows(model), copies, (loads.to(model.balance), responses.to(model.balance)), given)


class _OnRows(nn.Module):
    """The estimate, as a module, so that copies can stand for its parameters."""

    def __init__(self, model: ConditionedNIPS) -> None:
        super().__init__()
        self.model = model

    def forward(self, loads: Rows, responses: Rows, **given: Any) -> SpreadGatedKernel:
        whitened, prior = self.model.whitened(loads, responses, **given), self.model.prior
        assert isinstance(prior, GatedPrior)
        scale = (1 / whitened.stiffness_scale).to(loads)
        alone = SpreadGatedKernel(whitened.waves, prior.gates(whitened)[0], scale)
        left, right = self.model.correction(whitened, loads, responses - alone.predict(loads))
        return SpreadGatedKernel(alone.waves, alone.gates, scale, left, right)
