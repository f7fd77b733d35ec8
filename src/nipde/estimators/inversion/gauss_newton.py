"""min over log b of ½ Σ q r(b)² + λ R(log b): Gauss-Newton steps along a path of falling λ, each start the last end.

λ is chosen by the least expected error of the responses at the n measured values. With e² the mean square difference of
predicted and measured responses, and F = tr (H + λR)⁻¹ H the number of parameters that the data decide,
    noise σ known:    e² + 2 σ² F/n         (unbiased predictive risk)
    noise unknown:    e² / (1 - F/n)²       (generalised cross-validation).
The discrepancy principle, e² = σ², is not used: it forgets F and smooths too much when pairs are many.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.estimators.inversion.curvature import Curvature, curvature_of
from nipde.estimators.inversion.face_map import FaceMap
from nipde.estimators.inversion.linearisation import Linearisation
from nipde.estimators.inversion.regularisers import Regulariser

#: First weight of a path, over the ratio of the diagonals of H and R: little but a constant survives it.
FIRST_WEIGHT = 30.0
#: Tenfold falls of λ without a better risk that end a path.
PATIENCE = 2
#: Residuals below this share of the responses are rounding: a path ends there.
ROUNDING = 1e-13
#: The curvature is computed anew when log b has moved this far, root mean square, or less where λ is small: then the
#: directions that hardly matter turn with b, and a step along old ones does harm.
MOVED = 0.03
#: Longest change of log b in one step.
LONGEST_STEP = 1.5


class Misfit(ABC):
    """Residuals as a function of log b."""

    faces: FaceMap
    #: n, the number of measured values.
    count: int

    @abstractmethod
    def linearise(self, log_permeability: Float[np.ndarray, " node"]) -> Linearisation:
        """Residuals and their derivatives."""

    @abstractmethod
    def prediction_error(self, state: Linearisation, log_permeability: Float[np.ndarray, " node"]) -> float:
        """Mean square difference of the responses that the law gives and the measured ones: what λ is chosen by."""


@dataclass(frozen=True)
class Search:
    """How long to look: at most `stages` values of λ; b stays within `contrast` times the constant of the start.

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
    path = _Path(misfit, regulariser, search, start)
    if regulariser.weight is None:
        chosen = _choose(path, noise)
        return path.minimise(chosen.state, chosen.weight, last=True).log_permeability
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


@dataclass(frozen=True, eq=False)
class _Stage:
    """The minimum at one weight, and what is expected of it."""

    state: _State
    weight: float
    freedom: float
    risk: float


def _choose(path: "_Path", noise: float | None) -> _Stage:
    """The stage of least risk: whole decades of λ, then half a decade to either side."""
    stage = best = path.stage(path.state, FIRST_WEIGHT * path.unit, noise)
    worse = 0
    for _ in range(path.search.stages - 1):
        # All parameters are free and the risk still falls: the data are exact, and the end of the path is far.
        following = path.stage(stage.state, stage.weight / 10, noise)
        if following.risk < stage.risk / 10 and following.freedom < 1.02 * stage.freedom:
            following = path.stage(following.state, following.weight / 100, noise)
        stage = following
        worse = 0 if stage.risk < 0.999 * best.risk else worse + 1
        best = min(best, stage, key=lambda stage: stage.risk)
        if worse == PATIENCE or stage.state.residuals.mean_square < ROUNDING**2:
            break
    beside = [path.stage(best.state, best.weight * factor, noise) for factor in (sqrt(10), 1 / sqrt(10))]
    return min(best, *beside, key=lambda stage: stage.risk)


class _Path:
    """Minima for given weights."""

    def __init__(self, misfit: Misfit, regulariser: Regulariser, search: Search, start: float) -> None:
        self.misfit, self.regulariser, self.search, self.start = misfit, regulariser, search, start
        constant = np.full(misfit.faces.grid.size, start)
        residuals = misfit.linearise(constant)
        self.state = _State(constant, residuals, curvature_of(residuals), constant)
        stiffness = regulariser.stiffness(np.ones(len(misfit.faces.area)), faces=misfit.faces)
        #: λ at which H and λR, for jumps of 1, have the same trace.
        self.unit = self.state.curvature.scale * len(constant) / (2 * float(np.sum(stiffness)))

    def stage(self, state: _State, weight: float, noise: float | None) -> _Stage:
        """The minimum at a weight, and the expected error of its responses up to a constant or a factor."""
        state = self.minimise(state, weight)
        freedom = state.curvature.freedom(self._penalty(state, weight))
        share = freedom / self.misfit.count
        error = self.misfit.prediction_error(state.residuals, state.log_permeability)
        risk = error / max(1 - share, 1e-9) ** 2 if noise is None else error + 2 * noise**2 * share
        return _Stage(state, weight, freedom, risk)

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

        Fields that the data cannot tell apart lie on curved valleys, which a straight step along them leaves: a step
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
        faces = self.misfit.faces
        penalty = self.regulariser.value(faces.jumps @ state.log_permeability, faces=faces)
        return state.residuals.mean_square / 2 + weight * penalty

    def _penalty(self, state: _State, weight: float) -> sparse.csr_array:
        faces = self.misfit.faces
        stiffness = self.regulariser.stiffness(faces.jumps @ state.log_permeability, faces=faces)
        return (faces.jumps.T @ sparse.diags_array(weight * stiffness) @ faces.jumps).tocsr()

    def _refreshed(self, state: _State, weight: float) -> _State:
        moved = _rms(state.log_permeability - state.curvature_at)
        if moved <= min(MOVED, 0.1 * sqrt(weight / self.unit)):
            return state
        return replace(state, curvature=curvature_of(state.residuals), curvature_at=state.log_permeability)


def _rms(field: np.ndarray) -> float:
    return float(np.sqrt(np.mean(field**2)))
