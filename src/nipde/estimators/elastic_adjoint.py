"""A plane body by its displacements: min over log μ of ½ mean |u(μ) - u|² / mean |u|² + λ Σ (jumps of log μ)²/2.

κ/μ is one number for the whole body. Where `ElasticBalance` asks measured displacements to balance, and so amplifies
their noise like a second derivative, this asks the displacements of a body to be those measured. Gauss-Newton steps
along a path of falling λ, derivatives by the adjoint at rest, δu = -K₀⁻¹ Σ_c δθ_c f_c(u); λ by the least expected
error of the responses,
    noise σ known:  e² + 2 σ² F/n,     unknown:  e² / (1 - F/n)²,     F = tr (H + λR)⁻¹ H
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import torch
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, eigh

from nipde.context.pairs import Pairs
from nipde.errors import SolverError
from nipde.estimators.elastic_balance import check_held, even_matrix, systems_of
from nipde.estimators.inversion.force_balance import term_forces
from nipde.grid import Grid
from nipde.kernels.body import BodyPredictor
from nipde.physics.cellwise import CellwiseBody
from nipde.physics.elastic import HELD, unknowns_of
from nipde.physics.quadrilaterals import mesh_of
from nipde.physics.unit_stresses import matrix_stresses

#: First λ over the ratio of the traces of H and R, fall from one to the next, and how many at most.
FIRST, FALL, STAGES = 30.0, 10**-0.5, 16
#: λ without a better risk that end the path; steps at the λ that is chosen.
PATIENCE, LAST = 2, 3
#: Longest change of log μ in one step; halvings of a step that does not help.
LONGEST, HALVINGS = 1.5, 4
#: Elements whose curvature with all others is held in memory together.
TOGETHER = 56


@dataclass(frozen=True)
class ElasticGaussNewton:
    """The matrix of every cell, no fibres; slower than `ElasticBalance`, and bears noise."""

    def __call__(self, pairs: Pairs) -> BodyPredictor:
        """The body of every system, which answers loads by Newton's method."""
        return BodyPredictor.of([self.body(one) for one in systems_of(pairs)], like=pairs.loads.new_ones(pairs.batch))

    def body(self, pairs: Pairs) -> CellwiseBody:
        """Of one system."""
        check_held(pairs)
        noise = None if pairs.noise is None else float(torch.as_tensor(pairs.noise))
        problem = _Problem(pairs, noise)
        stage = best = problem.stage(problem.start(), FIRST * problem.unit)
        worse = 0
        for _ in range(STAGES - 1):
            stage = problem.stage(stage.state, stage.weight * FALL)
            worse = 0 if stage.risk < 0.999 * best.risk else worse + 1
            best = min(best, stage, key=lambda one: one.risk)
            if worse == PATIENCE:
                break
        state = best.state
        for _ in range(LAST):
            state = problem.step(state, best.weight)
        return problem.body(state.parameters)


@dataclass(frozen=True, eq=False)
class _State:
    """log μ of every cell and log κ/μ; residuals, and their gradient and curvature."""

    parameters: Float[np.ndarray, " parameter"]
    mean_square: float
    gradient: Float[np.ndarray, " parameter"]
    curvature: Float[np.ndarray, "parameter parameter"]


@dataclass(frozen=True, eq=False)
class _Stage:
    """Where the path is at one λ, and what error of the responses to expect."""

    state: _State
    weight: float
    risk: float


