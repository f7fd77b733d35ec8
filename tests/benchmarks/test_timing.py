import os
import time
from concurrent.futures.process import BrokenProcessPool
from itertools import count

import pytest

from benchmarks.timing import exponent, in_fresh_process, in_turns, seconds


def test_calls_take_turns_and_the_first_round_is_not_counted():
    ticks, called = count(), []
    taken = in_turns(
        {"a": lambda: called.append("a"), "b": lambda: [called.append("b"), next(ticks)]},
        rounds=3,
        clock=lambda: next(ticks),
    )
    assert called == ["a", "b"] * 4
    assert taken == {"a": [1] * 3, "b": [2] * 3}


def test_waiting_is_no_processor_time():
    assert seconds(lambda: time.sleep(0.2)) < 0.1 < seconds(lambda: time.sleep(0.2), clock=time.perf_counter)


def test_a_fresh_process_knows_its_environment_and_nothing_else(monkeypatch):
    monkeypatch.setenv("NIPDE_HERE", "before")
    assert in_fresh_process(os.getpid) not in (os.getpid(), in_fresh_process(os.getpid))
    assert in_fresh_process(os.getenv, "NIPDE_HERE", environment={"NIPDE_HERE": "there"}) == "there"
    assert os.environ["NIPDE_HERE"] == "before"


def test_a_process_that_fails_or_dies_is_heard_of():
    with pytest.raises(ZeroDivisionError):
        in_fresh_process(divmod, 1, 0)
    with pytest.raises(BrokenProcessPool):
        in_fresh_process(os._exit, 1)


def test_powers_are_found_and_one_point_has_none():
    sizes = [10, 100, 1000]
    assert exponent(sizes, [3 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert exponent(sizes[:1], [3.0]) is None
