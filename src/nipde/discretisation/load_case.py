"""The loads of one test on a specimen: a density, and what acts on parts of its outline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float

from nipde.discretisation.cut_cells import CutCells
from nipde.discretisation.links import OnLinks
from nipde.discretisation.parts import Condition, DirichletPart, NeumannPart, RobinPart, Terminal, check_loads
from nipde.errors import PhysicsError

#: Of x and y, or of x, y and z.
Function = Callable[..., np.ndarray]


@dataclass(frozen=True)
class LoadCase:
    """Loads of one test: a density of the nodes, and by part a number or a function of x and y.

    `values` of Dirichlet parts, and of the surroundings of Robin parts; `fluxes` into the specimen on Neumann parts;
    `totals`, the flow into terminals. What is not named is 0.
    """

    density: Float[np.ndarray, "*space"] | None = None
    values: Mapping[str, float | Function] = field(default_factory=dict)
    fluxes: Mapping[str, float | Function] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)

    @property
    def on_outline(self) -> "LoadCase":
        """Without the density."""
        return replace(self, density=None)

    def check(self, conditions: Mapping[str, Condition]) -> None:
        """Raise unless every part has the condition that its load belongs to."""
        allowed = {"values": (DirichletPart, RobinPart), "fluxes": (NeumannPart,), "totals": (Terminal,)}
        check_loads({kind: getattr(self, kind) for kind in allowed}, allowed, conditions)

    def inflow(self, cells: CutCells) -> Float[np.ndarray, " node"]:
        """What the fluxes of Neumann parts bring into every cell."""
        flow, pieces = np.zeros(cells.grid.size), cells.pieces
        for part, flux in self.fluxes.items():
            mine = np.flatnonzero([one == part for one in pieces.part])
            np.add.at(flow, pieces.cell[mine], pieces.length[mine] * at_points(flux, pieces.middle[mine]))
        return flow

    def given(self, cells: CutCells) -> OnLinks:
        """Values at the outline's end of links to Dirichlet and Robin parts; 0 on others."""
        values = np.zeros(len(cells.links.first))
        for part, value in self.values.items():
            mine, ends = cells.links_to(part)
            values[mine] = at_points(value, ends)
        return values


def at_points(value: float | Function, points: Float[np.ndarray, "point axis"]) -> Float[np.ndarray, " point"]:
    """Of a number, or of a function of the coordinates."""
    values = np.asarray(value(*points.T) if callable(value) else value, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        raise PhysicsError(expected="finite data of a part", got="others", remedy="check the value or its function")
    return np.broadcast_to(values, len(points))
