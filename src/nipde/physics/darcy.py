"""Darcy flow -∇·(b ∇p) = g, p = 0 on Dirichlet sides: stencil of 2·dimension + 1 points, face means of b."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.discretisation.links import FaceMean, Harmonic, links_of
from nipde.physics.balance import BalanceLaw, check_positive


@dataclass(frozen=True, eq=False)
class Darcy(BalanceLaw):
    """One porous specimen: permeability b > 0 at the nodes; loads are sources g, responses pressures p."""

    permeability: Float[np.ndarray, "*space"]
    face_mean: FaceMean = Harmonic()

    def __post_init__(self) -> None:
        self.grid.check(self.permeability, leading=())
        check_positive(self.permeability, "permeability")

    @property
    def symmetric(self) -> bool:
        """Always: the flow depends on differences only."""
        return True

    @cached_property
    def conductance(self) -> Float[np.ndarray, " link"]:
        """Flow through every link per unit of pressure difference: b·area/distance."""
        links = links_of(self.grid)
        return links.mean(self.permeability, self.face_mean) * links.factor

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """Symmetric positive definite outflow matrix on the unknown cells."""
        return links_of(self.grid).assemble(conductance=self.conductance)

    def flow(self, pressure: Float[np.ndarray, "*space"]) -> Float[np.ndarray, " link"]:
        """Flow through every link, positive from its first cell to its second."""
        self.grid.check(pressure, leading=())
        links, flat = links_of(self.grid), pressure.reshape(-1)
        return self.conductance * (flat[links.first] - flat[links.second])
