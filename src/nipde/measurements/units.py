"""Units of a measurement: required, never guessed; b of -∇·(b∇u) = f is in load · length² / response."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nipde.errors import MeasurementError
from nipde.measurements.unit_grammar import LONGEST, parse_product

if TYPE_CHECKING:
    import pint

#: Words that people mean; offered when a unit is misspelt.
COMMON = ("m", "cm", "mm", "um", "nm", "px", "inch", "ft", "N", "kN", "N/m", "N/mm", "N/m^2", "N/mm^2", "Pa", "kPa",
          "MPa", "bar", "psi", "m/s", "m^2/s", "m^3/s", "1/s", "mm/s", "l/s", "K", "delta_degC", "W/m^2", "W/m^3", "V",
          "A/m^2", "kg/m^3", "mol/m^3", "m^2", "mm^2", "m^3", "1")  # fmt: skip


@dataclass(frozen=True)
class Units:
    """Of lengths, loads and responses, as words such as `mm` or `N/m^2`."""

    length: str
    load: str
    response: str

    def __post_init__(self) -> None:
        for name in ("length", "load", "response"):
            check_unit(getattr(self, name), of=f"the {name}")

    @property
    def coefficient(self) -> str:
        """Unit of b, in the shortest word that needs no factor; `1` if it has none."""
        load, length, response = (_quantity(word) for word in (self.load, self.length, self.response))
        product = load * length**2 / response
        reduced = product.to_reduced_units()
        words = [one for one in (product, reduced, reduced.to_compact()) if abs(one.magnitude - 1) < 1e-9]
        return _word(min(words, key=lambda one: sum(map(abs, one._units.values()))).units)

    def total(self, dimension: int) -> str:
        """Unit of ∫ load dx over so many axes, such as that of a force or the rate of a well."""
        return _word((_quantity(self.load) * _quantity(self.length) ** dimension).units)

    @property
    def contact(self) -> str:
        """Unit of a flux through an outline per difference of the response."""
        return _word((_quantity(self.load) * _quantity(self.length) / _quantity(self.response)).units)


def check_unit(word: str, *, of: str) -> None:
    """Raise unless the word is a unit that can be multiplied, of something that has one."""
    unit = _parsed(word, of=of)
    if not _registry().Quantity(1.0, unit)._is_multiplicative:
        raise MeasurementError(
            f"unit of {of} has an offset", expected="a unit that measures differences",
            got=repr(word), remedy="write delta_degC or K for differences of temperature",
        )  # fmt: skip


def check_length(word: str, *, of: str) -> None:
    """Raise unless the word is a unit of length, pixels, or 1."""
    check_unit(word, of=of)
    dimension = dict(_parsed(word, of=of).dimensionality)
    if dimension not in ({}, {"[length]": 1}, {"[printing_unit]": 1}):
        raise MeasurementError(
            f"unit of {of} is not one of length", expected="a unit such as mm, m or px, or 1 for none",
            got=repr(word), remedy='give it as units={"x": "mm", ...}',
        )  # fmt: skip


def is_length(word: str) -> bool:
    """Whether the word is a unit of length, pixels aside."""
    return dict(_parsed(word, of="a length").dimensionality) == {"[length]": 1}


def in_pixels(word: str) -> bool:
    """Whether pixels are counted in this unit."""
    return "[printing_unit]" in _parsed(word, of="an array").dimensionality


def factor(source: str, target: str, *, of: str) -> float:
    """How many of `target` one of `source` is."""
    if source == target:
        return 1.0
    registry = _registry()
    try:
        return float(registry.Quantity(1.0, _parsed(source, of=of)).to(_parsed(target, of=of)).magnitude)
    except Exception as error:
        raise MeasurementError(
            f"unit of {of} does not fit", expected=f"one that converts to {target!r}", got=repr(source),
            remedy="state a unit of the same kind",
        ) from error  # fmt: skip


def amount(value: float | str, *, unit: str, of: str) -> float:
    """A number in `unit`; text such as `12 N` brings its own unit and is converted."""
    if not isinstance(value, str | float | int):
        raise MeasurementError(
            of, expected="one number, or text with a unit", got=repr(value),
            remedy="vectors are not supported yet: describe loads along one axis, or store the load as fields",
        )  # fmt: skip
    try:
        return float(value)
    except ValueError:
        quantity = _text_quantity(str(value), of=of)
    return float(quantity.magnitude) * factor(_word(quantity.units), unit, of=of)


def quantity(text: str, *, of: str) -> tuple[float, str]:
    """Number and unit of text such as `0.1 mm`."""
    found = _text_quantity(text, of=of)
    return float(found.magnitude), _word(found.units)


def without_pixels(word: str, scale: str | None, *, of: str) -> tuple[float, str]:
    """Factor and unit that a number in `word` has once pixels are lengths; `scale` is one such as `0.05 mm/px`."""
    if not in_pixels(word):
        return 1.0, word
    if scale is None:
        raise MeasurementError(
            f"{of} is in pixels", expected="the size of a pixel", got="none",
            remedy='give scale="0.05 mm/px", or the same as a key of the TOML file',
        )  # fmt: skip
    size = _text_quantity(scale, of="the scale")
    if dict(size.dimensionality) == {"[printing_unit]": 1, "[length]": -1}:
        size = 1 / size
    if dict(size.dimensionality) != {"[length]": 1, "[printing_unit]": -1} or not 0 < size.magnitude < float("inf"):
        raise MeasurementError(
            "scale is not the size of a pixel", expected="length per pixel such as 0.05 mm/px", got=repr(scale),
            remedy="measure it on the calibration target",
        )  # fmt: skip
    value = _quantity(word)
    value = value * size ** value.dimensionality["[printing_unit]"]
    return float(value.magnitude), _word(value.units)


@lru_cache(maxsize=1)
def _registry() -> "pint.UnitRegistry[Any]":
    """Pint takes a third of a second to import: only when there are units."""
    import pint

    return pint.UnitRegistry()


@lru_cache(maxsize=256)
def _parsed(word: str, *, of: str) -> Any:
    number, unit = _number_and_unit(word, of=of)
    if number != 1:
        raise _unknown(word, of=of)
    return unit


def _text_quantity(text: str, *, of: str) -> Any:
    number, unit = _number_and_unit(text, of=of)
    return _registry().Quantity(number, unit)


def _number_and_unit(text: object, *, of: str) -> tuple[float, Any]:
    """Pint gets names and small exponents only: units may stand in a file, and files come from anywhere."""
    try:
        number, powers = parse_product(text)  # type: ignore[arg-type]
        # Pint's own px is a 96th of an inch, that of web pages.
        named = {"pixel" if name == "px" else name: exponent for name, exponent in powers.items()}
        return number, _registry().parse_units(" * ".join(f"{name} ** {power:g}" for name, power in named.items()))
    except Exception as error:
        raise _unknown(text, of=of) from error


def _unknown(word: object, *, of: str) -> MeasurementError:
    near = _nearest(str(word)) if len(str(word)) <= LONGEST else None
    got = repr(word) if len(repr(word)) <= 2 * LONGEST else f"{repr(word)[:LONGEST]}…"
    return MeasurementError(
        f"unknown unit of {of}", expected="a unit such as mm, N/m^2 or m^3/s, or 1 for none", got=got,
        remedy=f"did you mean {near!r}?" if near else "write powers as m^2 and products as N*m",
    )  # fmt: skip


def _nearest(word: str) -> str | None:
    """A power without its sign, a product without its star, or a slip of the pen; never another dimension."""
    if (power := re.sub(r"(?<=[A-Za-z])(?=[23]\b)", "^", word)) != word and power in COMMON:
        return power
    for place in range(1, len(word)):
        if word[:place] in ("N", "kN") and word[place:] in COMMON:
            return f"{word[:place]}*{word[place:]}"
    return next(iter(get_close_matches(word, COMMON, n=1, cutoff=0.66)), None)


def _quantity(word: str) -> Any:
    return _registry().Quantity(1.0, _parsed(word, of="a measurement"))


def _word(unit: Any) -> str:
    """A unit in few letters, `N/mm^2`."""
    return f"{unit:~C}".replace("**", "^").replace("pixel", "px").replace("µ", "u").replace("Δ°C", "delta_degC") or "1"
