"""The laws behind an archive's systems, where the hidden field is one we can invert for: Darcy's."""

import numpy as np
import torch

from nipde.data.archive import Archive
from nipde.data.problems import FACE_MEANS, DarcyFlow
from nipde.data.system import System
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy
from nipde.physics.faces import FaceMean


def face_mean_of(archive: Archive) -> FaceMean | None:
    """How the archive's Darcy systems join two nodes; None for other problems."""
    recipe = archive.plan.recipe
    return FACE_MEANS[recipe.face_mean] if isinstance(recipe, DarcyFlow) else None


def true_laws(archive: Archive, read: System) -> list[Darcy]:
    """The law of every system that was read, system axis first; none for other problems than Darcy's."""
    mean = face_mean_of(archive)
    return [] if mean is None else [Darcy(read.grid, hidden[0].astype(np.float64), mean) for hidden in read.hidden]


def true_kernels(laws: list[Darcy]) -> DenseKernel:
    """Their Green's densities by all their values; for small grids."""
    return DenseKernel(laws[0].grid, torch.from_numpy(np.stack([law.green() for law in laws])))
