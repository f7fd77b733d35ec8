"""Output error at sensors: min over θ of ½ Σ w (y - H u(θ))² + prior(θ), residuals from a finer grid than derivatives.

    u = A(θ)⁻¹ ∫f,   ∂(H u)/∂θ = -(D g)ᵀ diag(D u) ∂c/∂θ,   g = A⁻¹ Hᵀ, one solve per sensor and not per pair
    curvature over links: (D g D gᵀ) ∘ (D u D uᵀ), all sensors and pairs together

Derivatives need no fine grid: they only point the way. Residuals do: their error would be fitted by a wrong material.
"""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Bool, Float

from nipde.context.sensors import Sensors
from nipde.discretisation.domain import OutlineData, known_loads, load_moments, right_side
from nipde.discretisation.interpolation import Interpolation
from nipde.discretisation.link_solver import Inverse, inverse_of
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Specimen
from nipde.discretisation.subcells import subcells_of
from nipde.errors import SolverError
from nipde.estimators.inverse.marginal_prior import MarginalPrior
from nipde.estimators.inverse.material_models import MaterialModel, Parameters
from nipde.estimators.inverse.nuisance import ErrorPatterns
from nipde.grid import Grid

#: Longest step of log b, or of a level set in spacings.
LONGEST_STEP = 1.0
#: Directions with a smaller share of the largest eigenvalue carry no information.
NEGLIGIBLE = 1e-7
HALVINGS = 4
#: Up to so many readings the Jacobian is formed: smaller than a matrix over links, and exact whatever is missing.
FEW = 64
#: Steps need no more than single precision, if the diagonal is larger by its rounding.
ROUNDING = 2e-5
Values = Float[np.ndarray, "sensor pair"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Readings:
    """Values of one system and their weights 1 / deviation², 0 where nothing was measured."""

    values: Values
    weights: Values
    #: What rows of H are multiplied with so that errors of the values are independent; None: nothing.
    whitening: Float[np.ndarray, "sensor sensor"] | None = None
    #: Errors with a pattern, beside the noise.
    nuisance: ErrorPatterns | None = None

    def weighted(self, residual: Values) -> Values:
        """P r, P the precision of the readings' errors; its product with r is the misfit."""
        weighted = self.weights * residual
        if self.nuisance is None:
            return weighted
        return weighted - self.weights * self.nuisance.explained(weighted, self.weights)

    @property
    def count(self) -> int:
        """Number of measured values."""
        return int(np.count_nonzero(self.weights))


@dataclass(frozen=True, eq=False, kw_only=True)
class SensorSystem(Readings):
    """One system: loads at the nodes of the data's grid, values at sensors."""

    grid: Grid
    loads: Float[np.ndarray, "pair *space"]
    sensors: Sensors
    #: None if it fills the box.
    specimen: Specimen | None = None
    #: Loads on its outline, by pair; none of a box.
    outline: tuple[LoadCase, ...] = ()

    @cached_property
    def known(self) -> Bool[np.ndarray, "*space"] | None:
        """Nodes where densities are known."""
        return known_loads(self.loads, self.grid, self.specimen)


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


class LinkSolver(Solver):
    """Of a scalar law, by conductances between cells."""

    def __init__(
        self, grid: Grid, system: SensorSystem, *, nodes: Grid, per_axis: int, interpolation: Interpolation = "spline"
    ) -> None:
        self.grid, self.system, self.interpolation = grid, system, interpolation
        self.subcells = subcells_of(grid, nodes, per_axis, system.specimen)
        self.domain = self.subcells.domain
        self.resolution = float(np.mean(np.array(grid.spacing) / np.array(nodes.spacing))) / per_axis
        self.links = self.domain.links
        self.difference = self.links.difference[:, self.links.unknown].tocsr()
        at = system.sensors.matrix(grid)
        if system.whitening is not None:
            at = sparse.csr_array(system.whitening @ at)
        self.sensors = sparse.csr_array(at @ self.domain.to_nodes)
        self.moments = load_moments(system.loads, system.grid, self.domain, interpolation, known=system.known)
        self.outline = OutlineData.of(system.outline, self.domain)
        self.given = 0.0 if self.outline is None else self.outline.given
        self.offset = 0.0 if self.outline is None else at @ (self.domain.from_given @ self.outline.given)

    def reading(self, sensors: Sensors) -> "LinkSolver":
        """The same law at other sensors."""
        other = copy(self)
        other.sensors = sparse.csr_array(sensors.matrix(self.grid) @ self.domain.to_nodes)
        return other

    def conductances(self, model: MaterialModel, parameters: Parameters) -> Float[np.ndarray, " link"]:
        """Of every link."""
        log, _ = model.at_resolution(self.resolution).log_coefficient(parameters, self.subcells.interpolation)
        return self.subcells.conductances(log)[0]

    def slopes(self, model: MaterialModel, parameters: Parameters) -> tuple[np.ndarray, sparse.csr_array]:
        """By the points around every link."""
        resolved = model.at_resolution(self.resolution)
        log, by_parameters = resolved.log_coefficient(parameters, self.subcells.interpolation)
        conductances, slopes = self.subcells.conductances(log)
        return conductances, (self.subcells.gathered(slopes) @ by_parameters).tocsr()

    def factor(self, conductances: Float[np.ndarray, " link"]) -> Inverse:
        """Or multigrid."""
        return inverse_of(self.links, conductances)

    def inflow(self, conductances: Float[np.ndarray, " link"]) -> Float[np.ndarray, "unknown pair"]:
        """Into unknown cells."""
        return right_side(self.moments, self.outline, self.difference, conductances)


@dataclass(frozen=True, eq=False)
class Linearised:
    """H u near a state: -(D g)ᵀ diag(D u) C δθ."""

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
        per_sensor, per_pair = separable(system.weights)
        changes = self.changes[:, self.active]
        entering = np.flatnonzero(np.diff(changes.indptr))
        drops = _compressed(self.drops[entering] * np.sqrt(per_pair)).astype(precision)
        outer = self._between_links(per_sensor, entering, precision)
        outer *= drops @ drops.T
        changes = changes[entering].astype(precision)
        curvature = np.asarray(changes.T @ (changes.T @ outer).T, dtype=np.float64)
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
        self, per_sensor: Float[np.ndarray, " sensor"], links: np.ndarray, precision: type[np.floating]
    ) -> Float[np.ndarray, "link link"]:
        """(D g) w (D g)ᵀ, g = A⁻¹ Hᵀ; by way of all unknowns where there are more sensors than these."""
        difference, sensors = self.solver.difference[links], self.solver.sensors
        if len(per_sensor) <= sensors.shape[1]:
            green = difference @ self.factor.solve(sensors.T.toarray())
            green = _compressed(green * np.sqrt(per_sensor)).astype(precision)
            return np.asarray(green @ green.T)
        inverse = self.factor.solve(np.eye(sensors.shape[1])).astype(precision)
        weights = (sensors.T @ sparse.diags_array(per_sensor) @ sensors).astype(precision)
        between = inverse @ np.asarray(weights @ inverse)
        difference = difference.astype(precision)
        return np.asarray(difference @ (difference @ between).T)

    def _explained(self, nuisance: Any, weights: Values) -> Float[np.ndarray, "active active"]:
        """What errors with a pattern take from the curvature: (Jᵀ W B) Cov(a) (Jᵀ W B)ᵀ."""
        weights = np.outer(*separable(weights))
        columns = np.hstack([self.adjoint(weights * pattern) * self.drops for pattern in nuisance.patterns])
        forms = self.changes[:, self.active].T @ columns
        return np.asarray(forms @ nuisance.covariance(weights) @ forms.T)


