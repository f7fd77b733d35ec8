"""A plane body by its displacements: min over θ of ½ mean |u(θ) - u|² / mean |u|² + λ Σ (jumps of θ)²/2.

Where `ElasticBalance` asks measured displacements to balance, and so amplifies their noise like a second derivative,
this asks the displacements of a body to be those measured. Gauss-Newton steps follow a path of falling λ; kept is that
of the least expected error of the responses,
    noise σ known:  e² + 2 σ² F/n,     unknown:  e² / (1 - F/n)²,     F = tr (H + λR)⁻¹ H
and of the forms a body may have, from a matrix that differs from cell to cell to fibres that do, too, the first that
leaves no more than noise (next to nothing, where its level is not known), or the one that is expected to err least.
Around it θ is normal, which gives bands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import torch
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from nipde.context.pairs import Pairs
from nipde.errors import PairsError, SolverError
from nipde.estimators.elastic_balance import EXPLAINED, check_held, even_matrix, systems_of
from nipde.estimators.inversion.body_misfit import BodyMisfit, Form, State
from nipde.estimators.inversion.body_posterior import BodyPosterior
from nipde.kernels.body import BodyPredictor
from nipde.physics.cellwise import CellwiseBody

#: From plain to rich.
FORMS = (Form(matrix=True), Form(matrix=False, fibres=True), Form(matrix=True, fibres=True))
#: First λ over the ratio of the traces of H and R, fall from one to the next, and how many at most.
FIRST, FALL, STAGES = 30.0, 10**-0.5, 16
#: λ without a better risk that end the path; steps at the λ that is chosen; steps of an even body.
PATIENCE, LAST, EVEN_STEPS = 2, 3, 6
#: Longest change of a parameter in one step; halvings of a step that does not help.
LONGEST, HALVINGS = 1.5, 4
#: Directions, radians, from which even fibres are looked for, and how stiff they are there, in units of μ.
DIRECTIONS, STIFF = (0.0, np.pi / 2), 0.5
#: Richer forms must be expected to err less by this factor, and are given up if so many λ on they err this much more.
WORTH, GIVE_UP, MUCH_MORE = 0.99, 6, 10.0
#: Standard deviations of a mean square that are still noise.
STILL_NOISE = 4.0


@dataclass(frozen=True)
class ElasticGaussNewton:
    """Slower than `ElasticBalance`, and bears noise; with `fibres=False` none are looked for."""

    fibres: bool = True

    def __call__(self, pairs: Pairs) -> BodyPredictor:
        """The body of every system, which answers loads by Newton's method."""
        return BodyPredictor.of([self.body(one) for one in systems_of(pairs)], like=pairs.loads.new_ones(pairs.batch))

    def body(self, pairs: Pairs) -> CellwiseBody:
        """Of one system."""
        return self.posterior(pairs).body

    def posterior(self, pairs: Pairs) -> BodyPosterior:
        """The body of one system, and how sure it is."""
        if pairs.batch:
            raise PairsError(
                expected="the pairs of one system", got=f"a batch {pairs.batch}", remedy="take pairs.system(number)"
            )
        check_held(pairs)
        start = _EvenBodies(pairs)
        best = _Path(pairs, FORMS[0], start).best()
        for form in FORMS[1:] if self.fibres else ():
            if best.enough:
                break
            try:
                other = _Path(pairs, form, start).best(rival=best.risk)
            except SolverError:  # such a body does not stand the loads
                continue
            best = other if other.enough or other.risk < WORTH * best.risk else best
        return best.posterior()


