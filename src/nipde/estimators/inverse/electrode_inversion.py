"""Electrical impedance tomography by output error: phases of known contrast from voltages at electrodes.

What is fitted are differences to the reference: y = V - V₀ + F(background). A drift of all voltages, and a change of
every electrode's contact, are linearised and integrated out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Float, Int

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.interpolation import multilinear
from nipde.estimators.inverse.electrode_solver import ElectrodeSolver, ElectrodeSystem, combined, system_of
from nipde.estimators.inverse.linearised_readings import Linearised
from nipde.estimators.inverse.material_grid import material_grid
from nipde.estimators.inverse.material_models import Homogeneous, Parameters
from nipde.estimators.inverse.nuisance import LinearErrors
from nipde.estimators.inverse.plateaus import Plateaus, phase_of
from nipde.estimators.inverse.readings import Values
from nipde.physics.triangles import triangulated

#: φ at points.
Expected = Callable[[Float[np.ndarray, "point 2"]], Float[np.ndarray, " point"]]
#: Newton steps for the conductivity of the background, at most.
BACKGROUND_STEPS = 30


@dataclass(frozen=True)
class ElectrodeInversion:
    """Voltages to phases of known contrast in a background; see `Plateaus` for the prior."""

    contrast: float = 5.0
    steepness: float = 2.5
    weight: float = 20.0
    #: Of the prior, as a share of half the width of the body.
    length: float = 0.3
    #: Errors in proportion to the difference to the reference, beside the noise.
    share: float = 0.05
    #: Deviations of a common factor of all voltages, and of an electrode's contact over 1 / σ of the background.
    drift: float = 0.04
    contact: float = 0.0078
    #: Nodes of the material and triangles along the width.
    material: int = 40
    triangles: int = 50
    steps: int = 12
    longest: float = 0.6

    def __call__(self, tests: ElectrodeTests, *, expected: Expected | None = None) -> "ElectrodeLaw":
        """φ of least misfit and penalty; what is expected of it at points is 0 everywhere if not given."""
        low, high = np.array(tests.specimen.shape.region.bounds).reshape(2, 2)
        nodes = material_grid(tests.specimen.shape, self.material)
        mesh = triangulated(tests.specimen.shape, float((high - low).max()) / self.triangles)
        system, differences = system_of(tests)
        solver = ElectrodeSolver(nodes, system, mesh, nodes=nodes)
        level, empty = background(solver, tests)
        half = float((high - low).max()) / 2
        points = np.stack([at.ravel() for at in nodes.coordinates], axis=-1) + low
        model = Plateaus(
            nodes, level, self.contrast, self.steepness, self.weight, self.length * half,
            0.0 if expected is None else expected(points),
        )  # fmt: skip  # α ∫|∇φ|² has no unit in the plane
        noise = tests.noise
        if isinstance(noise, np.ndarray):
            noise = np.where(system.weights > 0, combined(tests).reduced(noise), 1.0)
        variance = noise**2 + (self.share * differences) ** 2
        system = replace(system, values=differences + empty, weights=system.weights / variance)
        parameters, near, system = self._fitted(model, solver, system)
        return ElectrodeLaw(tests, model, parameters, near, system)

    def _fitted(
        self, model: Plateaus, solver: ElectrodeSolver, system: ElectrodeSystem
    ) -> tuple[Parameters, Linearised, ElectrodeSystem]:
        """Gauss-Newton steps, none longer than `longest` anywhere; patterns of errors follow the state."""
        parameters = np.zeros(model.grid.size)
        contacts = np.einsum("rk,ik->kri", system.patterns, system.currents)
        contacts = contacts[np.abs(contacts).max(axis=(1, 2)) > 0]
        for _ in range(self.steps):
            near = solver.linearised(model, parameters)
            patterns = np.concatenate([contacts, near.predicted[None]])
            deviations = np.array([self.contact * exp(-model.background)] * len(contacts) + [self.drift])
            system = replace(system, nuisance=LinearErrors(patterns, deviations))
            step = self._step(model, near, system, parameters)
            before, best = _objective(model, parameters, near.predicted, system), parameters
            for halving in range(4):
                trial = parameters + 0.5**halving * step
                if _objective(model, trial, solver.predicted(model, trial), system) < before:
                    best = trial
                    break
            if best is parameters:
                break
            parameters = best
        return parameters, solver.linearised(model, parameters), system

    def _step(self, model: Plateaus, near: Linearised, system: ElectrodeSystem, parameters: Parameters) -> Parameters:
        precision, slope = model.quadratic(parameters)
        active = near.active
        total = near.curvature(system) + precision[active][:, active].toarray()
        gradient = near.gradient(system.weighted(system.values - near.predicted)) + slope
        step = np.zeros(len(parameters))
        step[active] = -dense.solve(total, gradient[active], assume_a="pos")
        return np.clip(step, -self.longest, self.longest)


@dataclass(frozen=True, eq=False)
class ElectrodeLaw:
    """What was found of a body."""

    tests: ElectrodeTests
    model: Plateaus
    parameters: Parameters
    near: Linearised
    system: ElectrodeSystem

    def field_at(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, " point"]:
        """φ."""
        return np.asarray(self._at(points) @ self.model.field(self.parameters))

    def phase_at(self, points: Float[np.ndarray, "point 2"], *, threshold: float = 0.67) -> Int[np.ndarray, " point"]:
        """-1: less conductive than the background, 1: more, 0: the background."""
        return phase_of(self.field_at(points), threshold)

    def deviation_at(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, " point"]:
        """Standard deviation of φ, to first order, interpolated from the nodes."""
        return np.asarray(self._at(points) @ self._deviation)

    @cached_property
    def _deviation(self) -> Float[np.ndarray, " node"]:
        """Of φ at the nodes; nodes that no triangle touches have that of the prior at most."""
        active = self.near.active
        precision = self.model.quadratic(self.parameters)[0][active][:, active].toarray()
        root = dense.cholesky(self.near.curvature(self.system) + precision, lower=True)
        inverse = dense.lapack.dtrtri(root, lower=1)[0]
        found = np.full(self.model.grid.size, float(np.sqrt(np.sum(inverse**2, axis=0)).max()))
        found[active] = np.sqrt(np.sum(inverse**2, axis=0))
        return found

    def _at(self, points: Float[np.ndarray, "point 2"]) -> sparse.csr_array:
        low = np.array(self.tests.specimen.shape.region.bounds[:2])
        ends = [axis.length for axis in self.model.grid.axes]
        return multilinear(self.model.grid, np.clip(np.asarray(points) - low, 0, ends))

    @property
    def chi_square(self) -> float:
        """rᵀ P r over the number of readings."""
        residual = self.system.values - self.near.predicted
        return float(np.sum(residual * self.system.weighted(residual))) / self.system.count

    @property
    def reference_misfit(self) -> float:
        """‖V₀ - F(background)‖ / ‖V₀‖: far above 0.1 the homogeneous body is not that of the specimen's plane."""
        empty = self.system.values - system_of(self.tests)[1]
        shown = combined(self.tests).reduced(self.tests.reference)
        there = self.system.weights > 0
        return float(np.linalg.norm((shown - empty)[there]) / np.linalg.norm(shown[there]))


def background(solver: ElectrodeSolver, tests: ElectrodeTests) -> tuple[float, Values]:
    """log σ of the body without inclusions, by the reference, and the voltages that it gives."""
    model, weights = Homogeneous(solver.nodes), solver.system.weights
    shown = np.where(weights > 0, combined(tests).reduced(tests.reference), 0.0)
    unit = weights * solver.predicted(model, np.zeros(1))
    parameters = np.array([log(np.sqrt(np.sum(unit**2) / np.sum(shown**2)))])  # exact without contacts
    for _ in range(BACKGROUND_STEPS):
        near = solver.linearised(model, parameters)
        slope = weights * near.jacobian[0]
        step = float(np.sum(slope * (shown - near.predicted)) / np.sum(slope**2))
        parameters = parameters + np.clip(step, -2.0, 2.0)
        if abs(step) < 1e-6:
            break
    return float(parameters[0]), solver.predicted(model, parameters)


def _objective(model: Plateaus, parameters: Parameters, predicted: Values, system: ElectrodeSystem) -> float:
    residual = system.values - predicted
    return float(np.sum(residual * system.weighted(residual))) / 2 + model.penalty(parameters)
