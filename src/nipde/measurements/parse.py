"""Step 1, parse: a file to named arrays; its format by name and content, its contents read in a child process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import TEXT, Contents, Format, names, registered
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits, sandbox


@dataclass(frozen=True, eq=False)
class Raw:
    """What a file holds before anybody interprets it: arrays of numbers by name, columns of a table among them."""

    path: Path
    #: Name of the format, such as `npz` or `vic`.
    format: str
    sha256: str
    arrays: Mapping[str, np.ndarray]
    #: Units of arrays where the file itself states them.
    units: Mapping[str, str] = field(default_factory=dict)
    #: False where the file marks a value as not measured; of the shape of the arrays.
    valid: np.ndarray | None = None
    #: Other numbers and texts, such as the size of a pixel.
    attributes: Mapping[str, str | float] = field(default_factory=dict)


def parse(path: Path | str, *, format: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Raw:
    """What a file holds; `format` overrides what its name and content say."""
    path = Path(path)
    if format is not None and format not in names():
        raise MeasurementError("format", expected=f"one of {', '.join(names())}", got=repr(format), remedy="choose one")
    named = [one for one in registered() if one.name == format][:1]
    digest, recognised, contents = parse_in_child(
        path, candidates=lambda start: named or _candidates(path, start), limits=limits
    )
    if not contents.arrays:
        raise MeasurementError(path.name, expected="arrays of numbers", got="none", remedy="see what the file holds")
    return Raw(path, recognised, digest, contents.arrays, contents.units, contents.valid, contents.attributes)


def parse_in_child(
    path: Path, *, candidates: Callable[[bytes], Sequence[Format]], limits: Limits, most: int | None = None
) -> tuple[str, str, Contents]:
    """SHA-256, format and contents of a file of at most `most` bytes."""
    if "\0" in str(path):
        raise MeasurementError("path", expected="the name of a file", got=repr(str(path)), remedy="leave out the \\0")
    try:
        return sandbox().read(path, candidates=candidates, limits=limits, most=most)
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror or error}", remedy="check the path and its rights") from error


def _candidates(path: Path, start: bytes) -> list[Format]:
    """Formats that suffix and content allow, special ones first; by the content alone if the suffix is unknown."""
    suffix, fitting = path.suffix.lower(), [one for one in registered() if one.fits(start)]
    if named := [one for one in fitting if suffix in one.suffixes]:
        return named
    suffixes = dict.fromkeys(suffix for one in registered() for suffix in one.suffixes)
    begins = {one.content for one in fitting} - {b"", TEXT}
    if suffix not in suffixes and len(begins) == 1:
        return [one for one in fitting if one.content in begins]
    like = dict.fromkeys(one.name for one in reversed(fitting) if one.content)
    raise MeasurementError(
        path.name,
        expected=f"a name that ends in one of {', '.join(suffixes)}, and content to match",
        got=f"content like {' or '.join(like)}" if like else "content of no known kind",
        remedy=f"name the format: format= one of {', '.join(names())}",
    )
