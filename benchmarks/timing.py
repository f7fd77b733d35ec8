"""Fair times: calls in turns, functions in processes of their own, and how what they took grows."""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

Found = TypeVar("Found")


def seconds(call: Callable[[], object], *, clock: Callable[[], float] = time.process_time) -> float:
    """Of one call, by the processor's clock or another."""
    start = clock()
    call()
    return clock() - start


def in_turns(
    calls: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Seconds of every call in every round; the first round warms up and is not counted.

    What else the machine does meets all calls alike, so that ratios within a round are fair.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            taken[name].append(seconds(call, clock=clock))
    return {name: times[1:] for name, times in taken.items()}


def in_fresh_process(
    function: Callable[..., Found], *given: object, environment: Mapping[str, str] | None = None
) -> Found:
    """What a module's function returns in a process that has run nothing else: allocators and caches remember."""
    before = dict(os.environ)
    os.environ.update(environment or {})
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            return fresh.submit(function, *given).result()
    finally:
        os.environ.clear()
        os.environ.update(before)


def exponent(sizes: list[int], values: list[float]) -> float | None:
    """p of values ∝ size^p, by least squares of the logarithms; one point has none."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0]) if len(sizes) > 1 else None
