"""Output error of plane bodies: min over θ of ½ mean |u(θ) - u|² / mean |u|² + λ Σ (jumps of θ)²/2.

`ElasticBalance` minimises the equilibrium gap of measured displacements, and so amplifies their noise like a second
derivative; here the displacements of a body are compared with those measured. Gauss-Newton steps follow a path of
falling λ, see `regularisation_path`. Of the forms a body may have, from a matrix that differs from cell to cell to
fibres that do, too, the first is taken that leaves no more than noise (next to nothing, where it is unknown), or the
one of least risk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import ndtri

from nipde.context.pairs import Pairs
from nipde.errors import KernelError, PairsError, SolverError
from nipde.estimators.inverse.body_misfit import BodyMisfit, Form, State
from nipde.estimators.inverse.elastic_balance import EXPLAINED, check_elastic_pairs, predictor_of
from nipde.estimators.inverse.equilibrium_gap import EquilibriumGap
from nipde.estimators.inverse.regularisation_path import FIRST_WEIGHT, Stage, least_risk, predictive_risk
from nipde.kernels.body import BodyPredictor
from nipde.physics.bodies import CellwiseBody
from nipde.physics.materials import matrix_stresses
from nipde.physics.quadrilaterals import mesh_of

#: From plain to rich.
FORMS = (Form(matrix=True), Form(matrix=False, fibres=True), Form(matrix=True, fibres=True))
#: λ falls from one stage to the next by this factor, for at most so many.
FALL, STAGES = 10**-0.5, 16
#: Steps at the selected λ; steps of a homogeneous body.
LAST, HOMOGENEOUS_STEPS = 3, 6
#: Longest change of a parameter in one step; halvings of a step that does not help.
LONGEST, HALVINGS = 1.5, 4
#: Directions, radians, at which the search for homogeneous fibres starts, and their stiffness there, in units of μ.
DIRECTIONS, STIFF = (0.0, np.pi / 2), 0.5
#: A richer form must lower the risk by this factor, and is given up if after so many λ its risk is this much higher.
WORTH, GIVE_UP, MUCH_MORE = 0.99, 6, 10.0
#: Standard deviations of a mean square that are still noise.
STILL_NOISE = 4.0


@dataclass(frozen=True)
class ElasticGaussNewton:
    """Slower than `ElasticBalance`, and robust to noise; `fibres=False` fits a matrix alone."""

    fibres: bool = True

    def __call__(self, pairs: Pairs) -> BodyPredictor:
        """The body of every system, which predicts by Newton's method."""
        return predictor_of(pairs, self.body)

    def body(self, pairs: Pairs) -> CellwiseBody:
        """Of one system."""
        return self.posterior(pairs).body

    def posterior(self, pairs: Pairs) -> "BodyPosterior":
        """The body of one system with its uncertainty."""
        if pairs.batch:
            raise PairsError(
                expected="the pairs of one system", got=f"a batch {pairs.batch}", remedy="take pairs.system(number)"
            )
        check_elastic_pairs(pairs)
        start = _HomogeneousBodies(pairs)
        path = _Path(pairs, FORMS[0], start)
        best = path.best()
        for form in FORMS[1:] if self.fibres else ():
            if path.explains(best):
                break
            try:
                richer = _Path(pairs, form, start)
                stage = richer.best(other_risk=best.risk)
            except SolverError:  # such a body does not stand the loads
                continue
            if richer.explains(stage) or stage.risk < WORTH * best.risk:
                path, best = richer, stage
        return path.posterior(best)


