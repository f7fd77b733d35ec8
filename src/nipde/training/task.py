"""What is trained: a network together with its loss, on whole grids or on this process's rows of them.

A step minimises the mean over functions of the relative L² error of the estimated kernel's responses; a model with a
prior may be trained on the error of the prior alone as well.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.data.archive import Archive
from nipde.errors import TrainingError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.conditioned.spread import spread_gated
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.estimators.paper.prolongation import start_from
from nipde.estimators.paper.spread import spread
from nipde.evaluation.metrics import relative_errors
from nipde.spectral.partition import Partition
from nipde.training.feed import Batch
from nipde.training.processes import Group, check_mesh
from nipde.training.recipe import TrainingRecipe
from nipde.weights.models import load


class Task(nn.Module):
    """A network together with its loss: the module that processes share the gradients of."""

    def __init__(self, model: nn.Module, *, partition: Partition | None = None) -> None:
        super().__init__()
        #: Where the network works on rows: those of one of several processes, or tiles of them.
        self.model, self.partition = model, partition

    def forward(self, batch: Batch, *, prior_weight: float = 0.0) -> Float[Tensor, "sample query"]:
        """Relative error of every response, plus `prior_weight` times that of the prior alone."""
        partition = batch.nodes or self.partition
        if partition is not None:
            return self._on_rows(batch, partition, prior_weight=prior_weight)
        kernel, grid = self.model(batch.context), batch.context.grid
        if not prior_weight:
            return relative_errors(grid, kernel.predict(batch.loads), batch.responses)
        responses, by_prior = kernel.predict_with_prior(batch.loads)
        prior_errors = relative_errors(grid, by_prior, batch.responses)
        return relative_errors(grid, responses, batch.responses) + prior_weight * prior_errors

    def _on_rows(self, batch: Batch, partition: Partition, *, prior_weight: float) -> Float[Tensor, "sample query"]:
        """The same from this process's rows, or from sampled nodes, of all fields."""
        context = batch.context
        loads, responses, asked, truth = (
            partition.cut(each).contiguous()
            for each in (context.loads, context.responses, batch.loads, batch.responses)
        )
        if isinstance(self.model, ConditionedNIPS):
            assert context.noise is not None  # a feed states it
            gated = spread_gated(
                self.model, loads, responses, partition=partition, noise=context.noise, load_noise=context.load_noise
            )
            return gated.errors(asked, truth, prior_weight=prior_weight)
        assert isinstance(self.model, NIPS | NIPSMLP)
        kernel = spread(self.model, loads, responses, partition=partition)
        return kernel.errors(asked, truth)


def task_of(recipe: TrainingRecipe, archive: Archive, group: Group | None = None) -> Task:
    """The task with weights drawn from the recipe's seed."""
    torch.manual_seed(recipe.seed)
    quantities = archive.quantities
    components = (len(quantities.response.components), len(quantities.load.components))
    model = recipe.model.build(archive.grid, pairs=recipe.contexts[0], components=components)
    if recipe.start is not None:
        start_from(model, load(recipe.start))
    if recipe.tile_rows is not None:
        network = model.nips if isinstance(model, NIPSMLP) else model
        assert isinstance(network, NIPS)
        network.tile_rows = recipe.tile_rows
    model = model.to(dtype=getattr(torch, recipe.precision))
    if group is None or group.mesh is None:
        return Task(model, partition=None if recipe.tile_rows is None else Partition(archive.grid))
    if recipe.sampled_lines is not None:
        raise TrainingError(expected="all nodes, spread over processes", got="sampled_lines", remedy="leave one out")
    check_mesh(group.ranks, space=group.space, model=recipe.model)
    return Task(model, partition=Partition(archive.grid, group.mesh["space"].get_group()))
