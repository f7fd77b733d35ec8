"""J = ∂(H u)/∂θ as products only: J δ = -H A⁻¹ Dᵀ (D u ∘ C δ), Jᵀ v = -Cᵀ (D u ∘ D A⁻¹ Hᵀ v).

Two forms. By solves: one per pair and product. By the sensors' Green's functions g = A⁻¹ Hᵀ, the adjoint solutions of
unit readings: one solve per sensor, once, and every product is a matrix product over links, (D g)ᵀ diag(C δ) D u.
"""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float

from nipde.estimators.inverse.linearised_readings import Linearised

#: Green's functions take at most so many bytes; with more sensors than this, solves are faster as well.
MOST_BYTES, MOST_SENSORS = 2**31, 1000
#: Links that are multiplied together: their part of the Green's functions stays in the cache.
CHUNK = 4096
Changes = Float[np.ndarray, "column parameter"]
OfReadings = Float[np.ndarray, "column sensor pair"]


class ReadingJacobian(ABC):
    """Of readings by parameters near a state, on blocks of columns."""

    def __init__(self, near: Linearised) -> None:
        self.near = near
        #: Right-hand sides solved so far.
        self.solves = 0

    @property
    def readings(self) -> tuple[int, int]:
        """Sensors and pairs."""
        return self.near.solver.sensors.shape[0], self.near.drops.shape[1]

    @property
    def parameters(self) -> int:
        """Length of θ."""
        return int(self.near.changes.shape[1])

    @abstractmethod
    def jvp(self, changes: Changes) -> OfReadings:
        """J δ, of every row δ."""

    @abstractmethod
    def vjp(self, values: OfReadings) -> Changes:
        """Jᵀ v, of every v."""


class JacobianBySolves(ReadingJacobian):
    """A forward solve per pair for J δ, an adjoint one per pair for Jᵀ v."""

    def jvp(self, changes: Changes) -> OfReadings:
        """Column by column: all pairs of one are solved together."""
        near, across = self.near, self.near.solver.difference.T.tocsr()
        found = np.empty((len(changes), *self.readings))
        for number, change in enumerate(changes):
            forces = across @ (near.drops * (near.changes @ change)[:, None])
            found[number] = -(near.solver.sensors @ near.factor.solve(np.asarray(forces)))
        self.solves += found.shape[0] * found.shape[2]
        return found

    def vjp(self, values: OfReadings) -> Changes:
        """By the gradient of a misfit."""
        self.solves += values.shape[0] * values.shape[2]
        return -np.stack([self.near.gradient(one) for one in values])


class JacobianByGreens(ReadingJacobian):
    """One solve per sensor, then none."""

    def __init__(self, near: Linearised) -> None:
        super().__init__(near)
        sensors, difference = near.solver.sensors, near.solver.difference
        self.green = np.empty((difference.shape[0], sensors.shape[0]))
        for first in range(0, sensors.shape[0], 8):  # few at a time: right-hand sides are as large as solutions
            some = slice(first, first + 8)
            self.green[:, some] = difference @ near.factor.solve(sensors[some].T.toarray())
        self.solves = sensors.shape[0]

    def jvp(self, changes: Changes) -> OfReadings:
        """Σ over links of D g, D u and C δ."""
        (sensors, pairs), columns = self.readings, len(changes)
        on_links = np.asarray(self.near.changes @ changes.T)
        total = np.zeros((sensors, columns * pairs))
        for some in self._chunks():
            moved = on_links[some, :, None] * self.near.drops[some, None, :]
            total -= self.green[some].T @ moved.reshape(len(moved), -1)
        return np.ascontiguousarray(total.reshape(sensors, columns, pairs).transpose(1, 0, 2))

    def vjp(self, values: OfReadings) -> Changes:
        """Σ over readings of D g and D u on every link."""
        columns, sensors, pairs = values.shape
        weights = values.transpose(1, 0, 2).reshape(sensors, columns * pairs)
        on_links = np.empty((len(self.green), columns))
        for some in self._chunks():
            both = (self.green[some] @ weights).reshape(-1, columns, pairs)
            on_links[some] = -np.einsum("lcp,lp->lc", both, self.near.drops[some])
        return np.asarray(self.near.changes.T @ on_links).T

    def _chunks(self) -> list[slice]:
        return [slice(first, first + CHUNK) for first in range(0, len(self.green), CHUNK)]


def jacobian_of(near: Linearised) -> ReadingJacobian:
    """The form that needs less time, if it fits."""
    links, sensors = near.solver.difference.shape[0], near.solver.sensors.shape[0]
    fits = 8 * links * sensors <= MOST_BYTES and sensors <= MOST_SENSORS
    return JacobianByGreens(near) if fits else JacobianBySolves(near)
