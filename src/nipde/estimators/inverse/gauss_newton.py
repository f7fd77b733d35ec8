"""min over log b of ½ Σ q r(b)² + λ R(log b): Gauss-Newton steps, λ along a path; see `regularisation_path`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.estimators.inverse.linearisation import Curvature, Linearisation, curvature_of
from nipde.estimators.inverse.regularisation_path import FIRST_WEIGHT, Stage, cautious, least_risk, predictive_risk
from nipde.estimators.inverse.regularisers import Regulariser
from nipde.estimators.inverse.systems import MeasuredSystem

#: Residuals below this share of the responses are rounding: a path ends there.
ROUNDING = 1e-13
#: The curvature is computed anew when log b has moved this far, root mean square, or less where λ is small: then the
#: directions that hardly matter rotate with b, and a step along old ones does harm.
MOVED = 0.03
#: Longest change of log b in one step.
LONGEST_STEP = 1.5


class Misfit(ABC):
    """Residuals of one system as a function of log b."""

    def __init__(self, system: MeasuredSystem) -> None:
        self.system, self.links = system, system.conductances.links

    @abstractmethod
    def linearise(self, log_permeability: Float[np.ndarray, " node"]) -> Linearisation:
        """Residuals and their derivatives."""

    @abstractmethod
    def prediction_error(self, state: Linearisation, log_permeability: Float[np.ndarray, " node"]) -> float:
        """Mean square difference of the responses that the law gives and the measured ones: λ is selected by it."""


@dataclass(frozen=True)
class Search:
    """Length of the search: at most `stages` values of λ; b stays within `contrast` times the constant of the start.

    A stage ends after `iterations` or when log b moves less than `tolerance`, root mean square; the last one has more.
    """

    stages: int = 16
    iterations: int = 4
    tolerance: float = 5e-3
    last_iterations: int = 20
    last_tolerance: float = 1e-6
    contrast: float = 1e4


#: For systems that obey the law.
LONG = Search()


def fit(
    misfit: Misfit, *, regulariser: Regulariser, start: float, noise: float | None, search: Search = LONG
) -> Float[np.ndarray, " node"]:
    """log b of least misfit and penalty, from the constant log b = `start`; `noise` is the standard deviation."""
    path = _Path(misfit, regulariser, search, start, noise)
    if regulariser.weight is None:
        selected = path.least_risk()
        return path.minimise(selected.state, selected.weight, last=True).log_permeability
    state, weight = path.state, FIRST_WEIGHT * path.unit
    while weight > 10 * regulariser.weight:
        state, weight = path.minimise(state, weight), weight / 10
    return path.minimise(state, regulariser.weight, last=True).log_permeability


@dataclass(frozen=True, eq=False)
class _State:
    """A field, its residuals, and a curvature from nearby."""

    log_permeability: Float[np.ndarray, " node"]
    residuals: Linearisation
    curvature: Curvature
    curvature_at: Float[np.ndarray, " node"]


class _Path:
    """Minima for given weights."""

    def __init__(
        self, misfit: Misfit, regulariser: Regulariser, search: Search, start: float, noise: float | None
    ) -> None:
        self.misfit, self.regulariser, self.search, self.start, self.noise = misfit, regulariser, search, start, noise
        self.state = self._at(np.full(misfit.links.grid.size, start))
        stiffness = regulariser.stiffness(np.ones(len(misfit.links.area)), links=misfit.links)
        #: λ at which H and λR, for jumps of 1, have the same trace.
        self.unit = self.state.curvature.scale * misfit.links.grid.size / (2 * float(np.sum(stiffness)))

    def least_risk(self) -> Stage[_State]:
        """The stage of least risk: whole decades of λ, then half a decade to either side."""
        fields: list[Stage[np.ndarray]] = []  # curvatures of all of them would not fit the memory

        def at(state: _State, weight: float) -> Stage[_State]:
            stage = self.stage(state, weight)
            fields.append(Stage(stage.state.log_permeability, weight, stage.effective_dof, stage.risk))
            return stage

        def following(stage: Stage[_State]) -> Stage[_State]:
            after = at(stage.state, stage.weight / 10)
            # No parameter is held back and the risk still falls: the data are exact, and the end of the path is far.
            if after.risk < stage.risk / 10 and after.effective_dof < 1.02 * stage.effective_dof:
                after = at(after.state, after.weight / 100)
            return after

        def ended(number: int, stage: Stage[_State], best: Stage[_State]) -> bool:
            return stage.state.residuals.mean_square < ROUNDING**2

        first = at(self.state, FIRST_WEIGHT * self.unit)
        best = least_risk(first, following, stages=self.search.stages, ended=ended)
        beside = [at(best.state, best.weight * factor) for factor in (sqrt(10), 1 / sqrt(10))]
        best = min(best, *beside, key=lambda stage: stage.risk)
        other = None if self.noise is None else cautious(fields, count=self.misfit.system.count, noise=self.noise)
        if other is None:
            return best
        return Stage(self._at(other.state), other.weight, other.effective_dof, other.risk)

    def stage(self, state: _State, weight: float) -> Stage[_State]:
        """The minimum at a weight, and the expected error of its responses."""
        state = self.minimise(state, weight)
        effective_dof = state.curvature.effective_dof(self._penalty(state, weight))
        error = self.misfit.prediction_error(state.residuals, state.log_permeability)
        risk = predictive_risk(error, effective_dof=effective_dof, count=self.misfit.system.count, noise=self.noise)
        return Stage(state, weight, effective_dof, risk)

    def minimise(self, state: _State, weight: float, *, last: bool = False) -> _State:
        """Steps until they are short or no longer help."""
        search = self.search
        tolerance = search.last_tolerance if last else search.tolerance
        for _ in range(search.last_iterations if last else search.iterations):
            state = self._refreshed(state, weight)
            following = self._descended(state, weight)
            if following is None:
                break
            moved = _rms(following.log_permeability - state.log_permeability)
            state = following
            if moved < tolerance:
                break
        return state

    def _descended(self, state: _State, weight: float) -> _State | None:
        """The objective lowered by one step: in full, or towards the data alone, or half as far; None if by none.

        Fields with the same responses lie in curved valleys, which a straight step along them leaves: a step
        that gains much less than it promised is compared with one towards the data alone, which leads back.
        """
        before, (step, promised) = self._objective(state, weight), self._step(state, weight)
        best, after = self._trial(state, weight, step)
        if before - after < 0.25 * promised:
            other = self._trial(state, weight, self._step(state, weight, data_only=True)[0])
            best, after = min((best, after), other, key=lambda trial: trial[1])
        halvings = 0
        while not after < before and halvings < 7:
            halvings += 1
            best, after = self._trial(state, weight, step * 0.5**halvings)
        return best if after < before else None

    def _step(self, state: _State, weight: float, *, data_only: bool = False) -> tuple[np.ndarray, float]:
        """Gauss-Newton step of bounded length, and the fall of the objective that it promises."""
        penalty = self._penalty(state, weight)
        gradient = state.residuals.gradient()
        if not data_only:
            gradient = gradient + penalty @ state.log_permeability
        step = state.curvature.step(gradient, penalty)
        step *= min(1.0, LONGEST_STEP / max(float(np.max(np.abs(step))), 1e-300))
        return step, -float(gradient @ step) / 2

    def _trial(self, state: _State, weight: float, step: np.ndarray) -> tuple[_State, float]:
        """The state after a step, within the bounds, and its objective."""
        reach = log(self.search.contrast)
        field = np.clip(state.log_permeability + step, self.start - reach, self.start + reach)
        moved = replace(state, log_permeability=field, residuals=self.misfit.linearise(field))
        return moved, self._objective(moved, weight)

    def _objective(self, state: _State, weight: float) -> float:
        links = self.misfit.links
        penalty = self.regulariser.value(links.difference @ state.log_permeability, links=links)
        return state.residuals.mean_square / 2 + weight * penalty

    def _penalty(self, state: _State, weight: float) -> sparse.csr_array:
        links = self.misfit.links
        stiffness = self.regulariser.stiffness(links.difference @ state.log_permeability, links=links)
        return (links.difference.T @ sparse.diags_array(weight * stiffness) @ links.difference).tocsr()

    def _at(self, log_permeability: Float[np.ndarray, " node"]) -> _State:
        residuals = self.misfit.linearise(log_permeability)
        return _State(log_permeability, residuals, curvature_of(residuals), log_permeability)

    def _refreshed(self, state: _State, weight: float) -> _State:
        moved = _rms(state.log_permeability - state.curvature_at)
        if moved <= min(MOVED, 0.1 * sqrt(weight / self.unit)):
            return state
        return replace(state, curvature=curvature_of(state.residuals), curvature_at=state.log_permeability)


def _rms(field: np.ndarray) -> float:
    return float(np.sqrt(np.mean(field**2)))