class _Problem:
    """Residuals of one system, over the root mean square of its responses."""

    def __init__(self, pairs: Pairs, noise: float | None) -> None:
        self.grid: Grid = pairs.grid
        self.mesh = mesh_of(pairs.grid, 1, 1)
        self.unknowns = unknowns_of(self.mesh, HELD)
        self.loads, self.measured = (field.double().cpu().numpy() for field in (pairs.loads, pairs.responses))
        self.size = float(np.sqrt(np.mean(self.measured**2)))
        self.count = self.measured.shape[0] * self.unknowns.size
        self.noise = None if noise is None else noise / self.size
        number = np.full(2 * self.mesh.shape[0] * self.mesh.shape[1], self.unknowns.size)
        number[self.unknowns.places] = np.arange(self.unknowns.size)
        #: Free displacement that every corner of every element is; those that are held, one beyond the last.
        self.corners = number.reshape(-1, 2)[self.mesh.elements].reshape(len(self.mesh.elements), -1)
        jumps = _jumps(self.mesh.cells)
        self.penalty = np.zeros((len(self.corners) + 1,) * 2)
        self.penalty[:-1, :-1] = (jumps.T @ jumps).toarray()
        self.unit = 1.0

    def start(self) -> _State:
        """The even body that pairs are nearest to: one level, found by its displacements."""
        even = even_matrix(self.grid, self.loads, self.measured)
        parameters = np.full(len(self.corners) + 1, np.log(even[0]))
        parameters[-1] = np.log(even[1] / even[0])
        state = self.at(parameters)
        for _ in range(4):  # κ/μ and the level alone
            both = np.stack([np.append(np.ones(len(self.corners)), 0.0), np.append(np.zeros(len(self.corners)), 1.0)])
            step = np.linalg.solve(both @ state.curvature @ both.T, -both @ state.gradient)
            state = self._descended(state, np.clip(step, -LONGEST, LONGEST) @ both, weight=0.0)
        self.unit = float(np.trace(state.curvature[:-1, :-1]) / np.trace(self.penalty))
        return state

    def body(self, parameters: Float[np.ndarray, " parameter"]) -> CellwiseBody:
        """Without fibres."""
        shear = np.exp(parameters[:-1]).reshape(self.mesh.cells)
        nothing = np.zeros((0, *self.mesh.cells))
        return CellwiseBody(self.grid, shear, np.exp(parameters[-1]) * shear, nothing, nothing)

    def stage(self, state: _State, weight: float) -> _Stage:
        """One step at a weight, and its risk."""
        state = self.step(state, weight)
        values = eigh(state.curvature, state.curvature + weight * self.penalty + _ridge(state), eigvals_only=True)
        share = float(np.clip(values, 0, 1).sum()) / self.count
        error = state.mean_square
        risk = error / max(1 - share, 1e-9) ** 2 if self.noise is None else error + 2 * self.noise**2 * share
        return _Stage(state, weight, risk)

    def step(self, state: _State, weight: float) -> _State:
        """Gauss-Newton, of bounded length, shortened until the objective falls."""
        matrix = state.curvature + weight * self.penalty + _ridge(state)
        downhill = -(state.gradient + weight * self.penalty @ state.parameters)
        step = cho_solve(cho_factor(matrix), downhill)
        return self._descended(state, step * min(1.0, LONGEST / float(np.max(np.abs(step)))), weight=weight)

    def _descended(self, state: _State, step: Float[np.ndarray, " parameter"], *, weight: float) -> _State:
        before = self._objective(state.parameters, state.mean_square, weight)
        for halving in range(HALVINGS):
            parameters = state.parameters + step * 0.5**halving
            try:
                moved = self.body(parameters).solve(self.loads)
            except SolverError:
                continue
            mean_square = float(np.mean((moved - self.measured) ** 2)) / self.size**2
            if self._objective(parameters, mean_square, weight) < before:
                return self._linearised(parameters, moved)
        return state

    def at(self, parameters: Float[np.ndarray, " parameter"]) -> _State:
        """A state from scratch."""
        return self._linearised(parameters, self.body(parameters).solve(self.loads))

    def _objective(self, parameters: np.ndarray, mean_square: float, weight: float) -> float:
        return mean_square / 2 + weight * float(parameters @ self.penalty @ parameters) / 2

    def _linearised(
        self, parameters: Float[np.ndarray, " parameter"], moved: Float[np.ndarray, "pair 2 x y"]
    ) -> _State:
        """With the stiffness at rest for that of every load: off by as much as the law is not linear."""
        body, free = self.body(parameters), self.unknowns
        shear, bulk = body.shear.reshape(-1, 1, 1), body.bulk.reshape(-1, 1, 1)
        terms = term_forces(self.mesh, matrix_stresses, moved)
        volume = (bulk * terms[:, :, :, 1]).reshape(len(moved), *self.corners.shape)
        whole = (shear * terms[:, :, :, 0]).reshape(volume.shape) + volume
        green = np.zeros((free.size + 1,) * 2)
        green[:-1, :-1] = free.solve(body.stiffness_at_rest(), np.eye(free.size))
        residual = np.moveaxis((moved - self.measured).reshape(len(moved), 2, -1), 1, 2).reshape(len(moved), -1)
        residual = np.append(residual[:, free.places], np.zeros((len(moved), 1)), axis=1)
        scale = 1 / (self.size**2 * moved.size)
        pulled = (residual @ green)[:, self.corners]
        pushed = np.zeros_like(residual)
        for number in range(len(moved)):
            np.add.at(pushed[number], self.corners, volume[number])
        pushed[:, -1] = 0
        inner = green @ green
        gradient = -np.append(np.einsum("iec,iec->e", whole, pulled), np.sum(residual * (pushed @ green)))
        curvature = np.empty((len(self.corners) + 1,) * 2)
        flat, places = whole.transpose(1, 2, 0).reshape(-1, len(moved)), self.corners.reshape(-1)
        for first in range(0, len(self.corners), TOGETHER):
            rows = slice(8 * first, 8 * (first + TOGETHER))
            both = (flat[rows] @ flat.T) * inner[places[rows][:, None], places]
            blocks = both.reshape(-1, 8, len(self.corners), 8).sum((1, 3))
            curvature[first : first + len(blocks), :-1] = blocks
        through = pushed @ inner
        curvature[-1, :-1] = np.einsum("iec,iec->e", whole, through[:, self.corners])
        curvature[:-1, -1], curvature[-1, -1] = curvature[-1, :-1], np.sum(through * pushed)
        mean_square = float(np.mean((moved - self.measured) ** 2)) / self.size**2
        return _State(parameters, mean_square, scale * gradient, scale * (curvature + curvature.T) / 2)


def _ridge(state: _State) -> np.ndarray:
    """So little that only rounding sees it."""
    return np.eye(len(state.parameters)) * (1e-12 * np.trace(state.curvature))


def _jumps(cells: tuple[int, int]) -> sparse.csr_array:
    """Differences across the sides that two cells share."""
    along = [sparse.csr_array(np.diff(np.eye(count), axis=0)) for count in cells]
    eyes = [sparse.eye_array(count) for count in cells]
    return sparse.csr_array(sparse.vstack([sparse.kron(along[0], eyes[1]), sparse.kron(eyes[0], along[1])]))
