"""Conduction in a cube of 33³ nodes: weights conduction-3d and total variation, data of finite elements twice as fine.

Each system has 20 loads with 1 % noise in the responses, and five that are held out. Coefficients are compared with the
geometric mean of the true ones around every node. Total variation is fitted to the same equation error; of its weights
the largest is taken that explains the responses about as well as any. A system that is finished leaves a file.
"""

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.resumed import FOLDER, resumed
from benchmarks.timing import seconds
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.conduction_3d import Conduction3DRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.conditioned.elliptic_prior import EllipticPrior
from nipde.estimators.conditioned.equation_error_fit import EquationErrorFit, GaussianPrior
from nipde.estimators.conditioned.whitening import Whitened
from nipde.weights import load

SEED, WEIGHTS = 7301, "conduction-3d"
NODES, SYSTEMS, PAIRS, HELD_OUT, NOISE, LEVEL = 33, 50, 20, 5, 0.01, 0.9
#: Systems whose coefficient has bands, which take a minute each, and those that total variation is fitted to.
BANDS = VARIATIONS = 10
#: Weights of total variation, and rounds of reweighting with each.
COSTS, ROUNDS = (1000.0, 300.0, 100.0, 30.0, 10.0), 3


def measure(*, quick: bool) -> dict[str, Any]:
    """All systems; `quick` sees two of 17³."""
    nodes, systems = (17, 2) if quick else (NODES, SYSTEMS)
    recipe = Conduction3DRecipe(nodes=nodes, pairs=PAIRS + HELD_OUT)
    plan = Plan(recipe, systems=systems, seed=SEED, shard_systems=1)
    archive = generate(plan, FOLDER / "three-dimensions" / f"data-{nodes}", workers=1)
    judged = [resumed("three-dimensions", f"{nodes}-{number}", partial(judge, archive, number))
              for number in range(systems)]  # fmt: skip
    return {
        "nodes": nodes, "pairs": PAIRS, "noise": NOISE, "level": LEVEL, "refine": recipe.refine,
        "digest": archive.digest, "rows": [summary(judged, kind) for kind in ("two phases", "log-normal", "all")],
        "each": judged,
    }  # fmt: skip


def summary(judged: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Means over the systems of a kind, and over those that a number exists for."""
    own = [one for one in judged if kind in ("all", one["kind"])]
    row: dict[str, Any] = {"kind": kind, "systems": len(own)}
    for name in ("held_out", "log_error", "phases_right", "responses_within", "responses_needed",
                 "material_within", "material_needed", "seconds",
                 "variation_held_out", "variation_log_error", "variation_phases_right"):  # fmt: skip
        known = [one[name] for one in own if one.get(name) is not None]
        row[name] = float(np.mean(known)) if known else None
        row[f"{name}_systems"] = len(known)
    return row


@torch.no_grad()
def judge(archive: Archive, number: int) -> dict[str, Any]:
    """One system by both."""
    torch.set_num_threads(1)
    model, system = load(WEIGHTS).eval(), archive[number]
    assert isinstance(model, ConditionedNIPS)
    exact = Pairs.from_arrays(system.loads[:PAIRS], system.responses[:PAIRS], grid=archive.grid)
    pairs = with_white_noise(exact, share=NOISE, seed=SEED + number)
    loads, truth = torch.tensor(system.loads[PAIRS:]), torch.tensor(system.responses[PAIRS:])
    hidden = torch.tensor(system.hidden[0], dtype=torch.float64)
    kernels: list[Any] = []
    found: dict[str, Any] = {"seconds": seconds(lambda: kernels.append(model(pairs)))}
    kernel, kind = kernels[0], "log-normal" if system.parameters["log_normal"] else "two phases"
    found |= {"kind": kind, "contrast": float(system.parameters["contrast"])}
    found["held_out"] = relative_error(kernel.predict(loads), truth)
    low, high = kernel.band(loads, level=LEVEL)
    inside = torch.tensor(archive.grid.unknown)
    found |= within("responses", (truth - (low + high) / 2).abs()[..., inside], (high - low)[..., inside] / 2)
    found |= {"log_error": log_error(kernel.posterior.coefficient, hidden, inside),
              "phases_right": phases_right(kernel.posterior.coefficient, hidden, inside, kind)}  # fmt: skip
    if number < BANDS:
        posterior = kernel.posterior
        error = (posterior.coefficient.double() / hidden).log().abs()
        factor = posterior.widening * float(kernel.bands.material[kernel.bands.levels.index(LEVEL)])
        half = factor * posterior.deviation().double()
        found |= within("material", error[inside], half[inside])
    if number < VARIATIONS:
        other = with_total_variation(model)(pairs)
        coefficient = other.posterior.coefficient
        found |= {"variation_held_out": relative_error(other.prior.predict(loads), truth),
                  "variation_log_error": log_error(coefficient, hidden, inside),
                  "variation_phases_right": phases_right(coefficient, hidden, inside, kind)}  # fmt: skip
    return found


def within(name: str, error: Tensor, half: Tensor) -> dict[str, float]:
    """Share of errors below the half width of a band, and the multiple of it that holds the stated share."""
    ratio = (error / half).double().flatten()
    needed = float(np.quantile(ratio.numpy(), LEVEL))
    return {f"{name}_within": float((ratio <= 1).double().mean()), f"{name}_needed": needed}


def relative_error(found: Tensor, truth: Tensor) -> float:
    """‖u - u₀‖ / ‖u₀‖, mean over loads."""
    return float(((found - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean())


def log_error(found: Tensor, hidden: Tensor, inside: Tensor) -> float:
    """Mean |log b - log b₀| over inner nodes."""
    return float((found.double() / hidden).log().abs()[inside].mean())


def phases_right(found: Tensor, hidden: Tensor, inside: Tensor, kind: str) -> float | None:
    """Share of inner nodes on the right side of the phases' geometric mean; of nodes within one phase."""
    if kind != "two phases":
        return None
    low, high = hidden.min().log(), hidden.max().log()
    middle, log = (low + high) / 2, hidden.log()
    pure = inside & ((log - low).abs().minimum((high - log).abs()) < 0.01 * (high - low))
    return float(((found.double().log() > middle) == (log > middle))[pure].double().mean())


class TotalVariation(EllipticPrior):
    """The coefficient of least total variation among those that explain the responses."""

    def _fitted(self, pairs: Whitened) -> tuple[EquationErrorFit, Tensor, GaussianPrior]:
        fit, coefficients, prior = super()._fitted(pairs)
        fields, misfits = [], []
        for cost in COSTS:
            coefficients = self._reweighted(fit, coefficients, ROUNDS, partial(_smoothness, cost))
            fields.append(coefficients)
            misfits.append(float((self._solved(pairs, coefficients) - fit.responses).square().mean()))
        chosen = next(number for number, one in enumerate(misfits) if one <= 1.03 * min(misfits))
        return fit, fields[chosen], prior


def _smoothness(cost: float, jump: Tensor) -> Tensor:
    return cost * jump.rsqrt()


def with_total_variation(model: ConditionedNIPS) -> ConditionedNIPS:
    """Its prior replaced; without calibration."""
    other = deepcopy(model)
    other.prior.__class__ = TotalVariation
    other.calibration = None
    return other