@dataclass(frozen=True, eq=False)
class _Stage:
    """Where a path is at one λ: F/n, and what error of the responses to expect."""

    path: "_Path"
    state: State
    weight: float
    share: float

    @property
    def risk(self) -> float:
        noise, error = self.path.noise, self.state.mean_square
        return error / max(1 - self.share, 1e-9) ** 2 if noise is None else error + 2 * noise**2 * self.share

    @property
    def enough(self) -> bool:
        """What is left is no more than noise of the level that is known; if none is, next to nothing."""
        noise = self.path.noise
        most = 1 + STILL_NOISE * np.sqrt(2 / self.path.misfit.count)
        return self.state.mean_square <= (EXPLAINED**2 if noise is None else most * noise**2)

    def posterior(self) -> BodyPosterior:
        """Steps at this λ to the end, and the normal distribution around it."""
        path, state = self.path, self.state
        for _ in range(LAST):
            state = path.step(state, self.weight)
        # What no body of the form explains counts as noise, too.
        left = max(state.mean_square / max(1 - self.share, 1e-9), (path.noise or 0.0) ** 2)
        precision = path.matrix(state, self.weight) * (path.misfit.count / left)
        return BodyPosterior(path.misfit, state.parameters, precision)


class _EvenBodies:
    """Bodies that are the same everywhere, nearest to the pairs by their displacements; each found once."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        arrays = (field.double().cpu().numpy() for field in (pairs.loads, pairs.responses))
        shear, bulk = even_matrix(pairs.grid, *arrays)[:2]
        self.unit, self.first = float(shear), np.log([shear, bulk / shear])
        self._found: dict[bool, Float[np.ndarray, " everywhere"]] = {}

    def everywhere(self, *, fibres: bool) -> Float[np.ndarray, " everywhere"]:
        """Its values in all cells."""
        if fibres not in self._found:
            misfit = BodyMisfit(self.pairs, Form(False, False if fibres else None), unit=self.unit)
            turns = [np.array([np.cos(2 * angle), np.sin(2 * angle)]) for angle in DIRECTIONS]
            starts = [np.insert(self.first, 1, STIFF * turn) for turn in turns] if fibres else [self.first]
            nearest = min((_nearest(misfit, start) for start in starts), key=lambda state: state.mean_square)
            self._found[fibres] = misfit.spread @ nearest.parameters
        return self._found[fibres]


def _nearest(misfit: BodyMisfit, parameters: Float[np.ndarray, " parameter"]) -> State:
    """Steps of Gauss and Newton in a few parameters."""
    state = misfit.at(parameters)
    for _ in range(EVEN_STEPS):
        step = cho_solve(cho_factor(_lifted(state.curvature)), -state.gradient)
        state = _descended(misfit, state, np.clip(step, -LONGEST, LONGEST))
    return state


class _Path:
    """Of one form."""

    def __init__(self, pairs: Pairs, form: Form, even: _EvenBodies) -> None:
        self.misfit = BodyMisfit(pairs, form, unit=even.unit)
        self.start = self.misfit.parameters_of(even.everywhere(fibres=form.fibres is not None))
        # A level of 0 says that pairs are exact, and not how well a body can follow them.
        noise = 0.0 if pairs.noise is None else float(torch.as_tensor(pairs.noise))
        self.noise = noise / self.misfit.size or None
        jumps = sparse.block_diag([*[_jumps(self.misfit.mesh.cells)] * self.misfit.fields, sparse.csr_array((1, 1))])
        own = jumps @ self.misfit.spread
        self.penalty = (own.T @ own).toarray()

    def best(self, rival: float = np.inf) -> _Stage:
        """Of all λ, or of the first ones where a rival's risk is far."""
        start = self.misfit.at(self.start)
        where = np.diag(self.penalty) > 0
        weight = FIRST * float(np.sum(np.diag(start.curvature)[where]) / np.trace(self.penalty))
        stage = best = self.stage(start, weight)
        worse = 0
        for number in range(1, STAGES):
            stage = self.stage(stage.state, stage.weight * FALL)
            worse = 0 if stage.risk < 0.999 * best.risk else worse + 1
            best = min(best, stage, key=lambda one: one.risk)
            if worse == PATIENCE or (number >= GIVE_UP and best.risk > MUCH_MORE * rival):
                break
        return best

    def stage(self, state: State, weight: float) -> _Stage:
        """One step at a weight, and what of the measured numbers its parameters follow."""
        state = self.step(state, weight)
        followed = cho_solve(cho_factor(self.matrix(state, weight)), state.curvature)
        return _Stage(self, state, weight, float(np.trace(followed)) / self.misfit.count)

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
    """By so little that only rounding sees it."""
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
