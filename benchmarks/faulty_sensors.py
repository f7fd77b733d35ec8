"""Faults of single sensors among many: what they read instead of what is there, in all pairs."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

Fault = Literal["dead", "stuck", "exchanged", "gain of 1.1", "wrong sign", "offset", "misplaced"]
Readings = Float[np.ndarray, "pair *space"]


def with_fault(
    readings: Readings, exact: Readings, chosen: Bool[np.ndarray, "*space"], fault: Fault, rng: np.random.Generator
) -> tuple[Readings, Int[np.ndarray, "sensor axis"]]:
    """Readings at the chosen nodes of a field, a random one or two of them faulty; and the nodes of these."""
    nodes = np.argwhere(chosen)
    one, other = nodes[rng.choice(len(nodes), 2, replace=False)]
    at, there = (slice(None), *one), (slice(None), *other)
    wrong, size = readings.copy(), float(np.sqrt(np.mean(readings[:, chosen] ** 2)))
    noise = readings[at] - exact[at]
    beside = (slice(None), one[0] - 1 if one[0] > exact.shape[1] // 2 else one[0] + 1, one[1])
    match fault:
        case "dead":
            wrong[at] = 0.0
        case "stuck":
            wrong[at] = readings[at][0]
        case "exchanged":
            wrong[at], wrong[there] = readings[there], readings[at]
            return wrong, np.stack([one, other])
        case "gain of 1.1":
            wrong[at] *= 1.1
        case "wrong sign":
            wrong[at] *= -1
        case "offset":
            wrong[at] += 0.2 * size
        case "misplaced":  # by one spacing of the nodes
            wrong[at] = exact[beside] + noise
    return wrong, one[None]
