"""Readings H u of a material, A(θ) u = f, near a state: H u₀ + J δθ; and Jᵀ P J, the curvature of their misfit.

    J = -(D g)ᵀ diag(D u) C,   g = A⁻¹ Hᵀ,   C = ∂c/∂θ
    Jᵀ P J = Cᵀ ((D g) w (D g)ᵀ ∘ (D u) v (D u)ᵀ) C,   w of sensors, v of pairs

A parameter that changes few links, as one at a node does, needs the products between these links only. One that changes
most of them, as the level of a phase does, has its column by two solves per pair.
"""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.discretisation.link_solver import Inverse
from nipde.estimators.inverse.material_models import MaterialModel, Parameters
from nipde.estimators.inverse.readings import Readings, Values, separable
from nipde.grid import Grid

#: Up to so many readings the Jacobian is formed: smaller than a matrix over links, and exact whatever is missing.
FEW = 64
#: Parameters that change a larger share of the links have their columns by solves.
MOST_LINKS = 0.25
#: Changes of a link below this share of the largest do not count, nor those below the rounding.
NEGLIGIBLE = 1e-9
#: Links whose products are formed together: they stay in the cache.
CHUNK = 128


class Solver(ABC):
    """Responses of a material on one grid at the sensors of a system: A = Dᵀ diag(c) D, readings H A⁻¹ f + offset."""

    grid: Grid
    system: Any
    #: D, from unknowns to links, or to the strains of a solid.
    difference: sparse.csr_array
    #: H, of unknowns.
    sensors: sparse.csr_array
    #: What is given at the outline's end of links, and of the readings, what that brings.
    given: Float[np.ndarray, "link pair"] | float
    offset: Values | float
    #: Loads on the outline; None if there are none.
    outline: Any
    #: Whether ∂(H u)/∂θ is small enough to be formed: for few pairs.
    explicit: ClassVar[bool] = False

    @abstractmethod
    def conductances(self, model: MaterialModel, parameters: Parameters) -> Float[np.ndarray, " link"]:
        """c(θ)."""

    @abstractmethod
    def slopes(self, model: MaterialModel, parameters: Parameters) -> tuple[np.ndarray, sparse.csr_array]:
        """c and ∂c/∂θ."""

    @abstractmethod
    def factor(self, conductances: Float[np.ndarray, " link"]) -> Inverse:
        """Of A."""

    @abstractmethod
    def inflow(self, conductances: Float[np.ndarray, " link"]) -> Float[np.ndarray, "unknown pair"]:
        """f, from loads inside and on the outline."""

    def with_system(self, system: Readings) -> Self:
        """The same loads and sensors with other values or weights."""
        other = copy(self)
        other.system = system
        return other

    def predicted(self, model: MaterialModel, parameters: Parameters) -> Values:
        """H u."""
        conductances = self.conductances(model, parameters)
        return self.sensors @ self.factor(conductances).solve(self.inflow(conductances)) + self.offset

    def linearised(self, model: MaterialModel, parameters: Parameters) -> "Linearised":
        """Derivatives at a state."""
        conductances, changes = self.slopes(model, parameters)
        factor = self.factor(conductances)
        responses = factor.solve(self.inflow(conductances))
        drops = self.difference @ responses - self.given
        return Linearised(self, changes, drops, factor, self.sensors @ responses + self.offset)


