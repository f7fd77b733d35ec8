"""The true operators behind an archive's systems, where its recipe states them."""

import numpy as np
import torch

from nipde.data.archive import Archive
from nipde.data.darcy import FACE_MEANS, DarcyFlow
from nipde.data.finer_mesh import FinerMeshRecipe
from nipde.data.recipe import LinearLaw
from nipde.data.system import System
from nipde.discretisation.links import FaceMean
from nipde.kernels.dense import DenseKernel


def face_mean_of(archive: Archive) -> FaceMean | None:
    """The face mean of an archive of Darcy flow; None for other problems."""
    recipe = archive.plan.recipe
    return FACE_MEANS[recipe.face_mean] if isinstance(recipe, DarcyFlow) else None


def states_coefficient(archive: Archive) -> bool:
    """Whether the hidden field is the b of -∇·(b∇u) = f at the nodes."""
    return isinstance(archive.plan.recipe, DarcyFlow | FinerMeshRecipe)


def true_laws(archive: Archive, read: System) -> list[LinearLaw]:
    """The operator of every system that was read, system axis first; none where the recipe states none."""
    laws = [archive.plan.recipe.law_of(hidden) for hidden in read.hidden]
    return [law for law in laws if law is not None]


def true_kernels(laws: list[LinearLaw]) -> DenseKernel:
    """Their Green's densities by all their values; for small grids."""
    return DenseKernel(laws[0].grid, torch.from_numpy(np.stack([law.green() for law in laws])))
