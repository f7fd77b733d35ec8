"""JSON as typed values: the annotations of a dataclass are the schema of its record."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from nipde.errors import NipdeError

Record = TypeVar("Record")
#: What reading a value of the wrong type, range or depth may raise.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError)


@contextmanager
def reading(
    what: str, kind: type[NipdeError], *others: type[Exception], expected: str, remedy: str | None = None
) -> Iterator[None]:
    """Around the reading of a file or record: what is malformed in it, or one of `others`, is an error of one kind."""
    malformed: tuple[type[Exception], ...] = (NipdeError, RuntimeError, *MALFORMED, *others)
    try:
        yield
    except malformed as error:
        if isinstance(error, kind):
            raise
        raise kind(what, expected=expected, got=" ".join(str(error).split())[:300], remedy=remedy) from error


def from_json(value: Any, kind: Any, *, name: str = "the record") -> Any:
    """`value` as a number, a word, a Literal, a tuple, a union or a dataclass; the error says which entry is none."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        *others, last = [one for one in inside if one is not NoneType or value is None]
        for one in others:
            with suppress(NipdeError):
                return from_json(value, one, name=name)
        return from_json(value, last, name=name)
    if origin in (tuple, Sequence) and isinstance(value, list):
        kinds = inside[:1] * len(value) if origin is Sequence or inside[1:] == (...,) else inside
        if len(kinds) == len(value):
            return tuple(
                from_json(each, one, name=f"{name}[{place}]")
                for place, (each, one) in enumerate(zip(value, kinds, strict=True))
            )
    elif isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        with reading(name, NipdeError, expected=f"a {kind.__name__}"):
            return kind.from_dict(value) if hasattr(kind, "from_dict") else dataclass_from_json(value, kind, name=name)
    elif kind is float and type(value) is int and abs(value) < 2**53:
        return float(value)
    elif (
        type(value) is (origin if origin in (dict, list) else kind)
        or (origin is Literal and type(value) is str and value in inside)
        or kind is Any
    ):
        return value
    raise NipdeError(name, expected=getattr(kind, "__name__", str(kind)) if origin is None else kind, got=short(value))


def dataclass_from_json(value: dict[str, Any], kind: type[Record], *, name: str = "the record") -> Record:
    """Every field of its type, none missing, none unknown; one whose type has a `from_dict` is read by that."""
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    needed = {key for key, field in known.items() if field.default is field.default_factory is MISSING}
    if odd := sorted(value.keys() ^ (value.keys() & known.keys() | needed)):
        got = "none" if odd[0] in known else "an unknown one"
        raise NipdeError(f"{name}, field {short(odd[0])}", expected=f"fields {', '.join(known)}", got=got)
    hints = get_type_hints(kind)
    return kind(**{key: from_json(each, hints[key], name=f"{name}.{key}") for key, each in value.items()})


def short(value: Any) -> str:
    """A value in an error: its JSON form, cut after 200 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except MALFORMED:
        text = repr(type(value))
    return text if len(text) < 200 else f"{text[:197]}…"