@dataclass(frozen=True, eq=False)
class BodyPosterior:
    """θ of one system, normal around its estimate, its precision the curvature of misfit and penalty.

        C = (σ²/n) (H + λR)⁻¹,    σ noise as a share of the responses' root mean square, n measured numbers

    to first order, with the penalty at the selected λ taken for the prior.
    """

    misfit: BodyMisfit
    parameters: Float[np.ndarray, " parameter"]
    precision: Float[np.ndarray, "parameter parameter"]

    @cached_property
    def body(self) -> CellwiseBody:
        """The most likely one."""
        return self.misfit.body(self.parameters)

    @cached_property
    def _covariance(self) -> Float[np.ndarray, "everywhere everywhere"]:
        own = cho_solve(cho_factor(self.precision), np.eye(len(self.precision)))
        return np.asarray(self.misfit.spread @ (self.misfit.spread @ own).T)

    def modulus_deviation(self) -> Float[np.ndarray, "*cell"]:
        """Standard deviation of log E in every cell, E = μ (3r + 2)/(r + 1) with r = κ/μ."""
        cells, covariance = self.body.shear.size, self._covariance
        ratio = float(np.exp(self.parameters[-1]))
        slope = ratio / ((3 * ratio + 2) * (ratio + 1))  # of log E by log r
        variance = np.diag(covariance)[:cells] + 2 * slope * covariance[:cells, -1] + slope**2 * covariance[-1, -1]
        return np.sqrt(variance).reshape(self.body.shear.shape)

    def modulus_band(self, level: float = 0.9) -> tuple[Float[np.ndarray, "*cell"], Float[np.ndarray, "*cell"]]:
        """Young's modulus of every cell, from and to: a share `level` of cells should be within."""
        if not 0 < level < 1:
            raise KernelError(expected="a level between 0 and 1", got=level, remedy="0.9 is ninety per cent")
        wide = np.exp(ndtri((1 + level) / 2) * self.modulus_deviation())
        return self.body.young / wide, self.body.young * wide

    def angle_deviation(self) -> Float[np.ndarray, "*cell"]:
        """Standard deviation of the fibres' angle in every cell, radians; infinite where there are none.

        It means little beyond half a radian, where the stiffness of the fibres is of the size of its deviation.
        """
        cells, count = self.body.shear.shape, self.body.shear.size
        if self.misfit.fields == 1:
            return np.full(cells, np.inf)
        angle, stiffness = self.body.angles.reshape(-1), self.body.stiffness.reshape(-1) / self.misfit.unit
        first, second = np.arange(count, 2 * count), np.arange(2 * count, 3 * count)
        across = -np.sin(2 * angle), np.cos(2 * angle)
        covariance = self._covariance
        variance = (
            across[0] ** 2 * covariance[first, first] + 2 * across[0] * across[1] * covariance[first, second]
            + across[1] ** 2 * covariance[second, second]
        )  # fmt: skip
        with np.errstate(divide="ignore"):
            return (np.sqrt(variance) / (2 * stiffness)).reshape(cells)

    def draws(self, count: int, *, seed: int = 0) -> list[CellwiseBody]:
        """Samples of the posterior: they give a band to any prediction and any derived quantity."""
        if count < 0:
            raise KernelError(expected="a number of bodies", got=count, remedy="draw 100")
        factor = np.linalg.cholesky(self.precision)
        normal = np.random.default_rng(seed).standard_normal((len(self.parameters), count))
        return [self.misfit.body(self.parameters + away) for away in solve_triangular(factor.T, normal).T]


