"""A path of falling λ, each minimum the start of the next, and the λ of least expected error of the responses.

With e² the mean square difference of predicted and measured responses, n the number of measured values and
F = tr (H + λR)⁻¹ H the effective degrees of freedom,
    noise σ known:    e² + 2 σ² F/n         (unbiased predictive risk)
    noise unknown:    e² / (1 - F/n)²       (generalised cross-validation).
The discrepancy principle, e² = σ², is not used: it ignores F and smooths too much when pairs are many.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

#: First λ of a path, over the ratio of the diagonals of H and R: little but a constant survives it.
FIRST_WEIGHT = 30.0
#: Values of λ without a better risk that end a path.
PATIENCE = 2

State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Stage(Generic[State]):
    """The minimum at one λ."""

    state: State
    weight: float
    effective_dof: float
    risk: float


def predictive_risk(error: float, *, effective_dof: float, count: int, noise: float | None) -> float:
    """Expected error of the responses, up to a constant or a factor; `error` is e², `noise` σ."""
    share = effective_dof / count
    return error / max(1 - share, 1e-9) ** 2 if noise is None else error + 2 * noise**2 * share


def least_risk(
    first: Stage[State], following: Callable[[Stage[State]], Stage[State]], *, stages: int,
    ended: Callable[[int, Stage[State], Stage[State]], bool],
) -> Stage[State]:  # fmt: skip
    """The stage of least risk among at most `stages`; `ended(number, stage, best)` may stop before."""
    stage = best = first
    worse = 0
    for number in range(1, stages):
        stage = following(stage)
        worse = 0 if stage.risk < 0.999 * best.risk else worse + 1
        best = min(best, stage, key=lambda one: one.risk)
        if worse == PATIENCE or ended(number, stage, best):
            break
    return best
