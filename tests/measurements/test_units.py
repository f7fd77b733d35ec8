import subprocess
import sys
import time
from contextlib import suppress

import pytest

from nipde.errors import MeasurementError
from nipde.measurements.unit_grammar import parse_product
from nipde.measurements.units import (
    Units,
    amount,
    check_length,
    check_unit,
    factor,
    in_pixels,
    is_length,
    without_pixels,
)
from tests.measurements.hostile_units import HARMLESS_UNITS, HOSTILE_UNITS
from tests.measurements.refused import refused


@pytest.fixture(autouse=True, scope="module")
def _registry_is_loaded():
    check_unit("m", of="x")


@pytest.mark.parametrize(
    ("length", "load", "response", "coefficient"),
    [
        ("mm", "N/mm^2", "mm", "N/mm"),
        ("mm", "N/mm^3", "mm", "N/mm^2"),
        ("mm", "N/m^2", "mm", "mN/m"),
        ("mm", "N/m^2", "um", "N/m"),
        ("mm", "MPa", "mm", "MPa*mm"),
        ("m", "1/s", "Pa", "m^2/Pa/s"),
        ("m", "m/s", "m", "m^2/s"),
        ("m", "W/m^3", "K", "W/K/m"),
        ("mm", "1", "1", "mm^2"),
        ("1", "1", "1", "1"),
    ],
)
def test_the_unit_of_the_coefficient_needs_no_factor(length, load, response, coefficient):
    units = Units(length, load, response)
    assert units.coefficient == coefficient
    assert factor(f"({load}) * ({length})^2 / ({response})", coefficient, of="b") == pytest.approx(1, rel=1e-12)


def test_awkward_units_keep_all_their_words():
    assert Units("cm", "kN/m^2", "mm").coefficient == "cm^2*kN/m^2/mm"


def test_a_total_is_a_load_times_an_area():
    assert Units("mm", "N/mm^2", "mm").total(2) == "N"
    assert Units("m", "1/s", "Pa").total(2) == "m^2/s"


@pytest.mark.parametrize("word", ["mmm", "m3/s", "N/m^^2", "", "  ", "m^99", "m**9**9**9", "x" * 100, "import os", 3])
def test_words_that_are_no_units_are_refused(word):
    with refused(message="length", got=repr(word)):
        Units(word, "1", "1")


@pytest.mark.parametrize("word", HOSTILE_UNITS)
def test_no_word_keeps_the_parser_busy(word):
    start = time.perf_counter()
    for attempt in (
        lambda: check_unit(word, of="x"), lambda: amount(f"3 {word}", unit="N", of="x"), lambda: Units("m", word, "m"),
        lambda: without_pixels("px", word, of="x"), lambda: factor(word, "m", of="x"),
    ):  # fmt: skip
        with suppress(MeasurementError):
            attempt()
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("word", [word for word in HOSTILE_UNITS if word not in HARMLESS_UNITS])
def test_words_that_would_keep_a_parser_busy_are_refused(word):
    with refused(message="unknown unit of x"):
        check_unit(word, of="x")


@pytest.mark.parametrize(
    ("text", "number", "powers"),
    [
        ("N/mm^2", 1, {"N": 1, "mm": -2}), ("kg m s**-2", 1, {"kg": 1, "m": 1, "s": -2}),
        ("m²·s⁻¹", 1, {"m": 2, "s": -1}), ("MPa*m^(1/2)", 1, {"MPa": 1, "m": 0.5}), ("m^0.5", 1, {"m": 0.5}),
        ("(N/m^2) * (m)^2 / (s^( -1 ))", 1, {"N": 1, "m": 0, "s": 1}), ("-2.5e-3 mm/px", -0.0025, {"mm": 1, "px": -1}),
        ("N per m per m", 1, {"N": 1, "m": -2}), ("0.2 %", 0.2, {"percent": 1}), ("°C", 1, {"°C": 1}),
        ("12 / 3 / 2 m", 2, {"m": 1}), ("(1)^2", 1, {}), ("permeability", 1, {"permeability": 1}),
    ],
)  # fmt: skip
def test_products_of_powers(text, number, powers):
    assert parse_product(text) == (pytest.approx(number), powers)


@pytest.mark.parametrize(
    ("word", "meant"), [("mmm", "mm"), ("Nmm", "N*mm"), ("N/mm2", "N/mm^2"), ("mm2", "mm^2"), ("kpa", "kPa")]
)
def test_a_misspelt_unit_names_the_nearest(word, meant):
    with refused(got=repr(word), remedy=f"'{meant}'"):
        Units("mm", word, "1")


def test_no_unit_is_named_where_none_is_near():
    with refused(remedy="m^2"):
        Units("mm", "mVoltz", "1")


def test_offsets_are_refused():
    with refused(got="'degC'", remedy="delta_degC"):
        Units("mm", "W/m^2", "degC")
    assert Units("mm", "W/mm^3", "delta_degC").coefficient == "W/delta_degC/mm"


def test_positions_are_lengths_pixels_or_plain_numbers():
    for word in ("mm", "px", "pixel", "1", "inch"):
        check_length(word, of="x")
    with refused(expected="mm, m or px", got="'N'"):
        check_length("N", of="x")
    assert is_length("mm")
    assert not is_length("px")
    assert not is_length("1")


def test_a_pixel_is_not_that_of_web_pages():
    assert in_pixels("px")
    with refused(expected="'mm'", got="'px'"):
        factor("px", "mm", of="x")


def test_pixels_need_a_scale():
    assert without_pixels("mm", None, of="x") == (1.0, "mm")
    assert without_pixels("px", "0.05 mm/px", of="x") == (0.05, "mm")
    assert without_pixels("px", "20 px/mm", of="x") == (0.05, "mm")
    assert without_pixels("N/px^2", "0.5 mm/px", of="f") == (4.0, "N/mm^2")
    for scale in (None, "0.05", "0.05 mm", "-1 mm/px", "0 mm/px", "fast"):
        with refused(got="none" if scale is None else repr(scale)):
            without_pixels("px", scale, of="x")


def test_amounts_bring_their_own_unit_or_none():
    assert amount(3, unit="N", of="f") == 3.0
    assert amount("3", unit="N", of="f") == 3.0
    assert amount("3 kN", unit="N", of="f") == pytest.approx(3000.0)
    with refused(expected="'N'", got="'kg'"):
        amount("3 kg", unit="N", of="f")


def test_pint_is_imported_only_for_units():
    code = "import nipde.measurements.read, sys; assert not {'pint', 'scipy.interpolate'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
