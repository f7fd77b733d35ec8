"""Words for units, read by a grammar of our own before any library sees them: a product of powers.

    product = ["+" | "-"] power {["*" | "·" | "/" | "per"] power}
    power   = (number | name | "(" product ")") ["^" exponent]

Only names have powers, so no word makes a parser count to the end of time: exponents have one digit, those of nested
powers at most two.
"""

import math
import re

LONGEST = 64
LARGEST_EXPONENT = 99.0
_EXPONENT = r"[+-]?[0-9](?:\.[0-9]{1,3})?"
_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,3})?)(?![0-9.])"
    rf"|(?P<power>(?:\^|\*\*)\s*(?:{_EXPONENT}|\(\s*{_EXPONENT}(?:/[1-9])?\s*\)))(?![0-9.])"
    r"|(?P<mark>[*·/()]|per\b)"
    r"|(?P<name>%|(?:[^\W\d]|°)(?:[^\W\d]|[0-9°])*)"
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")

Powers = dict[str, float]


def parse_product(text: str) -> tuple[float, Powers]:
    """The number in front, and the exponent of every name; a ValueError if the text is no such product."""
    if len(text) > LONGEST:
        raise ValueError("too long")
    plain = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+", lambda raised: "^" + raised[0].translate(_RAISED), text.strip())
    sign = -1.0 if plain.startswith("-") else 1.0
    tokens = _tokens(plain[1:] if plain[:1] in ("+", "-") else plain)
    number, powers = _product(tokens)
    if tokens or not math.isfinite(number):
        raise ValueError("a bracket too many, or a number out of range")
    return sign * number, powers


def _tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of each, the last one first."""
    tokens, place = [], 0
    while rest := text[place:].lstrip():
        place = len(text) - len(rest)
        token = _TOKEN.match(text, place)
        if token is None:
            raise ValueError(f"not understood: {rest}")
        tokens.append((str(token.lastgroup), token[0]))
        place = token.end()
    return tokens[::-1]


def _product(tokens: list[tuple[str, str]]) -> tuple[float, Powers]:
    number, powers, side, operand_next = 1.0, Powers(), 1, True
    while tokens and tokens[-1][1] != ")":
        kind, text = tokens.pop()
        if kind == "mark" and text != "(":
            if operand_next:
                raise ValueError(f"nothing before {text}")
            side, operand_next = (1 if text in "*·" else -1), True
            continue
        value, inner = _operand(kind, text, tokens)
        number *= value**side
        for name, exponent in inner.items():
            powers[name] = powers.get(name, 0.0) + side * exponent
        side, operand_next = 1, False
    if operand_next or any(abs(exponent) > LARGEST_EXPONENT for exponent in powers.values()):
        raise ValueError("nothing at the end, or a large power")
    return number, powers


def _operand(kind: str, text: str, tokens: list[tuple[str, str]]) -> tuple[float, Powers]:
    """A number, a name or a bracket, and its power."""
    if kind == "number":
        number, powers = float(text), Powers()
    elif kind == "name":
        number, powers = 1.0, {"percent" if text == "%" else text: 1.0}
    elif text == "(":
        number, powers = _product(tokens)
        if not tokens:
            raise ValueError("a bracket too few")
        tokens.pop()
    else:
        raise ValueError(f"power of nothing: {text}")
    if tokens and tokens[-1][0] == "power":
        if number != 1:
            raise ValueError("power of a number")
        top, _, bottom = tokens.pop()[1].lstrip("^*").strip(" ()\t").partition("/")
        exponent = float(top) / float(bottom or 1)
        powers = {name: exponent * power for name, power in powers.items()}
    return number, powers
