"""Fields as matrices: loads F and responses U are (component·node) × d, in float64; W are the weights of their rows."""

from jaxtyping import Float
from torch import Tensor

from nipde.constants import quadrature
from nipde.grid import Grid


def columns(fields: Float[Tensor, "*batch_pair_component_space"], *, grid: Grid) -> Float[Tensor, "*batch row pair"]:
    """One column per pair."""
    return fields.double().flatten(-grid.dimension - 1).mT


def fields(
    columns: Float[Tensor, "*batch row rank"], *, grid: Grid, like: Tensor
) -> Float[Tensor, "*batch_rank_component_space"]:
    """Columns as fields again, in the precision of `like`."""
    return columns.mT.unflatten(-1, (-1, *grid.shape)).to(like.dtype)


def row_weights(columns: Float[Tensor, "*batch row pair"], *, grid: Grid) -> Float[Tensor, " row"]:
    """Quadrature weights of the rows of a matrix, component after component."""
    weights = quadrature(grid, like=columns).flatten()
    return weights.repeat(columns.shape[-2] // grid.size)


def systems_of(matrices: Float[Tensor, "*batch row pair"]) -> Float[Tensor, "system row pair"]:
    """All batch axes joined to one."""
    return matrices.reshape(-1, *matrices.shape[-2:])