@dataclass(frozen=True, eq=False)
class Fit:
    """The state of least misfit and penalty."""

    model: MaterialModel
    parameters: Parameters
    #: rᵀ P r over the number of measured values.
    chi_square: float
    penalty: float
    residual: Values

    def moved(self, *, to: Grid) -> "Fit":
        """The same material on other nodes."""
        model, parameters = self.model.moved(self.parameters, to=to)
        return replace(self, model=model, parameters=parameters)


def fit(
    model: MaterialModel, start: Parameters, *, coarse: Solver, fine: Solver, steps: int, tolerance: float = 1e-4
) -> Fit:
    """Gauss-Newton steps from a start until one lowers the objective by less than 1 and `tolerance` of it."""
    system = fine.system
    state = _evaluated(model, start, fine)
    for _ in range(steps):
        near = coarse.linearised(model, state.parameters)
        step = newton_step(near, state, system)
        following = None
        for halving in range(HALVINGS):
            try:
                trial = _evaluated(model, state.parameters + step * 0.5**halving, fine)
            except SolverError:  # of a coefficient too extreme for multigrid: the step was too long
                continue
            if _objective(trial, system) < _objective(state, system):
                following = trial
                break
        if following is None:
            break
        gained = _objective(state, system) - _objective(following, system)
        state = following
        if gained < 1 + tolerance * _objective(state, system):
            break
    return state


def newton_step(near: Linearised, state: Fit, system: Readings) -> Parameters:
    """-(JᵀwJ + R)⁻¹ gradient, of bounded length; parameters that change nothing follow the prior, or stay."""
    prior = MarginalPrior.of(state.model, state.parameters, near.active)
    gradient = near.gradient(system.weighted(state.residual))[near.active] + prior.slope

    def solved(precision: type[np.floating]) -> Float[np.ndarray, " active"]:
        curvature = near.curvature(system, precision=precision)
        curvature[np.diag_indices_from(curvature)] *= 1 + ROUNDING
        total = curvature + prior.precision
        return -np.asarray(dense.solve(total, gradient, assume_a="pos", overwrite_a=True, check_finite=False))

    try:
        of_active = solved(np.float32 if system.nuisance is None else np.float64)
    except np.linalg.LinAlgError:  # parameters of very different weight
        of_active = solved(np.float64)
    step = prior.step(of_active, size=len(state.parameters))
    return step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))


def separable(weights: Values) -> tuple[Float[np.ndarray, " sensor"], Float[np.ndarray, " pair"]]:
    """One weight per sensor and one per pair whose product is nearest in sums: exact where they are separable."""
    total = weights.sum()
    return weights.sum(axis=1), weights.sum(axis=0) / total


def _compressed(columns: Float[np.ndarray, "link column"]) -> Float[np.ndarray, "link rank"]:
    """Fewer columns with the same products of rows."""
    values, vectors = dense.eigh(columns.T @ columns)
    return columns @ vectors[:, values > NEGLIGIBLE * values[-1]]


def _evaluated(model: MaterialModel, parameters: Parameters, fine: Solver) -> Fit:
    system = fine.system
    residual = np.where(system.weights > 0, system.values - fine.predicted(model, parameters), 0.0)
    chi_square = float(np.sum(residual * system.weighted(residual))) / system.count
    return Fit(model, parameters, chi_square, model.penalty(parameters), residual)


def _objective(state: Fit, system: Readings) -> float:
    return state.chi_square * system.count / 2 + state.penalty
