"""Colour limits leave out the outermost nodes; decades are drawn on a log scale; codes go back to values."""

import numpy as np
import pytest

from nipde.report.page.colours import LAST, Colours
from nipde.report.page.scale import Scale

ALL = np.ones((20, 20), bool)


def test_limits_are_percentiles_of_interior_nodes():
    values = np.linspace(2, 4, 400).reshape(20, 20)
    plain = Scale.of(values, among=ALL)
    assert (plain.low, plain.high) == pytest.approx(np.percentile(values, (1, 99)), abs=0.01)
    assert (plain.log, plain.beyond, plain.remark) == (False, (False, False), "")
    values[3, 3], values[4, 4] = -1e6, 1e9
    bad = Scale.of(values, among=ALL)
    assert (bad.low, bad.high) == pytest.approx((plain.low, plain.high), abs=0.02)
    assert bad.beyond == (True, True)
    assert bad.remark == "ends at 1 % and 99 % of interior nodes"


def test_nodes_that_are_not_interior_do_not_count():
    values, among = np.linspace(2, 4, 400).reshape(20, 20), ALL.copy()
    among[0], values[0] = False, 1e3
    found = Scale.of(values, among=among)
    assert found.high < 4
    assert found.beyond == (False, True)


def test_more_than_a_factor_of_ten_is_logarithmic():
    assert not Scale.of(np.linspace(1, 9, 400).reshape(20, 20), among=ALL).log
    wide = Scale.of(np.geomspace(0.01, 100, 400).reshape(20, 20), among=ALL)
    assert wide.log
    assert wide.remark.startswith("log scale")
    assert wide.shares(np.sqrt(wide.low * wide.high)) == pytest.approx(0.5)
    assert not Scale.of(np.linspace(-1, 1, 400).reshape(20, 20), among=ALL).log


def test_rounding_is_not_drawn_as_contrast():
    even = Scale.of(3 + 1e-9 * np.arange(400).reshape(20, 20), among=ALL)
    assert (even.low, even.high) == pytest.approx((2.97, 3.03))
    assert np.ptp(Colours.on(even, np.full((1, 20, 20), 3.0)).codes) == 0


def test_a_scale_may_begin_at_zero_and_needs_no_values():
    assert Scale.of(np.linspace(2, 4, 400).reshape(20, 20), among=ALL, from_zero=True).low == 0
    assert Scale.of(np.geomspace(0.01, 1, 400).reshape(20, 20), among=ALL, from_zero=True).low > 0
    assert Scale.of(np.full((20, 20), np.nan), among=ALL) == Scale(0.0, 1.0)
    assert Scale.of(np.ones((20, 20)), among=~ALL).high == pytest.approx(1.01)


@pytest.mark.parametrize("log", [False, True])
def test_codes_go_back_to_values(log):
    scale = Scale(0.5, 500.0, log)
    values = np.array([[0.5, 7.0, 500.0, 1e6, np.nan]])
    codes = Colours.on(scale, values).codes[0].astype(float)
    assert codes[2:].tolist() == [LAST, LAST, LAST + 1]
    share = codes[1] / LAST
    back = 0.5 * 1000**share if log else 0.5 + 499.5 * share
    assert back == pytest.approx(7.0, abs=2.0, rel=0.02)
