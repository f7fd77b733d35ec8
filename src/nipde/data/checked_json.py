"""JSON of unknown origin: parsed strictly, and compared with the types it must have before anything is built of it."""

import json
from math import isfinite
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from nipde.errors import IntegrityError


def parsed(data: bytes, name: str, form: Any = dict[str, Any]) -> Any:
    """The value of a file, without NaN or repeated keys and of the type `form`, or an IntegrityError."""
    try:
        value = json.loads(data, parse_constant=_refuse, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise damaged(name) from error
    if not conforms(value, form):
        raise damaged(name)
    return value


def damaged(name: str) -> IntegrityError:
    """The error of a file that is not what was written."""
    return IntegrityError(f"{name} is damaged (whole file)", remedy="copy the archive again, or generate it again")


def conforms(value: Any, form: Any) -> bool:
    """Whether a JSON value is of a type: numbers are finite, a whole number may stand for a float, a list for a tuple.

    Types that JSON cannot tell apart are not judged.
    """
    kind, inside = get_origin(form), get_args(form)
    if kind is Literal:
        return value in inside
    if kind in (Union, UnionType):
        return any(conforms(value, one) for one in inside)
    if kind is dict:
        return isinstance(value, dict) and all(conforms(one, inside[1]) for one in value.values())
    if kind in (list, tuple):
        if not isinstance(value, list | tuple):
            return False
        same = kind is list or inside[-1] is Ellipsis
        forms = inside[:1] * len(value) if same else inside
        return len(value) == len(forms) and all(map(conforms, value, forms))
    if form is float:
        return type(value) is int or (type(value) is float and isfinite(value))
    return type(value) is form if form in (int, bool, str, type(None)) else True


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a key stands twice")
    return record
