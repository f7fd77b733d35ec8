"""What one step minimises: the mean over functions of the relative L² error of the estimated kernel's answers.

A model with a prior may be asked to make the answers of its prior alone good as well.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nipde.context.sampling import Sampler
from nipde.data.archive import Archive
from nipde.evaluation.metrics import relative_errors
from nipde.training.group import Group
from nipde.training.models import build
from nipde.training.recipe import TrainingRecipe
from nipde.training.source import Batch, Source


class Task(nn.Module):
    """A network together with its loss: the module that processes share the gradients of."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, *, prior_weight: float = 0.0) -> Float[Tensor, "sample query"]:
        """Relative error of every answer, plus `prior_weight` times that of the prior alone."""
        kernel, grid = self.model(batch.context), batch.context.grid
        if not prior_weight:
            return relative_errors(grid, kernel.predict(batch.loads), batch.responses)
        answers, prior_answers = kernel.predict_with_prior(batch.loads)
        prior_errors = relative_errors(grid, prior_answers, batch.responses)
        return relative_errors(grid, answers, batch.responses) + prior_weight * prior_errors


def task_of(recipe: TrainingRecipe, archive: Archive) -> Task:
    """The task with weights drawn from the recipe's seed."""
    torch.manual_seed(recipe.seed)
    load, response = (len(quantity.components) for quantity in (archive.quantities.load, archive.quantities.response))
    model = build(recipe.model, archive.grid, pairs=recipe.contexts[0], components=load, response_components=response)
    return Task(model.to(dtype=getattr(torch, recipe.precision)))


def training_source(
    recipe: TrainingRecipe, archive: Archive, group: Group, *, sharing: int = 1
) -> tuple[Source, Sampler]:
    """Training systems and training loads, and how they are drawn; `sharing` archives share the memory."""
    source = Source(archive, "train", dtype=getattr(torch, recipe.precision), device=group.device, sharing=sharing)
    sampler = Sampler(
        systems=len(source.systems), pairs=len(source.pairs), context=recipe.context,
        queries=recipe.queries, orders=recipe.orders, seed=recipe.seed,
    )  # fmt: skip
    return source, sampler
