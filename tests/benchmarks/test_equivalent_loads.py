"""How many random loads a design is worth, where the answer is known."""

import numpy as np
import pytest

from benchmarks.design import equivalent
from benchmarks.tables.design import design

COUNTS = (5, 10, 20, 40)


def curve(power=-1.0, systems=30):
    hardness = np.exp(np.random.default_rng(0).normal(size=systems))
    return hardness, np.array(COUNTS, dtype=float)[:, None] ** power * hardness


@pytest.mark.parametrize("power", [-0.5, -1.0])
def test_a_power_law_is_read_exactly(power):
    hardness, errors = curve(power)
    found = equivalent(18.0**power * hardness, COUNTS, errors)
    assert found == pytest.approx({"value": 18.0, "low": 18.0, "high": 18.0})


def test_ends_stand_for_all_beyond():
    hardness, errors = curve()
    assert equivalent(hardness / 2, COUNTS, errors)["value"] == pytest.approx(5)
    assert equivalent(hardness / 90, COUNTS, errors)["value"] == pytest.approx(40)


def test_systems_that_differ_make_an_interval():
    hardness, errors = curve()
    found = equivalent(hardness / np.random.default_rng(1).uniform(12, 25, size=30), COUNTS, errors)
    assert 12 < found["low"] < found["value"] < found["high"] < 25


def test_the_table_says_what_lies_beyond():
    def chosen(by, value):
        return {"by": by, "held_out": {"mean": 0.01}, "equivalent": {"value": value, "low": value, "high": value}}

    row = {
        "weights": "darcy", "noise": 0.01, "noise_of": "own",
        "random": [{"pairs": count, "held_out": {"mean": 0.1 / count}} for count in COUNTS],
        "designed": [chosen("design", 5.0), chosen("principal", 17.2), chosen("tuned", 40.0)],
    }  # fmt: skip
    made = {"nodes": 21, "designed": 10, "queries": 40, "tests": 3, "examples": 4, "steps": 5, "rows": [row]}
    printed = design(made)
    assert all(words in printed for words in ("fewer than 5", "17.2 (17.2 to 17.2)", "more than 40", "own responses"))
