"""Equilibrium of a plane elastic body: min over u of ∫ ψ(∇u) - b·u dx, displacements prescribed on parts of its sides.

Plane strain, large deformations; forces b per unit of area of the undeformed body, in the units of the moduli over
those of length.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache
from types import ModuleType

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.errors import PhysicsError, SolverError, needing
from nipde.grid import Grid
from nipde.physics.materials import PointMaterial
from nipde.physics.newton import Newton, Record, State
from nipde.physics.quadrilaterals import Quadrilaterals, mesh_of
from nipde.physics.supports import HELD, Support, Unknowns, unknowns_of

NEWTON = Newton()
#: Forces or displacements at the nodes of the grid, at those of the mesh, and there with nodes first.
Fields = Float[np.ndarray, "*batch component x y"]
MeshField = Float[np.ndarray, "component *node"]
NodeField = Float[np.ndarray, "node 2"]
Values = Float[np.ndarray, " unknown"]
Band = Float[np.ndarray, " slot"]


@dataclass(frozen=True)
class ElasticBody(ABC):
    """One specimen: its grid and, in the final classes, its material. Elements have `degree` 1 (Q4) or 2 (Q9)."""

    grid: Grid
    _: KW_ONLY
    degree: int = 1
    refine: int = 1
    newton: Newton = NEWTON

    @cached_property
    @abstractmethod
    def material(self) -> PointMaterial:
        """Moduli and fibres at the Gauss points."""

    @property
    def mesh(self) -> Quadrilaterals:
        """The elements."""
        return mesh_of(self.grid, self.degree, self.refine)

    def solve(self, loads: Fields) -> Fields:
        """Displacements at the grid's nodes under body forces given there, in their precision, or a SolverError."""
        return self.checked_solve(loads)[0]

    def checked_solve(self, loads: Fields) -> tuple[Fields, list[Record]]:
        """The same with a record of every solve: nothing that did not converge ever leaves."""
        responses, records = self.attempt(loads)
        return responses, _all_converged(records)

    def attempt(self, loads: Fields) -> tuple[Fields, list[Record]]:
        """The same without an error: displacements that did not converge are NaN, and the record says so."""
        self.grid.check(loads)
        if loads.ndim < 3 or loads.shape[-3] != 2:
            raise PhysicsError(
                expected="loads (..., 2, x, y): two components", got=f"shape {loads.shape}", remedy="stack x and y"
            )
        flat = loads.astype(np.float64).reshape(int(np.prod(loads.shape[:-3])), *loads.shape[-3:])
        with np.errstate(invalid="ignore"):  # the record of a load that is not finite says so
            solves = [_equilibrium(self, HELD, distance=0.0, forces=one) for one in self.mesh.nodal_forces(flat)]
        responses = np.stack([self.mesh.at_nodes(field) for field, _ in solves]) if solves else np.empty(loads.shape)
        return responses.reshape(loads.shape).astype(loads.dtype), [record for _, record in solves]

    def solve_linearised(self, loads: Fields) -> Fields:
        """The same for small deformations, K₀⁻¹ M b: one factor for all loads, which must be finite."""
        self.grid.check(loads)
        flat = loads.astype(np.float64).reshape(-1, *loads.shape[-3:])
        displacements = self.mesh.at_nodes(self._solve_linearised(self.mesh.nodal_forces(flat)))
        return displacements.reshape(loads.shape).astype(loads.dtype)

    def solve_linearised_transposed(self, forces: Fields) -> Fields:
        """The transpose of that matrix, M K₀⁻¹, on a mesh whose nodes are the grid's."""
        self._check_same_nodes()
        flat = forces.astype(np.float64).reshape(-1, *forces.shape[-3:])
        nodal = np.moveaxis(flat.reshape(len(flat), 2, -1), 1, 2)
        moments = self.mesh.nodal_forces(self.mesh.at_nodes(self._solve_linearised(nodal)))
        return self.mesh.at_nodes(moments).reshape(forces.shape).astype(forces.dtype)

    def equilibrium_gap(self, loads: Fields, responses: Fields) -> Fields:
        """K₀⁻¹ of the forces that given displacements leave unbalanced: their error, to first order."""
        self._check_same_nodes()
        moved = np.ascontiguousarray(np.moveaxis(responses.reshape(len(responses), 2, -1), 1, 2), dtype=np.float64)
        inner = np.stack([self._forces(one)[2] for one in moved])
        return self.mesh.at_nodes(self._solve_linearised(self.mesh.nodal_forces(loads.astype(np.float64)) - inner))

    def deform(
        self, support: Support, distances: Sequence[float]
    ) -> tuple[Float[np.ndarray, "distance component *node"], list[Record]]:
        """Displacements of the whole mesh without body forces, its sides moved by each distance, or a SolverError."""
        nothing = np.zeros((self.mesh.shape[0] * self.mesh.shape[1], 2))
        solves = [_equilibrium(self, support, distance=float(one), forces=nothing) for one in distances]
        records = _all_converged([record for _, record in solves])
        return np.stack([_space_last(self.mesh, field) for field, _ in solves]), records

    def energy(self, displacement: MeshField) -> float:
        """W = ∫ ψ dx of a displacement of the mesh; infinite where an element is inverted."""
        return self._forces(_nodes_first(self.mesh, displacement))[0]

    def forces(self, displacement: MeshField) -> MeshField:
        """∂W/∂u: what must act on every node to hold the displacement."""
        return _space_last(self.mesh, self._forces(_nodes_first(self.mesh, displacement))[2])

    def smallest_jacobian(self, displacement: MeshField) -> float:
        """Least ratio of areas J = det F over the Gauss points."""
        return self._forces(_nodes_first(self.mesh, displacement))[1]

    def tangent(self, displacement: MeshField) -> sparse.csc_array:
        """∂²W/∂u² of all displacements, in the order (node, component)."""
        every = Unknowns(self.mesh, np.zeros((*self.mesh.shape, 2), dtype=bool))
        return every.matrix(self._band(_nodes_first(self.mesh, displacement), every))

    def held_tangent(self, displacement: MeshField) -> Band:
        """The tangent of the body held on all sides, as a flat band."""
        return self._band(_nodes_first(self.mesh, displacement), unknowns_of(self.mesh, HELD))

    def _solve_linearised(self, forces: Float[np.ndarray, "pair node 2"]) -> Float[np.ndarray, "pair node 2"]:
        unknowns, band = unknowns_of(self.mesh, HELD), self.held_tangent(np.zeros((2, *self.mesh.shape)))
        displacements = np.zeros(forces.shape)
        flat = displacements.reshape(len(forces), -1)
        flat[:, unknowns.places] = unknowns.solve(band, forces.reshape(len(forces), -1)[:, unknowns.places].T).T
        return displacements

    def _check_same_nodes(self) -> None:
        if self.mesh.stride != 1:
            raise PhysicsError(expected="a mesh with the nodes of its grid", got=f"stride {self.mesh.stride}")

    def _forces(self, displacement: NodeField) -> tuple[float, float, NodeField]:
        """W, smallest J, forces."""
        mesh, forces = self.mesh, np.zeros(displacement.shape)
        energy, jacobian = compiled_loops().add_forces(
            displacement, mesh.elements, mesh.gradients, mesh.weights, self.material, forces
        )
        return energy, jacobian, forces

    def _band(self, displacement: NodeField, unknowns: Unknowns) -> Band:
        mesh, band = self.mesh, np.zeros(unknowns.slot_count)
        compiled_loops().add_tangent(
            displacement, mesh.elements, mesh.gradients, mesh.weights, self.material, unknowns.slots, band
        )
        return band


