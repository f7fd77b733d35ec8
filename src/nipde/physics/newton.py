"""Newton's method for min Π(u): K δu = r, a step s δu that lowers Π, and load steps where the whole load is too much.

Π(u + s δu) <= Π(u) - 10⁻⁴ s r·δu,   r = -∂Π/∂u,   K = ∂²Π/∂u²
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float

Values = Float[np.ndarray, " unknown"]
#: Share of the predicted decrease that a step must reach.
SUFFICIENT = 1e-4
#: Halvings of a Newton step before the load step is given up.
BACKTRACKS = 12
#: Below this residual Π is too flat to judge a step by: rounding is as large as the decrease.
FLAT = 1e-4


@dataclass(frozen=True)
class State:
    """A trial: Π, r, ‖r‖ over the size of the forces, and the smallest J of all points."""

    unknowns: Values
    potential: float
    residual: Values
    relative: float
    smallest_jacobian: float


class Problem(Protocol):
    """What Newton's method asks of a body under a share of its load."""

    def start(self) -> Values:
        """Unknowns without load."""

    def at(self, unknowns: Values, share: float) -> State:
        """Potential and residual."""

    def step(self, state: State, share: float) -> Values:
        """K⁻¹ r, or LinAlgError if K is not positive definite."""


@dataclass(frozen=True)
class Record:
    """How a solve went; without convergence, how far it came."""

    converged: bool
    residual: float
    #: Linear solves, over all load steps, given up ones too.
    iterations: int
    #: Load steps taken, and given up.
    steps: int
    cutbacks: int
    smallest_jacobian: float
    #: Residuals of the last load step, first to last.
    history: tuple[float, ...]


@dataclass(frozen=True)
class Newton:
    """Relative residual to reach, iterations allowed per load step, how often the load may be halved."""

    tolerance: float = 1e-8
    iterations: int = 20
    halvings: int = 10

    def solve(self, problem: Problem) -> tuple[Values, Record]:
        """The whole load at once; where that fails half of it, and twice as much after a success."""
        unknowns, done, step = problem.start(), 0.0, 1.0
        record = Record(False, np.inf, 0, 0, 0, np.nan, ())
        while done < 1 and step >= 2.0**-self.halvings:
            share = min(1.0, done + step)
            state, history, solves = self._carry(problem, unknowns, share)
            settled = history[-1] <= self.tolerance
            record = Record(
                converged=settled and share == 1,
                residual=history[-1],
                iterations=record.iterations + solves,
                steps=record.steps + settled,
                cutbacks=record.cutbacks + (not settled),
                smallest_jacobian=state.smallest_jacobian,
                history=tuple(history),
            )
            if settled:
                unknowns, done, step = state.unknowns, share, 2 * step
            else:
                step /= 2
        return unknowns, record

    def _carry(self, problem: Problem, unknowns: Values, share: float) -> tuple[State, list[float], int]:
        """Iterate at one share of the load; the last residual tells whether it settled."""
        state, solves = problem.at(unknowns, share), 0
        history = [state.relative]
        while not state.relative <= self.tolerance and solves < self.iterations:  # NaN has not settled
            try:
                direction = problem.step(state, share)
            except np.linalg.LinAlgError:
                break
            solves += 1
            lower = _lower(problem, state, direction, share)
            if lower is None:
                break
            state = lower
            history.append(state.relative)
        return state, history, solves


def diagnostics_of(records: Sequence[Record]) -> dict[str, Float[np.ndarray, " pair"]]:
    """Residual, iterations and smallest J of every solve, as arrays to store beside the responses."""
    names = ("residual", "iterations", "smallest_jacobian")
    return {name: np.array([getattr(record, name) for record in records], dtype=np.float64) for name in names}


def _lower(problem: Problem, state: State, direction: Values, share: float) -> State | None:
    """The longest of δu, δu/2, … that lowers Π enough; None if there is none."""
    slope, length = float(state.residual @ direction), 1.0
    for _ in range(BACKTRACKS):
        trial = problem.at(state.unknowns + length * direction, share)
        if trial.smallest_jacobian > 0:
            lowered = trial.potential <= state.potential - SUFFICIENT * length * slope
            if lowered or (state.relative < FLAT and trial.relative < state.relative):
                return trial
        length /= 2
    return None
