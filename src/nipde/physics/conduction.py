"""-∇·(b ∇u) = f on a specimen of any shape: Dirichlet, Neumann, Robin parts and terminals, each with its own data.

Darcy flow, heat conduction, current: the balance of every cell cut by the outline (`nipde.discretisation.cut_cells`;
over three axes `prism_cells`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU, splu

from nipde.discretisation.cut_cells import CutCells
from nipde.discretisation.fitted_interface import FittedInterface, fitted_interface
from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.load_case import Function, LoadCase, at_points
from nipde.discretisation.parts import DirichletPart, RobinPart, Terminal
from nipde.errors import PhysicsError
from nipde.physics.balance import check_positive

#: Net load over the sum of absolute loads that still counts as balanced.
BALANCED = 1e-8


@dataclass(frozen=True, eq=False)
class Solution:
    """u at the nodes, NaN outside; and the potential of every terminal."""

    response: Float[np.ndarray, "*space"]
    terminals: dict[str, float]


@dataclass(frozen=True, eq=False)
class Conduction:
    """One specimen: b > 0 at the nodes of the grid, or as a function of the coordinates."""

    cells: CutCells
    coefficient: Float[np.ndarray, "*space"] | Function

    @cached_property
    def conductance(self) -> Float[np.ndarray, " link"]:
        """Flow through every link per unit of difference, but for what triangles at interfaces replace."""
        at, fitted = self._at_points, self.fitted
        if fitted is None:
            return self.cells.conductances(at)
        across = np.array([self.cells.conductances(at[..., [place]]) for place in range(at.shape[-1])])
        lower = np.clip(len(across) / 2 - np.arange(len(across)), 0, 1)  # of what is at the link itself, a half
        kept = np.where(fitted.replaced, 0.0, np.stack([lower @ across, lower[::-1] @ across], axis=-1))
        return np.asarray(kept.sum(axis=1) / len(across))

    @cached_property
    def fitted(self) -> FittedInterface | None:
        """Triangles where the function jumps; over two axes."""
        if self.cells.grid.dimension != 2 or not callable(self.coefficient):
            return None
        return fitted_interface(self.cells, self.coefficient)

    @property
    def _at_points(self) -> Float[np.ndarray, "link along across"]:
        points = self.cells.points()
        if callable(self.coefficient):
            at = np.asarray(self.coefficient(*np.moveaxis(points, -1, 0)), dtype=np.float64)
        else:
            grid, nodal = self.cells.grid, np.asarray(self.coefficient, dtype=np.float64)
            grid.check(nodal, leading=())
            check_positive(nodal, "coefficient")
            log = np.log(nodal)
            ends = [axis.length for axis in grid.axes]
            between = multilinear(grid, np.clip(points.reshape(-1, grid.dimension), 0, ends))
            at = np.exp(between @ log.ravel()).reshape(points.shape[:-1])
        at = np.broadcast_to(at, points.shape[:-1])
        check_positive(at, "coefficient")
        return at

    @cached_property
    def terminals(self) -> tuple[str, ...]:
        """Parts whose potential is unknown."""
        return tuple(name for name, one in self.cells.conditions.items() if isinstance(one, Terminal))

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """Outflow of every active cell, then of every terminal: symmetric."""
        links, number = self.cells.links, self._numbers
        to_part = links.second < 0
        second = np.where(to_part, self._of_part[-1 - np.minimum(links.second, -1)], number[links.second])
        first, c = number[links.first], self.conductance
        if self.fitted is not None:
            numbers = np.concatenate(
                [number, self._count - len(self.fitted.places) + np.arange(len(self.fitted.places))]
            )
            first = np.concatenate([first, numbers[self.fitted.first]])
            second = np.concatenate([second, numbers[self.fitted.second]])
            c = np.concatenate([c, self.fitted.conductance])
        both = second >= 0
        rows = np.concatenate([first, second[both], first[both], second[both]])
        columns = np.concatenate([first, second[both], second[both], first[both]])
        entries = np.concatenate([c, c[both], -c[both], -c[both]])
        return sparse.csc_array((entries, (rows, columns)), shape=(self._count, self._count))

    def solve(self, data: LoadCase) -> Solution:
        """The response to the loads of one test."""
        right = self.moments(data)
        if self.floating:
            net = abs(right.sum()) / max(np.abs(right).sum(), 1e-300)
            if net > BALANCED:
                raise PhysicsError(
                    expected="loads that sum to 0: no part fixes the response", got=f"a net share of {net:.2g}",
                    remedy="balance the loads, or make a part a Dirichlet or Robin part",
                )  # fmt: skip
            values = np.concatenate([[0.0], self._factor.solve(right[1:])])
            held = self.cells.active.sum()
            mean = (
                values[held : held + len(self.terminals)].mean()
                if self.terminals
                else np.average(values[:held], weights=self._measure)
            )
            values = values - mean
        else:
            values = self._factor.solve(right)
        response = np.full(self.cells.grid.size, np.nan)
        active = np.flatnonzero(self.cells.active.ravel())
        response[active] = values[: len(active)]
        terminals = dict(zip(self.terminals, values[len(active) :].tolist(), strict=False))
        return Solution(response.reshape(self.cells.grid.shape), terminals)

    def moments(self, data: LoadCase) -> Float[np.ndarray, " unknown"]:
        """What flows into every active cell and terminal."""
        cells, active = self.cells, self.cells.active.ravel()
        data.check(cells.conditions)
        flow = data.inflow(cells)
        if data.density is not None:
            cells.grid.check(data.density, leading=())
            flow += (data.density * cells.volume).ravel()
        np.add.at(flow, cells.links.first, self.conductance * data.given(cells))
        totals = [data.totals.get(name, 0.0) for name in self.terminals]
        return np.concatenate([flow[active], totals, np.zeros(self._count - self._held)])

    def outflow(self, data: LoadCase, solution: Solution) -> dict[str, float]:
        """What leaves the specimen through every Dirichlet and Robin part and terminal."""
        flows, cells = {}, self.cells
        for part in cells.names:
            mine, ends = cells.links_to(part)
            if len(mine):
                there = solution.terminals.get(part, 0.0) + at_points(data.values.get(part, 0.0), ends)
                drops = solution.response.ravel()[cells.links.first[mine]] - there
                flows[part] = float(np.sum(self.conductance[mine] * drops))
        return flows

    @property
    def floating(self) -> bool:
        """Whether no part fixes the response: it is known up to a constant only."""
        return not any(isinstance(one, DirichletPart | RobinPart) for one in self.cells.conditions.values())

    @cached_property
    def _factor(self) -> SuperLU:
        matrix = self.matrix[1:, 1:].tocsc() if self.floating else self.matrix
        options = {"SymmetricMode": True}
        return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    @cached_property
    def _numbers(self) -> np.ndarray:
        """Of the cells of the grid among the unknowns; -1 of those that are not active."""
        active = self.cells.active.ravel()
        return np.where(active, np.cumsum(active) - 1, -1)

    @cached_property
    def _of_part(self) -> np.ndarray:
        """Number of every part among the unknowns; -1 of those that are no terminal."""
        held = int(self.cells.active.sum())
        return np.array([
            held + self.terminals.index(name) if name in self.terminals else -1 for name in self.cells.names
        ])  # fmt: skip

    @property
    def _count(self) -> int:
        """Of unknowns: cells, terminals, and where interfaces meet links."""
        return self._held + (0 if self.fitted is None else len(self.fitted.places))

    @property
    def _held(self) -> int:
        """Of cells and terminals."""
        return int(self.cells.active.sum()) + len(self.terminals)

    @property
    def _measure(self) -> Float[np.ndarray, " unknown"]:
        return self.cells.measure[self.cells.active]
