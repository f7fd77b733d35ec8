"""Errors of a run against its steps, and the power of these that fits them."""

from pathlib import Path

import numpy as np

from nipde.training.callbacks import read_log


def curve(run: Path) -> list[dict[str, float]]:
    """Validation errors against steps and seconds, and the loss since the one before; about 40 of them and the last."""
    points: list[dict[str, float]] = []
    losses: list[float] = []
    for row in read_log(run / "log.csv"):
        losses.append(float(row["loss"]))
        if row["held_out"]:
            point = {name: float(row[name]) for name in ("step", "seconds", "held_out", "in_context")}
            points.append({**point, "loss": float(np.mean(losses))})
            losses = []
    return [*points[: -1 : max(1, len(points) // 40)], *points[-1:]]


def trend(curve: list[dict[str, float]], paper: float | None) -> dict[str, float | None] | None:
    """A power of the number of steps through the validation errors, and the steps at which it meets the paper's figure.

    Fitted from a tenth to eight tenths of the run: before, the rate is rising; after, it has all but vanished.
    """
    last = curve[-1]["step"] if curve else 0.0
    used = [point for point in curve if 0.1 * last <= point["step"] <= 0.8 * last]
    if len(used) < 3 or paper is None:
        return None
    steps, errors = (np.log([point[what] for point in used]) for what in ("step", "in_context"))
    power, intercept = np.polyfit(steps, errors, 1)
    meets = float(np.exp((np.log(paper / 100) - intercept) / power)) if power < 0 else None
    return {"power": float(power), "intercept": float(intercept), "steps_to_paper": meets}
