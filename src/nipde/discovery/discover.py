"""From a measurement to what is inside: kernel, material, bands, phases, checks, rivals, the next load."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import nipde
from nipde.context.pairs import Pairs
from nipde.discovery.bands import check_level, material_of
from nipde.discovery.discovery import UNSEEN, Discovery, HeldOut, Material, NextLoads, Phases, Rival
from nipde.discovery.held_out import answered, split
from nipde.discovery.next_loads import effort_of, next_loads
from nipde.discovery.phases import check_method, phases_of
from nipde.discovery.rivals import RIVALS, rival
from nipde.errors import KernelError, PairsError
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.kernels.conditioned import ConditionedKernel
from nipde.measurements.measurement import Measurement

#: Held-out pairs are few and noisy: they decide against few phases only if these are worse by more than this.
CLEARLY = 0.95


@torch.no_grad()
def discover(
    measurement: Measurement,
    model: ConditionedNIPS,
    *,
    phases: int = 2,
    sharp: bool | None = None,
    level: float = 0.9,
    rivals: Sequence[str] = tuple(RIVALS),
    proposals: int = 5,
    progress: Callable[[str], None] = lambda doing: None,
) -> Discovery:
    """One system, by weights that infer a material; `progress` hears of steps.

    `sharp` says that b is even but for jumps; None lets the held-out pairs say so.
    """
    begun = time.perf_counter()
    _check(phases, level, rivals)
    weight = next(model.parameters())
    pairs = measurement.pairs.to(dtype=weight.dtype, device=weight.device)
    if pairs.batch:
        raise PairsError(expected="the pairs of one system", got=f"a batch {pairs.batch}", remedy="take one of them")
    progress("held-out pairs")
    parts = split(pairs)
    model, held_out = chosen(model, parts, sharp=sharp)
    progress("kernel")
    estimated, posterior = model.with_posterior(pairs)
    kernel = _in_own_units(estimated)
    progress("material")
    material, deviation = material_of(kernel, posterior, level=level, unit=measurement.units.coefficient)
    seen = (material.identifiable >= UNSEEN) & pairs.grid.unknown
    among = seen if seen.any() else np.asarray(pairs.grid.unknown)
    found = phases_of(material.values, deviation=deviation, among=among, count=phases)
    others = []
    for other in rivals:
        progress(other)
        others.append(rival(other, parts[0] if parts else pairs, parts[1] if parts else None))
    progress("next load")
    proposed = next_loads(kernel, effort=effort_of(pairs.loads), count=proposals, unit=measurement.units.load)
    provenance: dict[str, Any] = {
        "nipde": nipde.__version__,
        "torch": torch.__version__,
        "weights": model.name,
        "weights_sha256": _digest(model),
        "sharp": model.sharp,
        "pairs": pairs.count,
        "files": [vars(source) for source in measurement.sources],
        "seconds": round(time.perf_counter() - begun, 3),
    }
    verdict = verdict_of(pairs, kernel, material, found, held_out, others, proposed)
    return Discovery(
        measurement, model.name, kernel, material, found, held_out, tuple(others), proposed, verdict, provenance
    )


def verdict_of(
    pairs: Pairs,
    kernel: ConditionedKernel,
    material: Material,
    phases: Phases,
    held_out: HeldOut | None,
    rivals: Sequence[Rival],
    proposed: NextLoads,
) -> tuple[str, ...]:
    """Plain sentences, the most important first."""
    said = [_of_phases(material, phases, pairs)]
    if held_out is None:
        said.append("Too few pairs to keep one out: nothing here says how well new loads are answered.")
    else:
        error = 100 * float(held_out.errors.mean())
        best = min((one.held_out_error for one in rivals if np.isfinite(one.held_out_error)), default=np.nan)
        beside = "" if np.isnan(best) else f"; the best classical inversion of the same pairs, {100 * best:.2g} %"
        said.append(f"Loads that were kept out are answered to {error:.2g} %{beside}.")
    if kernel.trust is None:
        said.append(
            "No alarm can be given: these weights were not calibrated for pairs like these (gaps, noisy loads, or "
            "weights of your own)."
        )
    else:
        said.append(kernel.alarm.reasons())
    if not all(axis.boundary.clamped for axis in pairs.grid.axes):
        said.append("Not all sides are held at 0; weights that come with nipde were trained with sides held only.")
    unknown = np.asarray(pairs.grid.unknown)
    share = float(np.mean(material.identifiable[unknown] >= UNSEEN))
    said.append(f"The pairs fix b at {100 * share:.0f} % of the free nodes; in clamped corners they cannot.")
    kind = "tried on other systems" if material.calibrated else "from the posterior alone, not tried on other systems"
    half = float(np.median((np.log(material.high / material.low) / 2)[unknown]))
    said.append(
        f"Bands of {100 * material.level:g} % on b are ± {100 * np.expm1(half):.2g} % wide in the median, {kind}."
    )
    if len(proposed.gains):
        said.append(
            f"The next load worth applying: {proposed.names[0]}; it removes {100 * proposed.gains[0]:.2g} % of what is "
            "not known of the answers to long waves."
        )
    return tuple(said)


def _of_phases(material: Material, phases: Phases, pairs: Pairs) -> str:
    unknown = np.asarray(pairs.grid.unknown)
    unit = f" {material.unit}" if material.unit not in ("", "1", "dimensionless") else ""
    if len(phases.levels) == 1:
        return f"One material, b = {phases.levels[0]:.3g}{unit}."
    shares = [100 * float(np.mean(phases.labels[unknown] == phase)) for phase in range(len(phases.levels))]
    parts = [f"{level:.3g}{unit} on {share:.0f} %" for level, share in zip(phases.levels, shares, strict=True)]
    unsure = 100 * float(np.mean(phases.uncertain[unknown]))
    return f"{len(parts)} phases: b is {', '.join(parts)} of the area; {unsure:.1f} % of the nodes could be of another."


def _check(phases: int, level: float, rivals: Sequence[str]) -> None:
    """Before anything is computed."""
    check_level(level)
    check_method(phases, "otsu")
    if unknown := [name for name in rivals if name not in RIVALS]:
        raise KernelError(expected=f"rivals among {', '.join(RIVALS)}", got=", ".join(unknown), remedy="choose others")


def chosen(
    model: ConditionedNIPS, parts: tuple[Pairs, Pairs, tuple[int, ...]] | None, *, sharp: bool | None = None
) -> tuple[ConditionedNIPS, HeldOut | None]:
    """The weights for a material of few phases, as told, or unless others answer held-out pairs clearly better."""
    if sharp or (sharp is None and parts is not None):
        tried = [model.sharpened()] if sharp else [model, model.sharpened()]
    else:
        tried = [model]
    if parts is None:
        return tried[0], None
    answers = [answered(one(parts[0]), parts[1], parts[2]) for one in tried]
    errors = [float(answer.errors.mean()) for answer in answers]
    best = len(tried) - 1 if errors[-1] * CLEARLY <= errors[0] else 0
    return tried[best], answers[best]


def _digest(model: ConditionedNIPS) -> str:
    """Of all weights, by name."""
    found = hashlib.sha256()
    for name, values in sorted(model.state_dict().items()):
        found.update(name.encode() + values.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _in_own_units(kernel: ConditionedKernel) -> ConditionedKernel:
    """Stiffness says nothing where the units are anybody's: the alarm leaves it out."""
    if kernel.trust is None:
        return kernel
    alarm = kernel.trust.alarm
    scores = {name: score for name, score in alarm.scores.items() if name != "stiffness"}
    return replace(kernel, trust=replace(kernel.trust, alarm=replace(alarm, scores=scores)))