@dataclass(frozen=True, eq=False)
class Linearised:
    """H u near a state."""

    solver: Solver
    #: C = ∂c/∂θ.
    changes: sparse.csr_array
    #: D u, less what is given at the outline.
    drops: Float[np.ndarray, "link pair"]
    #: Of A.
    factor: Inverse
    predicted: Values

    @cached_property
    def active(self) -> np.ndarray:
        """Parameters that change a conductance at all."""
        sizes = abs(self.changes).max(axis=0).toarray().ravel()
        return np.flatnonzero(sizes > 1e-10 * sizes.max())

    def gradient(self, weighted: Values) -> Parameters:
        """Of ½ rᵀ P r, r = y - H u, by P r."""
        return np.asarray(self.changes.T @ np.einsum("lp,lp->l", self.adjoint(weighted), self.drops))

    def adjoint(self, values: Values) -> Float[np.ndarray, "link pair"]:
        """D A⁻¹ Hᵀ, of one column per pair."""
        return np.asarray(self.solver.difference @ self.factor.solve(np.asarray(self.solver.sensors.T @ values)))

    @cached_property
    def jacobian(self) -> Float[np.ndarray, "active sensor pair"]:
        """∂(H u)/∂θ by active parameters: -(A⁻¹ Hᵀ)ᵀ ∂(A u)/∂θ of every pair."""
        changes, across = self.changes[:, self.active], self.solver.difference.T.tocsr()
        forces = [across @ (sparse.diags_array(drop) @ changes) for drop in self.drops.T]  # ∂(A u)/∂θ
        sensors = self.solver.sensors
        if len(self.active) * len(forces) < sensors.shape[0]:
            return -np.stack([(sensors @ self.factor.solve(force.toarray())).T for force in forces], axis=-1)
        green = self.factor.solve(sensors.T.toarray())
        return -np.stack([np.asarray(force.T @ green) for force in forces], axis=-1)

    def curvature(
        self, system: Readings, *, precision: type[np.floating] = np.float64
    ) -> Float[np.ndarray, "active active"]:
        """Jᵀ P J on the active parameters; of many readings with weights as the product of one per sensor and pair."""
        if self.solver.explicit or system.count <= FEW:
            return self._exact_curvature(system)
        changes, weights = self.changes[:, self.active].tocsc(), separable(system.weights)
        sizes = np.abs(changes.data)
        changes.data[sizes < max(NEGLIGIBLE, np.finfo(precision).eps) * sizes.max()] = 0.0
        changes.eliminate_zeros()
        wide = np.diff(changes.indptr) > MOST_LINKS * changes.shape[0]
        curvature = np.zeros((len(wide), len(wide)))
        if len(local := np.flatnonzero(~wide)):
            curvature[np.ix_(local, local)] = self._between_links(changes[:, local], weights, precision)
        for parameter in np.flatnonzero(wide):
            row = changes.T @ self._through_links(changes[:, [parameter]], np.outer(*weights))
            curvature[parameter] = curvature[:, parameter] = row
        return curvature if system.nuisance is None else curvature - self._explained(system.nuisance, system.weights)

    def _exact_curvature(self, system: Readings) -> Float[np.ndarray, "active active"]:
        rows = self.jacobian.reshape(len(self.active), -1)
        weighted = rows * system.weights.ravel()
        total = weighted @ rows.T
        if system.nuisance is None:
            return total
        forms = weighted @ system.nuisance.columns
        return np.asarray(total - forms @ system.nuisance.covariance(system.weights) @ forms.T)

    def _between_links(
        self, changes: sparse.csc_array, weights: tuple[np.ndarray, np.ndarray], precision: type[np.floating]
    ) -> Float[np.ndarray, "parameter parameter"]:
        """Of parameters that change few links."""
        links = np.unique(changes.indices)
        per_sensor, per_pair = weights
        drops = (self.drops[links] * np.sqrt(per_pair)).astype(precision)
        left, right = self._of_sensors(per_sensor, links, precision)
        some = changes[links].tocsr().astype(precision)
        half = np.empty((len(links), changes.shape[1]), dtype=precision)
        for first in range(0, len(links), CHUNK):  # the products are symmetric: of every chunk, those with later links
            rows, later = slice(first, first + CHUNK), slice(first, None)
            products = (left[later] @ right[rows].T) * (drops[later] @ drops[rows].T)
            products[:CHUNK] /= 2
            half[rows] = (some[later].T @ products).T
        total = np.asarray(some.T @ half, dtype=np.float64)
        return total + total.T

    def _of_sensors(
        self, per_sensor: Float[np.ndarray, " sensor"], links: np.ndarray, precision: type[np.floating]
    ) -> tuple[Any, Float[np.ndarray, "link column"]]:
        """Factors of (D g) w (D g)ᵀ; by way of all unknowns where there are more sensors than these."""
        difference, sensors = self.solver.difference[links], self.solver.sensors
        if len(per_sensor) <= sensors.shape[1]:
            green = difference @ self.factor.solve(sensors.T.toarray())
            green = (green * np.sqrt(per_sensor)).astype(precision)
            return green, green
        inverse = self.factor.solve(np.eye(sensors.shape[1])).astype(precision)
        weights = (sensors.T @ sparse.diags_array(per_sensor) @ sensors).astype(precision)
        difference = difference.astype(precision)
        return difference, np.asarray(difference @ (inverse @ np.asarray(weights @ inverse)))

    def _through_links(self, change: sparse.csc_array, weights: Values) -> Float[np.ndarray, " link"]:
        """Jᵀ W J before its last factor Cᵀ, of a column of C."""
        across, sensors = self.solver.difference.T, self.solver.sensors
        moved = sensors @ self.factor.solve(np.asarray(across @ (self.drops * change.toarray())))
        return np.einsum("lp,lp->l", self.adjoint(weights * moved), self.drops)

    def _explained(self, nuisance: Any, weights: Values) -> Float[np.ndarray, "active active"]:
        """What errors with a pattern take from the curvature: (Jᵀ W B) Cov(a) (Jᵀ W B)ᵀ."""
        weights = np.outer(*separable(weights))
        columns = np.hstack([self.adjoint(weights * pattern) * self.drops for pattern in nuisance.patterns])
        forms = self.changes[:, self.active].T @ columns
        return np.asarray(forms @ nuisance.covariance(weights) @ forms.T)
