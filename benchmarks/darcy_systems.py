"""Darcy systems for measurements, made on the spot: the loads of `darcy-literal` (α = 1), two phases 12 and 3."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.data.darcy import FACE_MEANS, DarcyRecipe
from nipde.data.system import System
from nipde.evaluation.truth import true_kernels
from nipde.kernels.dense import DenseKernel
from nipde.physics.darcy import Darcy


def systems(indices: Iterable[int], *, nodes: int, pairs: int, seed: int) -> list[System]:
    """Independent systems, each with loads of its own, in double precision; an index is always the same system."""
    recipe = DarcyRecipe(nodes=nodes, pairs=pairs, precision="float64")
    return [recipe.build(np.random.SeedSequence((seed, index)).generate_state(1, np.uint64)[0]) for index in indices]


def pairs_of(made: Sequence[System]) -> Pairs:
    """Their pairs, one batch axis."""
    loads, responses = (torch.tensor(np.stack([getattr(one, name) for one in made])) for name in ("loads", "responses"))
    return Pairs(made[0].grid, loads, responses)


def green_kernels(made: Sequence[System]) -> DenseKernel:
    """Their true kernels."""
    return true_kernels([Darcy(one.grid, one.hidden[0], FACE_MEANS["harmonic"]) for one in made])
