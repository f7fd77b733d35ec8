"""What one step minimises: the mean over functions of the relative L² error of the estimated kernel's answers."""

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

    def forward(self, batch: Batch) -> Float[Tensor, "sample query"]:
        """Relative error of every answer."""
        kernel = self.model(batch.context)
        return relative_errors(batch.context.grid, kernel.predict(batch.loads), batch.responses)


def task_of(recipe: TrainingRecipe, archive: Archive) -> Task:
    """The task with weights drawn from the recipe's seed."""
    torch.manual_seed(recipe.seed)
    components = len(archive.quantities.load.components)
    model = build(recipe.model, archive.grid, pairs=recipe.context, components=components)
    return Task(model.to(dtype=getattr(torch, recipe.precision)))


def training_source(recipe: TrainingRecipe, archive: Archive, group: Group) -> tuple[Source, Sampler]:
    """Training systems and training loads, and how they are drawn."""
    source = Source(archive, "train", dtype=getattr(torch, recipe.precision), device=group.device)
    sampler = Sampler(
        systems=len(source.systems), pairs=len(source.pairs), context=recipe.context,
        queries=recipe.queries, orders=recipe.orders, seed=recipe.seed,
    )  # fmt: skip
    return source, sampler