class _HomogeneousBodies:
    """Bodies that are the same everywhere, nearest to the pairs by their displacements; each fitted once."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        loads, responses = (field.double().cpu().numpy() for field in (pairs.loads, pairs.responses))
        gap = EquilibriumGap.of(mesh_of(pairs.grid, 1, 1), matrix_stresses, loads=loads, responses=responses)
        shear, bulk = gap.homogeneous
        self.unit, self.first = float(shear), np.log([shear, bulk / shear])
        self._fitted: dict[bool, Float[np.ndarray, " everywhere"]] = {}

    def everywhere(self, *, fibres: bool) -> Float[np.ndarray, " everywhere"]:
        """Its values in all cells."""
        if fibres not in self._fitted:
            misfit = BodyMisfit(self.pairs, Form(False, False if fibres else None), unit=self.unit)
            moments = [STIFF * np.array([np.cos(2 * angle), np.sin(2 * angle)]) for angle in DIRECTIONS]
            starts = [np.insert(self.first, 1, moment) for moment in moments] if fibres else [self.first]
            nearest = min((_nearest(misfit, start) for start in starts), key=lambda state: state.mean_square)
            self._fitted[fibres] = misfit.spread @ nearest.parameters
        return self._fitted[fibres]


def _nearest(misfit: BodyMisfit, parameters: Float[np.ndarray, " parameter"]) -> State:
    """Gauss-Newton steps in a few parameters."""
    state = misfit.at(parameters)
    for _ in range(HOMOGENEOUS_STEPS):
        step = cho_solve(cho_factor(_lifted(state.curvature)), -state.gradient)
        state = _descended(misfit, state, np.clip(step, -LONGEST, LONGEST))
    return state


class _Path:
    """Of one form."""

    def __init__(self, pairs: Pairs, form: Form, homogeneous: _HomogeneousBodies) -> None:
        self.misfit = BodyMisfit(pairs, form, unit=homogeneous.unit)
        self.start = self.misfit.parameters_of(homogeneous.everywhere(fibres=form.fibres is not None))
        # Noise of 0 says that pairs are exact, and not how well a body can fit them.
        noise = 0.0 if pairs.noise is None else float(pairs.noise)
        self.noise = noise / self.misfit.size or None
        jumps = sparse.block_diag([*[_jumps(self.misfit.mesh.cells)] * self.misfit.fields, sparse.csr_array((1, 1))])
        own = jumps @ self.misfit.spread
        self.penalty = (own.T @ own).toarray()

    def best(self, other_risk: float = np.inf) -> Stage[State]:
        """Of all λ, or of the first ones where the risk of another form is far below."""
        start = self.misfit.at(self.start)
        where = np.diag(self.penalty) > 0
        weight = FIRST_WEIGHT * float(np.sum(np.diag(start.curvature)[where]) / np.trace(self.penalty))
        return least_risk(
            self.stage(start, weight),
            lambda stage: self.stage(stage.state, stage.weight * FALL),
            stages=STAGES,
            ended=lambda number, _, best: number >= GIVE_UP and best.risk > MUCH_MORE * other_risk,
        )

    def stage(self, state: State, weight: float) -> Stage[State]:
        """One step at a weight, and the expected error of its responses."""
        state = self.step(state, weight)
        dof = float(np.trace(cho_solve(cho_factor(self.matrix(state, weight)), state.curvature)))
        risk = predictive_risk(state.mean_square, effective_dof=dof, count=self.misfit.count, noise=self.noise)
        return Stage(state, weight, dof, risk)

    def explains(self, stage: Stage[State]) -> bool:
        """Whether the misfit is no more than the known noise; next to nothing, if the noise is unknown."""
        most = 1 + STILL_NOISE * np.sqrt(2 / self.misfit.count)
        return stage.state.mean_square <= (EXPLAINED**2 if self.noise is None else most * self.noise**2)

    def posterior(self, stage: Stage[State]) -> BodyPosterior:
        """Steps at this λ to the end, and the normal distribution around it."""
        state = stage.state
        for _ in range(LAST):
            state = self.step(state, stage.weight)
        # What no body of the form explains counts as noise, too.
        unexplained = state.mean_square / max(1 - stage.effective_dof / self.misfit.count, 1e-9)
        variance = max(unexplained, (self.noise or 0.0) ** 2)
        precision = self.matrix(state, stage.weight) * (self.misfit.count / variance)
        return BodyPosterior(self.misfit, state.parameters, precision)

    def step(self, state: State, weight: float) -> State:
        """Gauss-Newton, of bounded length, shortened until the objective falls."""
        penalty = weight * self.penalty
        downhill = -(state.gradient + penalty @ state.parameters)
        step = cho_solve(cho_factor(self.matrix(state, weight)), downhill)
        return _descended(self.misfit, state, step * min(1.0, LONGEST / float(np.max(np.abs(step)))), penalty)

    def matrix(self, state: State, weight: float) -> Float[np.ndarray, "parameter parameter"]:
        """H + λR."""
        return _lifted(state.curvature) + weight * self.penalty


def _lifted(curvature: Float[np.ndarray, "parameter parameter"]) -> Float[np.ndarray, "parameter parameter"]:
    """With a diagonal at the size of rounding: positive definite."""
    return curvature + 1e-12 * np.trace(curvature) * np.eye(len(curvature))


def _descended(
    misfit: BodyMisfit, state: State, step: Float[np.ndarray, " parameter"], penalty: np.ndarray | float = 0.0
) -> State:
    def objective(parameters: Float[np.ndarray, " parameter"], mean_square: float) -> float:
        return mean_square / 2 + float(parameters @ np.dot(penalty, parameters)) / 2

    before = objective(state.parameters, state.mean_square)
    for halving in range(HALVINGS):
        parameters = state.parameters + step * 0.5**halving
        try:
            moved = misfit.body(parameters).solve(misfit.loads)
            if objective(parameters, misfit.mean_square(moved)) < before:
                return misfit.linearised(parameters, moved)
        except SolverError:
            continue
    return state


def _jumps(cells: Sequence[int]) -> sparse.csr_array:
    """Differences across the sides that two cells share."""
    along = [sparse.csr_array(np.diff(np.eye(count), axis=0)) for count in cells]
    eyes = [sparse.eye_array(count) for count in cells]
    return sparse.csr_array(sparse.vstack([sparse.kron(along[0], eyes[1]), sparse.kron(eyes[0], along[1])]))
