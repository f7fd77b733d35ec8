"""Linear reconstructions of log σ from differences of voltages, all of one set of injections and readings at once.

    θ = C Jᵀ (J C Jᵀ + B S² Bᵀ + s²)⁻¹ y,   C⁻¹ = α (-Δ + 1/l²)

J holds derivatives of voltages around the homogeneous body, B patterns of contacts and of a common factor. Several α
and s give several images: some sharp, some free of noise.
"""

from dataclasses import dataclass
from math import exp

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Bool, Float

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.links import factorised
from nipde.errors import PairsError
from nipde.estimators.inverse.electrode_inversion import background
from nipde.estimators.inverse.electrode_solver import (
    CombinedInjections,
    ElectrodeSolver,
    combined,
    system_of,
    without_gaps,
)
from nipde.estimators.inverse.material_grid import material_grid
from nipde.estimators.inverse.material_models import MaternField, laplacian
from nipde.grid import Grid
from nipde.physics.triangles import triangulated

#: α, and s in units of the noise.
CHANNELS = ((100.0, 2.0), (20.0, 4.0), (4.0, 4.0), (100.0, 11.0))
#: l over half the width; deviations of a contact, for a background of 1, and of a common factor.
LENGTH, CONTACT, DRIFT = 0.5, 0.01, 0.1
#: Nodes along the width.
NODES = 64


@dataclass(frozen=True, eq=False)
class LinearisedImages:
    """Of tests that have the same injections, readings and gaps."""

    #: Nodes of the images.
    grid: Grid
    shown: CombinedInjections
    #: σ of the homogeneous body.
    conductivity: float
    operators: Float[np.ndarray, "channel node value"]
    #: Norm of the derivatives by log σ at the nodes.
    sensitivity: Float[np.ndarray, "x y"]
    inside: Bool[np.ndarray, "x y"]

    @classmethod
    def of(cls, tests: ElectrodeTests, *, nodes: int = NODES, triangles: int = 50) -> "LinearisedImages":
        """With so many nodes of the images and triangles along the width."""
        if np.ndim(tests.noise):
            raise PairsError(
                expected="one noise of all voltages", got=f"an array {np.shape(tests.noise)}",
                remedy="give one number, or use ElectrodeInversion",
            )  # fmt: skip
        tests, shape = without_gaps(tests), tests.specimen.shape
        low, high = np.array(shape.region.bounds).reshape(2, 2)
        width = float((high - low).max())
        grid, system = material_grid(shape, nodes - 1), system_of(tests)[0]
        solver = ElectrodeSolver(grid, system, triangulated(shape, width / triangles), nodes=grid)
        log, _ = background(solver, tests)
        near = solver.linearised(MaternField(grid), np.full(grid.size, log))
        unit = exp(log)  # everything as if σ were 1
        jacobian = np.zeros((grid.size, near.predicted.size))
        jacobian[near.active] = unit * near.jacobian.reshape(len(near.active), -1)
        contacts = np.einsum("rk,ik->kri", system.patterns, system.currents).reshape(len(tests.electrodes), -1)
        errors = np.concatenate([CONTACT * contacts, DRIFT * unit * near.predicted.reshape(1, -1)])
        operators = _operators(grid, jacobian, errors, noise=float(tests.noise) * unit, length=LENGTH * width / 2)
        sensitivity = np.linalg.norm(jacobian, axis=1).reshape(grid.shape)
        inside = shape.transformed(shift=tuple(-low)).holds_nodes(grid)
        return cls(grid, combined(tests), unit, operators, sensitivity, inside)

    def images(self, differences: Float[np.ndarray, "test reading injection"]) -> Float[np.ndarray, "test channel x y"]:
        """Of differences to the reference, injections combined as `shown` does."""
        values = self.conductivity * differences.reshape(len(differences), -1)
        found = np.einsum("cnv,tv->tcn", self.operators, values.astype(np.float32), optimize=True)
        return found.reshape(*found.shape[:2], *self.grid.shape)


def _operators(
    grid: Grid, jacobian: Float[np.ndarray, "node value"], errors: Float[np.ndarray, "error value"], *, noise: float,
    length: float,
) -> Float[np.ndarray, "channel node value"]:  # fmt: skip
    stiffness, volumes = laplacian(grid)
    precision = sparse.csc_array(stiffness + sparse.diags_array(volumes / length**2))
    spread = factorised(precision, symmetric=True, ordered=False).solve(jacobian)  # C Jᵀ for α = 1
    by_material, by_errors = jacobian.T @ spread, errors.T @ errors
    found = []
    for weight, times in CHANNELS:
        total = by_material / weight + by_errors + (times * noise) ** 2 * np.eye(len(by_errors))
        found.append(dense.solve(total, spread.T / weight, assume_a="pos").T)
    return np.array(found, dtype=np.float32)
