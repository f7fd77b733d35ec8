"""Misfit of the displacements of a plane body, ½ mean |u(θ) - u|² / mean |u|², and its derivatives.

In every cell a body has log μ and, if it has fibres, their moment k (cos 2α, sin 2α) in a unit of stress: fibres along
α and α + π are one, and no direction is special. κ/μ is one number. θ are these fields, each in every cell or, where
the form has it homogeneous, once. To first order

    δu = -K⁻¹ Σ δθ f(u),    f forces of a body by θ, K its tangent

The gradient is exact, by the adjoint at every pair's own tangent, but for cells whose fibres have no stiffness: there
the misfit has a kink. So is the curvature of few parameters; that of many takes the mean of these tangents for each of
them, and then all pairs share one product.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.errors import SolverError
from nipde.estimators.inverse.equilibrium_gap import term_forces
from nipde.grid import Grid
from nipde.physics.bodies import CellwiseBody
from nipde.physics.materials import fibre_stress, matrix_stresses
from nipde.physics.quadrilaterals import mesh_of
from nipde.physics.supports import HELD, unknowns_of

#: So few parameters get a curvature of their own tangents.
FEW = 8

#: Values in all cells, field after field, and log κ/μ.
Everywhere = Float[np.ndarray, " everywhere"]
Curvature = Float[np.ndarray, "parameter parameter"]


@dataclass(frozen=True, eq=False)
class State:
    """Parameters, and there the mean square of the residual; gradient and curvature of half of it."""

    parameters: Float[np.ndarray, " parameter"]
    mean_square: float
    gradient: Float[np.ndarray, " parameter"]
    curvature: Curvature


@dataclass(frozen=True)
class Form:
    """Whether the matrix and the fibres of a body differ from cell to cell; `fibres` is None if it has none."""

    matrix: bool
    fibres: bool | None = None

    @property
    def fields(self) -> tuple[bool, ...]:
        """Of log μ and of both parts of the moment, whether they differ."""
        return (self.matrix,) if self.fibres is None else (self.matrix, self.fibres, self.fibres)

    def spread(self, cells: int) -> sparse.csr_array:
        """From θ to all cells, field after field; log κ/μ is the last of both."""
        blocks = [sparse.eye_array(cells) if differs else np.ones((cells, 1)) for differs in self.fields]
        return sparse.csr_array(sparse.block_diag([*blocks, np.ones((1, 1))]))


class BodyMisfit:
    """Of one system and one form; `unit` is that of the moment."""

    def __init__(self, pairs: Pairs, form: Form, *, unit: float) -> None:
        self.grid: Grid = pairs.grid
        self.mesh = mesh_of(pairs.grid, 1, 1)
        self.unknowns = unknowns_of(self.mesh, HELD)
        self.loads, self.measured = (field.double().cpu().numpy() for field in (pairs.loads, pairs.responses))
        self.size = float(np.sqrt(np.mean(self.measured**2)))
        self.fields, self.unit = len(form.fields), unit
        number = np.full(2 * self.mesh.shape[0] * self.mesh.shape[1], self.unknowns.size)
        number[self.unknowns.places] = np.arange(self.unknowns.size)
        #: Unknown displacement that every corner of every element is; on the Dirichlet boundary, one beyond the last.
        self.corners = number.reshape(-1, 2)[self.mesh.elements].reshape(len(self.mesh.elements), -1)
        self.spread = form.spread(len(self.corners))

    @property
    def count(self) -> int:
        """Number of measured values."""
        return len(self.loads) * self.unknowns.size

    def parameters_of(self, everywhere: Everywhere) -> Float[np.ndarray, " parameter"]:
        """θ from values in all cells, their mean where θ is homogeneous."""
        return self.spread.T @ everywhere / np.asarray(self.spread.sum(0)).reshape(-1)

    def body(self, parameters: Float[np.ndarray, " parameter"]) -> CellwiseBody:
        """The body of these parameters."""
        everywhere = self.spread @ parameters
        fields = everywhere[:-1].reshape(self.fields, *self.mesh.cells)
        shear = np.exp(fields[0])
        moment = self.unit * (fields[1:2] + 1j * fields[2:3])  # no family where there are no fibres
        return CellwiseBody(self.grid, shear, np.exp(everywhere[-1]) * shear, np.angle(moment) / 2, np.abs(moment))

    def mean_square(self, moved: Float[np.ndarray, "pair 2 x y"]) -> float:
        """Of the residual at the unknown displacements, as a share of those measured."""
        return float(np.mean(self._residual(moved) ** 2)) / self.size**2

    def _residual(self, moved: Float[np.ndarray, "pair 2 x y"]) -> Float[np.ndarray, "pair unknown"]:
        residual = np.moveaxis((moved - self.measured).reshape(len(moved), 2, -1), 1, 2)
        return residual.reshape(len(moved), -1)[:, self.unknowns.places]

    def at(self, parameters: Float[np.ndarray, " parameter"]) -> State:
        """Solve for all loads, and linearise."""
        return self.linearised(parameters, self.body(parameters).solve(self.loads))

    def linearised(self, parameters: Float[np.ndarray, " parameter"], moved: Float[np.ndarray, "pair 2 x y"]) -> State:
        """The same where the displacements are known; a SolverError where they are no stable equilibrium."""
        body = self.body(parameters)
        columns, volume = self._forces(body, moved)
        tangents = [body.held_tangent(one) for one in moved]
        adjoint = np.zeros((len(moved), self.unknowns.size + 1))
        try:
            for number, (tangent, own) in enumerate(zip(tangents, self._residual(moved), strict=True)):
                adjoint[number, :-1] = self.unknowns.solve(tangent.copy(), own)
        except np.linalg.LinAlgError as error:
            raise SolverError(expected="stable displacements", got=str(error), remedy="use smaller loads") from error
        gradient = -(self.spread.T @ self._pushing(columns, volume, adjoint))
        few = self.spread.shape[1] <= FEW
        curvature = self._of_few(columns, volume, tangents) if few else self._of_many(columns, volume, tangents)
        scale = 1 / (self.size**2 * self.count)
        return State(parameters, self.mean_square(moved), scale * gradient, scale * curvature)

    def _forces(
        self, body: CellwiseBody, moved: Float[np.ndarray, "pair 2 x y"]
    ) -> tuple[Float[np.ndarray, "field pair cell corner"], Float[np.ndarray, "pair cell corner"]]:
        """Of every cell by its own fields, and by log κ/μ."""

        def stresses(gradient: Float[np.ndarray, "pair cell point 2 2"]) -> np.ndarray:
            matrix = matrix_stresses(gradient)
            if self.fields == 1:
                return matrix
            angle = body.angles.reshape(-1, 1)
            stress, slope = fibre_stress(gradient, angle)
            cosine, sine = (turn(2 * angle)[..., None, None] for turn in (np.cos, np.sin))
            moment = (cosine * stress - sine / 2 * slope, sine * stress + cosine / 2 * slope)
            return np.concatenate([matrix, self.unit * np.stack(moment)])

        forces = np.moveaxis(term_forces(self.mesh, stresses, moved), 3, 0)
        forces = forces.reshape(len(forces), len(moved), *self.corners.shape)
        volume = body.bulk.reshape(-1, 1) * forces[1]
        return np.concatenate([(body.shear.reshape(-1, 1) * forces[0] + volume)[None], forces[2:]]), volume

    def _pushing(self, columns: np.ndarray, volume: np.ndarray, displacements: np.ndarray) -> Everywhere:
        """Work of the forces by every field of every cell and by log κ/μ, over all pairs."""
        at_corners = displacements[:, self.corners]
        return np.append(np.einsum("fiec,iec->fe", columns, at_corners), np.sum(volume * at_corners))

    def _gathered(self, forces: Float[np.ndarray, "many cell corner"]) -> Float[np.ndarray, "many unknown"]:
        """Of all cells at the unknown displacements; forces on the Dirichlet boundary are dropped."""
        places, width = self.corners.reshape(-1), self.unknowns.size + 1
        gathered = np.stack([np.bincount(places, one.reshape(-1), width) for one in forces])
        gathered[:, -1] = 0
        return gathered

    def _of_few(self, columns: np.ndarray, volume: np.ndarray, tangents: list[np.ndarray]) -> Curvature:
        cells = self.spread[:-1].toarray().reshape(self.fields, len(self.corners), -1)
        curvature = np.zeros((self.spread.shape[1],) * 2)
        for number, tangent in enumerate(tangents):
            forces = np.einsum("fec,fep->pec", columns[:, number], cells)
            forces[-1] = volume[number]
            moved = self.unknowns.solve(tangent, self._gathered(forces)[:, :-1].T)
            curvature += moved.T @ moved
        return curvature

    def _of_many(self, columns: np.ndarray, volume: np.ndarray, tangents: list[np.ndarray]) -> Curvature:
        free, cells = self.unknowns.size, len(self.corners)
        green = np.zeros((free + 1, free + 1))
        green[:-1, :-1] = self.unknowns.solve(np.mean(tangents, axis=0), np.eye(free))
        inner = green @ green
        by_corner = np.ascontiguousarray(columns.transpose(3, 0, 2, 1))
        blocks = np.zeros((self.fields, self.fields, cells, cells))
        for first, own in zip(self.corners.T, by_corner, strict=True):
            for second, others in zip(self.corners.T, by_corner, strict=True):
                between = inner[first[:, None], second]
                for one, other in zip(*np.tril_indices(self.fields), strict=True):
                    product = own[one] @ others[other].T
                    product *= between
                    blocks[one, other] += product
        for one, other in zip(*np.tril_indices(self.fields, -1), strict=True):
            blocks[other, one] = blocks[one, other].T
        full = np.empty((self.fields * cells + 1,) * 2)
        full[:-1, :-1] = blocks.swapaxes(1, 2).reshape(self.fields * cells, -1)
        full[-1] = full[:, -1] = self._pushing(columns, volume, self._gathered(volume) @ inner)
        return self.spread.T @ (self.spread.T @ full).T
