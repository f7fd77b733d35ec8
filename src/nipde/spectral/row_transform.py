"""The transform of a grid whose rows are spread over processes, with all of its modes.

A process has its rows of a field and its columns of the coefficients: numbers of the second axis. Between the first
axis and the others, rows are exchanged for columns, all to all. What is done mode by mode stays within a process, and
none holds more than its share of anything. With few retained modes it is cheaper to sum them (`Partition`).
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, cat

from nipde.errors import GridError
from nipde.grid import Grid
from nipde.spectral.partition import Partition, slices
from nipde.spectral.transform import Transform, transform


@dataclass(frozen=True, eq=False)
class RowTransform:
    """Of this process's rows; if it has all of them, the usual one."""

    partition: Partition

    def __post_init__(self) -> None:
        most = 1 if self.grid.dimension == 1 else self._whole.shape[1]
        if self.partition.parts > most:
            raise GridError(
                expected=f"at most {most} processes, one per mode of the second axis", got=self.partition.parts,
                remedy="use fewer",
            )  # fmt: skip

    @property
    def grid(self) -> Grid:
        """The whole one."""
        return self.partition.grid

    def analysis(self, field: Float[Tensor, "*batch_rows_space"]) -> Float[Tensor, "*batch_mode_columns"]:
        """Coefficients of this process's columns."""
        if self.partition.group is None:
            return self._whole.analysis(field)
        values = self._whole.analysed(field, axes=range(1, self.grid.dimension))
        rows, columns = -self.grid.dimension, 1 - self.grid.dimension
        values = self._exchanged(values, cut=columns, at=self._columns, join=rows, of=self.partition.all_rows)
        return self._whole.analysed(values, axes=[0])

    def synthesis(self, coefficients: Float[Tensor, "*batch_mode_columns"]) -> Float[Tensor, "*batch_rows_space"]:
        """The field at this process's rows."""
        if self.partition.group is None:
            return self._whole.synthesis(coefficients)
        values = self._whole.synthesised(coefficients, axes=[0])
        rows, columns = -self.grid.dimension, 1 - self.grid.dimension
        values = self._exchanged(values, cut=rows, at=self.partition.all_rows, join=columns, of=self._columns)
        return self._whole.synthesised(values, axes=range(1, self.grid.dimension))

    def cut(self, table: Float[Tensor, "*batch_mode"]) -> Float[Tensor, "*batch_mode_columns"]:
        """This process's columns of what is known of all modes, a view."""
        if self.partition.group is None:
            return table
        own = self._columns[self.partition.place]
        return table.narrow(1 - self.grid.dimension, own.start, own.stop - own.start)

    def inverse_laplacian(self, like: Tensor) -> Float[Tensor, "*mode_columns"]:
        """As the usual transform has it."""
        return self.cut(self._whole.inverse_laplacian(like))

    def _exchanged(self, values: Tensor, *, cut: int, at: list[slice], join: int, of: list[slice]) -> Tensor:
        """Cut one axis into what the processes take, join another from what they give."""
        pieces = [values.narrow(cut, part.start, part.stop - part.start) for part in at]
        shape, shapes = list(pieces[self.partition.place].shape), []
        for part in of:
            shape[join] = part.stop - part.start
            shapes.append(tuple(shape))
        return cat(self.partition.exchanged(pieces, shapes), join)

    @property
    def _columns(self) -> list[slice]:
        """Of every process."""
        return slices(self._whole.shape[1], self.partition.parts)

    @property
    def _whole(self) -> Transform:
        return transform(self.grid)
