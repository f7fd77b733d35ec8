"""Small strains of a plane solid of any shape: -∇·σ = f, σ from E(x) and ν, in plane stress or plane strain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU

from nipde.discretisation.parts import Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.physics.balance import check_positive
from nipde.physics.plane_elements import PlaneElements, Supported, stiffness_factors
from nipde.physics.triangles import smaller_at_singular_points, triangulated

Plane = Literal["stress", "strain"]
#: Of x and y.
Modulus = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class PlaneElasticity:
    """One specimen; E > 0 at the points of its elements."""

    elements: PlaneElements
    modulus: Float[np.ndarray, " point"]
    poisson: float
    plane: Plane = "stress"

    def __post_init__(self) -> None:
        check_positive(self.modulus, "modulus")

    @classmethod
    def of(
        cls, specimen: Specimen, modulus: float | Modulus, *, poisson: float, spacing: float, plane: Plane = "stress"
    ) -> "PlaneElasticity":
        """With triangles of about this size, smaller ones where stresses are singular."""
        elements = PlaneElements(
            smaller_at_singular_points(triangulated(specimen.shape, spacing), specimen)[0], specimen
        )
        x, y = elements.points.T
        values = np.asarray(modulus(x, y) if callable(modulus) else modulus, dtype=np.float64)
        return cls(elements, np.broadcast_to(values, len(x)), poisson, plane)

    def solve(self, loads: Sequence[SolidLoad]) -> Float[np.ndarray, "displacement pair"]:
        """Displacements of all nodes, x and y in turn."""
        supported = self.supported
        given = supported.given(loads)
        right = supported.forces(loads)
        if given is not None:
            right = right - supported.strain.T @ (self._stiffness[:, None] * (self.elements.strain @ given))
        free = supported.reduced @ self._factor.solve(right)
        return free if given is None else free + given

    def displacements(
        self, loads: Sequence[SolidLoad], points: Float[np.ndarray, "point 2"]
    ) -> Float[np.ndarray, "pair component point"]:
        """At any points."""
        return (self.elements.at(points) @ self.solve(loads)).T.reshape(len(loads), 2, -1)

    def stresses(self, displacement: Float[np.ndarray, " displacement"]) -> Float[np.ndarray, "point 3"]:
        """σx, σy and τ at the points of the elements."""
        mean, difference, shear = ((self._stiffness / np.repeat(self.elements.weights, 3)) * (
            self.elements.strain @ displacement)).reshape(-1, 3).T / np.sqrt(2)  # fmt: skip
        return np.stack([mean + difference, mean - difference, shear], axis=-1)

    @property
    def supported(self) -> Supported:
        """What the supports leave free."""
        return self.elements.supported

    @cached_property
    def _stiffness(self) -> Float[np.ndarray, " row"]:
        factors = stiffness_factors(self.poisson, plane=self.plane)
        return ((self.elements.weights * self.modulus)[:, None] * factors).ravel()

    @cached_property
    def _factor(self) -> SuperLU:
        return self.supported.factor(self._stiffness)