class _Loaded:
    """A body in its supports under forces: Newton's problem. Displacements are share · guess + the unknowns."""

    def __init__(self, body: ElasticBody, support: Support, distance: float, forces: NodeField) -> None:
        self.body, self.unknowns = body, unknowns_of(body.mesh, support)
        self.guess = np.ascontiguousarray(distance * support.displacement(body.mesh)).reshape(-1, 2)
        self.forces = forces.reshape(-1)[self.unknowns.places]
        self.size = float(np.linalg.norm(self.forces))

    def start(self) -> Values:
        return np.zeros(self.unknowns.size)

    def displacement(self, values: Values, share: float) -> NodeField:
        displacement = (share * self.guess).reshape(-1)
        displacement[self.unknowns.places] += values
        return displacement.reshape(-1, 2)

    def at(self, values: Values, share: float) -> State:
        displacement = self.displacement(values, share)
        energy, jacobian, inner = self.body._forces(displacement)
        outer, places = share * self.forces, self.unknowns.places
        residual = outer - inner.reshape(-1)[places]
        error, size = float(np.linalg.norm(residual)), share * self.size
        if size == 0:  # nothing but the supports acts: measure by what they bear
            size = float(np.sqrt(max(np.sum(inner**2) - np.sum(inner.reshape(-1)[places] ** 2), 0.0)))
        work = float(outer @ displacement.reshape(-1)[places])
        relative = 0.0 if error == 0 else error / size if size > 0 else np.inf
        return State(values, energy - work, residual, relative, jacobian)

    def step(self, state: State, share: float) -> Values:
        band = self.body._band(self.displacement(state.unknowns, share), self.unknowns)
        return self.unknowns.solve(band, state.residual)


def _equilibrium(
    body: ElasticBody, support: Support, *, distance: float, forces: NodeField
) -> tuple[NodeField, Record]:
    """The displacement, NaN without convergence, and the record of the solve."""
    problem = _Loaded(body, support, distance, forces)
    values, record = body.newton.solve(problem)
    displacement = problem.displacement(values, 1.0)
    if not record.converged:
        displacement[:] = np.nan
    return displacement, record


def _all_converged(records: list[Record]) -> list[Record]:
    failed = [number for number, record in enumerate(records) if not record.converged]
    if failed:
        first = records[failed[0]]
        raise SolverError(
            f"pair {failed[0]} is not solved ({len(failed)} of {len(records)} are not)",
            expected="equilibrium under the whole load",
            got=f"relative residual {first.residual:.2e} and smallest J {first.smallest_jacobian:.2g} "
            f"after {first.iterations} iterations and {first.cutbacks} cutbacks",
            remedy="lower the loads, check them for non-finite values, or see which with attempt(loads)",
        )
    return records


def _nodes_first(mesh: Quadrilaterals, field: MeshField) -> NodeField:
    if field.shape != (2, *mesh.shape):
        raise PhysicsError(expected=f"shape {(2, *mesh.shape)}", got=f"shape {field.shape}", remedy="use mesh.shape")
    return np.ascontiguousarray(field.reshape(2, -1).T, dtype=np.float64)


def _space_last(mesh: Quadrilaterals, field: NodeField) -> MeshField:
    return np.ascontiguousarray(field.T).reshape(2, *mesh.shape)


@lru_cache(maxsize=1)
def compiled_loops() -> ModuleType:
    """Numba's; only a body that is deformed needs Numba."""
    with needing("Numba, for the mechanics of solids,", extra="mechanics"):
        from nipde.physics import assembly
    return assembly
