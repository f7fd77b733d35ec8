"""Faults of one or two sensors or pairs among many: what is read instead of what is there."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

Fault = Literal["dead", "stuck", "exchanged", "gain of 1.1", "wrong sign", "offset", "misplaced"]
FaultOfPair = Literal["load of 1.3", "loads exchanged", "load of wrong sign"]
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


def with_faulty_pair(
    readings: Readings, fault: FaultOfPair, rng: np.random.Generator
) -> tuple[Readings, Int[np.ndarray, " pair"]]:
    """The same where the loads of a random pair, or of two, are others than what is said; and the pairs."""
    wrong = readings.copy()
    one, other = rng.choice(len(readings), 2, replace=False)
    match fault:
        case "load of 1.3":
            wrong[one] *= 1.3
        case "loads exchanged":
            wrong[[one, other]] = wrong[[other, one]]
            return wrong, np.array([one, other])
        case "load of wrong sign":
            wrong[one] *= -1
    return wrong, np.array([one])
