"""Advection and diffusion -∇·(b ∇u) + ∇·(v u) = f: central fluxes, second order, a kernel that is not symmetric."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.discretisation.links import FaceMean, Harmonic, links_of
from nipde.errors import PhysicsError
from nipde.physics.balance import BalanceLaw, check_positive

#: Central differences oscillate where a cell is swept faster than it diffuses.
PECLET_LIMIT = 2.0


@dataclass(frozen=True, eq=False)
class AdvectionDiffusion(BalanceLaw):
    """One system: diffusivity b > 0 and velocity v, one component per axis, at the nodes."""

    diffusivity: Float[np.ndarray, "*space"]
    velocity: Float[np.ndarray, "axis *space"]
    face_mean: FaceMean = Harmonic()

    def __post_init__(self) -> None:
        self.grid.check(self.diffusivity, leading=())
        self.grid.check(self.velocity, leading=(self.grid.dimension,))
        check_positive(self.diffusivity, "diffusivity")
        fastest = np.max(np.abs(self.velocity))
        if not np.isfinite(fastest):
            raise PhysicsError(expected="finite velocities at every node", got=fastest, remedy="fill the gaps")
        if not self.peclet < PECLET_LIMIT:
            raise PhysicsError(
                "the flow outruns diffusion within one cell",
                expected=f"cell Péclet number < {PECLET_LIMIT:g}",
                got=f"{self.peclet:.3g}",
                remedy=f"refine the grid {int(self.peclet / PECLET_LIMIT) + 1} times or lower the speed",
            )

    @property
    def symmetric(self) -> bool:
        """Never: the flow has a direction."""
        return False

    @cached_property
    def peclet(self) -> float:
        """Largest |v|·spacing/b over all links."""
        links = links_of(self.grid)
        speed = np.abs(links.normal_velocity(self.velocity))
        return float(np.max(speed * links.distance / links.mean(self.diffusivity, self.face_mean)))

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """Outflow matrix on the unknown cells: symmetric diffusion plus transport by the mean of both nodes."""
        links = links_of(self.grid)
        conductance = links.mean(self.diffusivity, self.face_mean) * links.factor
        return links.assemble(conductance=conductance, transport=links.normal_velocity(self.velocity) * links.area)


def asymmetry(green: Float[np.ndarray, "node node"]) -> float:
    """‖G - Gᵀ‖ / ‖G‖ in the Frobenius norm: 0 for a reciprocal law."""
    return float(np.linalg.norm(green - green.T) / np.linalg.norm(green))
