"""The transform of a grid in slabs: rows of fields over processes, columns of coefficients, all modes retained.

As in distributed FFTs: a process transforms its rows along all axes but the first, one all-to-all exchanges rows for
columns (modes of the second axis), and the first axis follows. Products mode by mode stay within a process, and
none holds more than its share. With few retained modes sums over processes are cheaper (`Partition`).
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, cat

from nipde.errors import GridError
from nipde.grid import Grid
from nipde.spectral.partition import Partition, slices
from nipde.spectral.transform import Transform, transform


@dataclass(frozen=True, eq=False)
class SlabTransform:
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
        values = self._transposed(values, cut=columns, at=self._columns, join=rows, of=self.partition.all_rows)
        return self._whole.analysed(values, axes=[0])

    def synthesis(self, coefficients: Float[Tensor, "*batch_mode_columns"]) -> Float[Tensor, "*batch_rows_space"]:
        """The field at this process's rows."""
        if self.partition.group is None:
            return self._whole.synthesis(coefficients)
        values = self._whole.synthesised(coefficients, axes=[0])
        rows, columns = -self.grid.dimension, 1 - self.grid.dimension
        values = self._transposed(values, cut=rows, at=self.partition.all_rows, join=columns, of=self._columns)
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

    def _transposed(self, values: Tensor, *, cut: int, at: list[slice], join: int, of: list[slice]) -> Tensor:
        """Cut along one axis, one piece for every process; the pieces received are joined along another."""
        pieces = [values.narrow(cut, part.start, part.stop - part.start) for part in at]
        shape, shapes = list(pieces[self.partition.place].shape), []
        for part in of:
            shape[join] = part.stop - part.start
            shapes.append(tuple(shape))
        return cat(self.partition.all_to_all(pieces, shapes), join)

    @property
    def _columns(self) -> list[slice]:
        """Of every process."""
        return slices(self._whole.shape[1], self.partition.parts)

    @property
    def _whole(self) -> Transform:
        return transform(self.grid)
