"""A path of falling λ, each minimum the start of the next, and the λ of least expected error of the responses.

With e² the mean square difference of predicted and measured responses, n the number of measured values and
F = tr (H + λR)⁻¹ H the effective degrees of freedom,
    noise σ known:    e² + 2 σ² F/n         (unbiased predictive risk)
    noise unknown:    e² / (1 - F/n)²       (generalised cross-validation).
The discrepancy principle, e² = σ², is not used: it ignores F and smooths too much when pairs are many.

If no λ comes near the known noise, responses have other errors, too, such as those of the grid; see `cautious`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Generic, TypeVar

#: First λ of a path, over the ratio of the diagonals of H and R: little but a constant survives it.
FIRST_WEIGHT = 30.0
#: Values of λ without a better risk that end a path.
PATIENCE = 2
#: In deviations of a mean square of n values, √(2/n): what is more than noise, and what is the same.
NOT_NOISE, SAME = 5.0, 2.0

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


def cautious(stages: Sequence[Stage[State]], *, count: int, noise: float) -> Stage[State] | None:
    """A stage of larger λ than that of least risk if all of them leave far more than the known noise σ, else None.

    Then what the best fit leaves counts as noise: σ² = min e² / (1 - F/n). Its errors are not white, and to fit them
    costs little risk but drives b to extremes wherever nothing was measured: the largest λ is selected whose risk is
    not significantly above the least.
    """
    shares = [stage.effective_dof / count for stage in stages]
    errors = [stage.risk - 2 * noise**2 * share for stage, share in zip(stages, shares, strict=True)]
    left = min(error / max(1 - share, 1e-9) for error, share in zip(errors, shares, strict=True))
    if left <= noise**2 * (1 + NOT_NOISE * sqrt(2 / count)):
        return None
    risks = [error + 2 * left * share for error, share in zip(errors, shares, strict=True)]
    limit = min(risks) * (1 + SAME * sqrt(2 / count))
    return max((stage for stage, risk in zip(stages, risks, strict=True) if risk <= limit), key=lambda one: one.weight)
