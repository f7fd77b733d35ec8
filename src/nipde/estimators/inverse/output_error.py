"""Output error at sensors: min over θ of ½ Σ w (y - H u(θ))² + prior(θ), residuals from a finer grid than derivatives.

Derivatives need no fine grid: they only point the way. Residuals do: their error would be fitted by a wrong material.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
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
from nipde.estimators.inverse.fitted_state import Fit
from nipde.estimators.inverse.linearised_readings import Solver
from nipde.estimators.inverse.material_models import MaterialModel, Parameters
from nipde.estimators.inverse.readings import Readings
from nipde.estimators.inverse.trust_region import QuadraticModel
from nipde.grid import Grid

#: Longest step of log b, or of a level set in spacings.
LONGEST_STEP = 1.0
#: So many steps are tried from a state, each shorter by this.
TRIALS, SHORTER = 4, 0.4
#: Steps become shorter if they gain less than this share of what they promise, longer if more.
POOR, GOOD = 0.4, 0.7


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


def fit(
    model: MaterialModel, start: Parameters, *, coarse: Solver, fine: Solver, steps: int, tolerance: float = 1e-4
) -> Fit:
    """Gauss-Newton steps from a start until one lowers the objective by less than 1 and `tolerance` of it.

    The radius of the region that they are trusted in follows from how much of the promised decrease came.
    """
    system, radius = fine.system, LONGEST_STEP
    state = _evaluated(model, start, fine)
    for _ in range(steps):
        near_state, following = QuadraticModel(coarse.linearised(model, state.parameters), state, system), None
        for _ in range(TRIALS):
            step, promised = near_state.step(radius)
            longest = float(np.abs(step).max())
            try:
                trial = _evaluated(model, state.parameters + step, fine)
            except SolverError:  # of a coefficient too extreme: the step was too long
                radius = SHORTER * min(radius, longest)
                continue
            gained = _objective(state, system) - _objective(trial, system)
            if gained < POOR * promised:
                radius = SHORTER * min(radius, longest)
            elif gained > GOOD * promised:
                radius = min(radius / SHORTER, LONGEST_STEP)
            if gained > 0:
                following = trial
                break
        if following is None:
            break
        state = following
        if gained < 1 + tolerance * _objective(state, system):
            break
    return state


def _evaluated(model: MaterialModel, parameters: Parameters, fine: Solver) -> Fit:
    system = fine.system
    residual = np.where(system.weights > 0, system.values - fine.predicted(model, parameters), 0.0)
    chi_square = float(np.sum(residual * system.weighted(residual))) / system.count
    return Fit(model, parameters, chi_square, model.penalty(parameters), residual)


def _objective(state: Fit, system: Readings) -> float:
    return state.chi_square * system.count / 2 + state.penalty
