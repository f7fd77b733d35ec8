"""Values at all nodes of a box around a specimen: unknown ones, and ghost nodes next to them, extrapolated linearly.

With a Dirichlet part of value g at the share θ of a spacing from the last node, u_beyond = (2 g - (1 - θ) u_behind) /
(1 + θ), u_behind that of the node before the last: g at the outline. Elsewhere u_beyond = 2 u_last - u_behind.
"""

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Bool, Int

from nipde.discretisation.cut_cells import CutCells
from nipde.discretisation.prism_cells import PrismCells


def ghost_nodes(cells: CutCells) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Values at all nodes from those at active ones, and from the values given on links."""
    return _of_prism(cells) if isinstance(cells, PrismCells) else _of_plane(cells)


def _of_prism(cells: PrismCells) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Extrapolated in the plane, then along the height."""
    plane, in_plane = _of_plane(cells.base)
    height, at_ends = cells.height.ghost_nodes()
    columns = sparse.csr_array(plane[:, np.flatnonzero(cells.base.active.ravel())])
    layers = sparse.csr_array(height[:, np.flatnonzero(cells.height.active)])
    of_sides = sparse.kron(in_plane, layers)
    of_ends = [sparse.kron(columns, at_ends[:, [end]]) for end in cells.linked_ends]
    between = len(cells.links.first) - of_sides.shape[1] - len(of_ends) * columns.shape[1]
    nothing = sparse.csr_array((cells.grid.size, between))
    return sparse.csr_array(sparse.kron(plane, height)), sparse.csr_array(sparse.hstack([of_sides, nothing, *of_ends]))


def _of_plane(cells: CutCells) -> tuple[sparse.csr_array, sparse.csr_array]:
    grid, cut, active = cells.grid, cells.links, cells.active
    number = np.arange(grid.size).reshape(grid.shape)
    shares = {}
    for link in np.flatnonzero(cut.second < 0).tolist():
        along = cut.along[link]
        axis = int(np.argmax(np.abs(along)))
        if along[1 - axis] == 0:  # to a Dirichlet part, along an axis
            shares[int(cut.first[link]), axis, int(np.sign(along[axis]))] = (
                link,
                float(cut.length[link] / grid.spacing[axis]),
            )
    rows: dict[int, list[tuple[dict[int, float], int, float]]] = {}
    for axis in range(2):
        for sign in (1, -1):
            step = np.eye(2, dtype=int)[axis] * sign
            for place in _rim(active):
                beyond, behind = place + step, place - step
                if np.any(beyond < 0) or np.any(beyond >= grid.shape) or active[tuple(beyond)]:
                    continue
                there = np.all(behind >= 0) and np.all(behind < grid.shape) and active[tuple(behind)]
                mine, back = int(number[tuple(place)]), int(number[tuple(behind)]) if there else -1
                link, theta = shares.get((int(np.ravel_multi_index(place, grid.shape)), axis, sign), (-1, 0.0))
                if link >= 0:
                    slope = (1 - theta) / ((1 + theta) if there else max(theta, 0.1))
                    weights = {back if there else mine: -slope}
                    found = (weights, link, 1 + slope)
                else:
                    found = ({mine: 2.0, back: -1.0} if there else {mine: 1.0}, -1, 0.0)
                rows.setdefault(int(np.ravel_multi_index(beyond, grid.shape)), []).append(found)
    unknown = np.flatnonzero(active.ravel()).tolist()
    of_unknown = [(node, node, 1.0) for node in unknown]
    of_given: list[tuple[int, int, float]] = []
    for node, each in rows.items():
        for weights, link, share in each:
            of_unknown += [(node, at, value / len(each)) for at, value in weights.items()]
            of_given += [(node, link, share / len(each))] if link >= 0 else []
    both = [_matrix(of_unknown, (grid.size, grid.size)), _matrix(of_given, (grid.size, len(cut.first)))]
    corners = _corner_nodes(active, {*unknown, *rows})
    return sparse.csr_array(corners @ both[0]), sparse.csr_array(corners @ both[1])


def _corner_nodes(active: Bool[np.ndarray, "*space"], valued: set[int]) -> sparse.csr_array:
    """From all nodes to all nodes. Across a corner from an active one, u = u_first + u_second - u_active.

    First and second are the neighbours of both.
    """
    entries = [(node, node, 1.0) for node in valued]
    found: dict[int, list[tuple[int, int, int]]] = {}
    for step in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        for place in _rim(active):
            ends = tuple(place + np.array(one) for one in (step, (step[0], 0), (0, step[1])))
            if all(np.all(end >= 0) and np.all(end < active.shape) for end in ends):
                corner, first, second = (int(np.ravel_multi_index(end, active.shape)) for end in ends)
                if corner not in valued and first in valued and second in valued:
                    found.setdefault(corner, []).append((first, second, int(np.ravel_multi_index(place, active.shape))))
    for corner, each in found.items():
        for first, second, place in each:
            share = 1 / len(each)
            entries += [(corner, first, share), (corner, second, share), (corner, place, -share)]
    return _matrix(entries, (active.size, active.size))


def _rim(active: Bool[np.ndarray, "*space"]) -> Int[np.ndarray, "node axis"]:
    """Active nodes next to one that is not, or across a corner from it."""
    from scipy.ndimage import binary_erosion

    return np.argwhere(active & ~binary_erosion(active, np.ones((3, 3), dtype=bool), border_value=1))


def _matrix(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    table = np.array(entries, dtype=np.float64).reshape(-1, 3)
    return sparse.csr_array((table[:, 2], tuple(table[:, :2].T.astype(int))), shape=shape)
