"""A random part of the nodes of a grid: every sum over all nodes is one over the part, times all / chosen.

An axis is cut into equal strata, and one line is drawn from each; where a stratum ends within a spacing, that line may
occur twice. The part is the product of these lines, so transforms remain products of one matrix per axis. Sums are
estimates without bias; what is not linear in them, a kernel above all, is biased by their scatter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.random import Generator
from torch import Tensor

from nipde.errors import GridError
from nipde.grid import Field, Grid
from nipde.spectral.partition import Partition, Tensors
from nipde.spectral.waves import Matrices


@dataclass(frozen=True, eq=False)
class SampledNodes(Partition):
    """Chosen lines of every axis, as many nodes as strata."""

    whole = False
    lines: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def drawn(cls, grid: Grid, lines: int, *, rng: Generator) -> "SampledNodes":
        """So many lines along every axis."""
        if not all(2 <= lines <= nodes for nodes in grid.shape):
            raise GridError(
                expected=f"2 to {min(grid.shape)} sampled lines of an axis", got=lines, remedy="sample fewer, or all"
            )
        places = (np.arange(lines) + rng.random((grid.dimension, lines))) / lines
        chosen = [np.floor(at * nodes).astype(int).tolist() for at, nodes in zip(places, grid.shape, strict=True)]
        return cls(grid, lines=tuple(map(tuple, chosen)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes per axis of the part."""
        return tuple(map(len, self.lines))

    @property
    def share(self) -> float:
        """Of the nodes."""
        return float(np.prod(self.shape)) / self.grid.size

    def cut(self, field: Field) -> Field:
        """The part of a field of the whole grid."""
        self.grid.check(field)
        part: Any = field
        for axis, lines in enumerate(self.lines, start=-self.grid.dimension):
            if isinstance(part, Tensor):
                part = part.index_select(axis, torch.tensor(lines, device=part.device))
            else:
                part = np.take(part, lines, axis=axis)
        return part

    def cut_matrices(self, matrices: Matrices) -> Matrices:
        """The transforms of the whole grid, on the part."""
        return tuple(matrix[:, list(lines)] for matrix, lines in zip(matrices, self.lines, strict=True))

    def sum(self, *values: Tensor) -> Tensors:
        """Of all nodes, from those of the part."""
        return tuple(value / self.share for value in values)

    def summed(self, *values: Tensor) -> Tensors:
        """The same: gradients are those of the part."""
        return self.sum(*values)

    def gathered(self, field: Float[Tensor, "*batch_rows_space"]) -> Any:
        """Nothing is known between the lines."""
        raise GridError(expected="all nodes of a grid", got="a part of them", remedy="use a partition")
