"""Values of cells told at nodes: v(node) = mean of the one, two or four cells that meet there.

The trapezoidal integral of the nodal values is the integral over the cells, and no information is lost: with one more
node than cells along each axis, the cells follow from the nodes.
"""

import numpy as np
from jaxtyping import Float


def node_means(cells: Float[np.ndarray, "*batch cell_x cell_y"]) -> Float[np.ndarray, "*batch x y"]:
    """Cells to nodes."""
    wide = np.pad(cells, [(0, 0)] * (cells.ndim - 2) + [(1, 1)] * 2, mode="edge")
    across = (wide[..., :-1, :] + wide[..., 1:, :]) / 2
    return (across[..., :-1] + across[..., 1:]) / 2


def cells_of(nodes: Float[np.ndarray, "*batch x y"]) -> Float[np.ndarray, "*batch cell_x cell_y"]:
    """Nodes back to cells, in double precision: least squares, exact up to rounding."""
    inverse_x, inverse_y = (np.linalg.pinv(_means_along(count - 1)) for count in nodes.shape[-2:])
    return inverse_x @ nodes.astype(np.float64) @ inverse_y.T


def _means_along(cells: int) -> Float[np.ndarray, "node cell"]:
    """The matrix of one axis: ends are taken as they are, in between two cells meet."""
    wide = np.pad(np.eye(cells), [(1, 1), (0, 0)], mode="edge")
    return (wide[:-1] + wide[1:]) / 2
