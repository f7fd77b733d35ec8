"""Rows of a grid over several processes: every sum over nodes is a sum over parts.

    analysis    Y = Σ_r F[:, rows_r] V_r      each process its rows, then one all-reduce
    synthesis   V_r = F[:, rows_r]ᵀ Z         each process its rows, nothing to exchange

Backward, the two change places. So an analysis ends in `summed` (all-reduce forward, identity backward) and a
synthesis begins with `copied` (identity forward, all-reduce backward). What stands between them is the same on every
process, and so are its gradients, complete. Any split of the rows will do, also an uneven one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from math import prod
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from nipde.boundary import Neumann
from nipde.errors import GridError
from nipde.grid import Field, Grid
from nipde.spectral.waves import Matrices

#: One tensor, or several in one exchange.
Tensors = tuple[Tensor, ...]


def slices(total: int, parts: int, counts: Sequence[int] | None = None) -> list[slice]:
    """A range cut into parts, as even as can be and the larger ones first, or of these sizes."""
    least, more = divmod(total, parts)
    counts = [least + (part < more) for part in range(parts)] if counts is None else counts
    return [slice(stop - count, stop) for stop, count in zip(accumulate(counts), counts, strict=True)]


@dataclass(frozen=True, eq=False)
class Partition:
    """This process's rows along the first axis of a grid; without a `group` it has all of them.

    Rows are shared evenly, the first processes having one more, unless `counts` says how many each process has.
    """

    #: Whether all parts together are the grid.
    whole: ClassVar[bool] = True
    grid: Grid
    group: "distributed.ProcessGroup | None" = None
    counts: Sequence[int] | None = None

    def __post_init__(self) -> None:
        total = self.grid.shape[0]
        if self.parts > total:
            raise GridError(expected=f"at most {total} processes, one per row", got=self.parts, remedy="use fewer")
        counts = self.counts
        if counts is not None and (len(counts) != self.parts or sum(counts) != total or min(counts) < 1):
            raise GridError(expected=f"rows of {self.parts} processes, {total} together", got=tuple(counts))

    @property
    def parts(self) -> int:
        """Number of processes."""
        return 1 if self.group is None else distributed.get_world_size(self.group)

    @property
    def rows(self) -> slice:
        """Of this process."""
        return self.all_rows[self.place]

    @property
    def all_rows(self) -> list[slice]:
        """Of every process."""
        return slices(self.grid.shape[0], self.parts, self.counts)

    @property
    def place(self) -> int:
        """Number of this process."""
        return 0 if self.group is None else distributed.get_rank(self.group)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes per axis of this process's part."""
        return (self.rows.stop - self.rows.start, *self.grid.shape[1:])

    @property
    def share(self) -> float:
        """Of the nodes."""
        return self.shape[0] / self.grid.shape[0]

    def cut(self, field: Field) -> Field:
        """This process's rows of a field of the whole grid, a view."""
        self.grid.check(field)
        return field[(..., self.rows, *(slice(None),) * (self.grid.dimension - 1))]

    def cut_matrices(self, matrices: Matrices) -> Matrices:
        """The transforms of the whole grid, on this process's rows."""
        return (matrices[0][:, self.rows], *matrices[1:])

    def sum(self, *values: Tensor) -> Tensors:
        """Sums over all processes in one exchange; not differentiable."""
        return values if self.group is None else _exchanged(self.group, values)

    def summed(self, *values: Tensor) -> Tensors:
        """The same at the end of an analysis: gradients of the sums are those of the parts."""
        return values if self.group is None else _Summed.apply(self.group, *values)  # type: ignore[no-untyped-call]

    def copied(self, *values: Tensor) -> Tensors:
        """What all processes have alike, before each uses it on its own rows: their gradients are summed."""
        return values if self.group is None else _Copied.apply(self.group, *values)  # type: ignore[no-untyped-call]

    def total(self, values: Tensor) -> Tensor:
        """A sum over all rows that every process uses on its own."""
        return self.copied(*self.summed(values))[0]

    def all_to_all(self, pieces: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> Tensors:
        """One piece to every process for one of these shapes from each; gradients go the other way."""
        if self.group is None:
            return tuple(pieces)
        given, taken = [piece.numel() for piece in pieces], [prod(shape) for shape in shapes]
        flat = torch.cat([piece.reshape(-1) for piece in pieces])
        parts = _AllToAll.apply(self.group, given, taken, flat).split(taken)  # type: ignore[no-untyped-call]
        return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))

    def with_halo(self, field: Float[Tensor, "*batch_rows_space"], width: int) -> Tensor:
        """This process's rows and a halo of up to `width` rows of its neighbours; see `halo_grid`."""
        if self.group is None:
            return field
        axis, own, wanted = (
            -self.grid.dimension,
            self.rows,
            [self._halo_rows(part, width) for part in range(self.parts)],
        )
        theirs = [[row - own.start for row in rows if own.start <= row < own.stop] for rows in wanted]
        pieces = [field.index_select(axis, self._index(rows, field)) for rows in theirs]
        places = [[place for place, row in enumerate(wanted[self.place]) if rows.start <= row < rows.stop]
                  for rows in self.all_rows]  # fmt: skip
        lead, space = field.shape[:axis], self.grid.shape[1:]
        taken = torch.cat(self.all_to_all(pieces, [(*lead, len(rows), *space) for rows in places]), axis)
        return taken.index_select(axis, self._index([*chain(*places)], field).argsort())

    def halo_grid(self, width: int) -> tuple[Grid, int]:
        """The grid of rows and halo, with ends of its own where it is cut, and the number of its first own row."""
        if self.group is None:
            return self.grid, 0
        rows, first = self._halo_rows(self.place, width), self.grid.axes[0]
        boundary = Neumann() if first.boundary.periodic else first.boundary
        axis = replace(first, nodes=len(rows), length=first.spacing * (len(rows) - 1), boundary=boundary)
        return Grid((axis, *self.grid.axes[1:])), rows.index(self.rows.start)

    @staticmethod
    def _index(numbers: list[int], like: Tensor) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=like.device)

    def _halo_rows(self, place: int, width: int) -> list[int]:
        """Rows of a process and its halo; around a periodic axis they go on at the other end."""
        rows, total = self.all_rows[place], self.grid.shape[0]
        near = range(rows.start - width, rows.stop + width)
        return [row % total for row in near if self.grid.axes[0].boundary.periodic or 0 <= row < total]

    def gathered(self, field: Float[Tensor, "*batch_rows_space"]) -> Float[Tensor, "*batch_space"]:
        """The whole field on every process; not differentiable."""
        whole = field.new_zeros(*field.shape[: -self.grid.dimension], *self.grid.shape)
        self.cut(whole).copy_(field)
        return self.sum(whole)[0]


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, *values: Tensor) -> Tensors:
        return _exchanged(group, values)

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> Any:
        return None, *above


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, *values: Tensor) -> Tensors:
        ctx.group = group
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *above: Tensor) -> Any:
        return None, *_exchanged(ctx.group, above)


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, given: list[int], taken: list[int], flat: Tensor) -> Tensor:
        ctx.group, ctx.given, ctx.taken = group, given, taken
        return _all_to_all(group, flat, given, taken)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> Any:
        return None, None, None, _all_to_all(ctx.group, above.contiguous(), ctx.taken, ctx.given)


def _all_to_all(group: Any, flat: Tensor, given: list[int], taken: list[int]) -> Tensor:
    """One all-to-all."""
    from torch.distributed import _functional_collectives as collectives

    return collectives.wait_tensor(collectives.all_to_all_single(flat, taken, given, group))


def _exchanged(group: Any, values: Tensors) -> Tensors:
    """One all-reduce. The functional form, unlike `distributed.all_reduce`, can be traced by torch.compile."""
    from torch.distributed import _functional_collectives as collectives

    flat = torch.cat([value.reshape(-1) for value in values])
    flat = collectives.wait_tensor(collectives.all_reduce(flat, "sum", group))
    parts = flat.split([value.numel() for value in values])
    return tuple(part.view(value.shape) for part, value in zip(parts, values, strict=True))
