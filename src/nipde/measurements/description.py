"""How files are to be understood, where the files do not say it themselves; can be kept as a TOML file beside them."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from nipde.boundary import BOUNDARIES, Boundary
from nipde.errors import MeasurementError
from nipde.grid import AXES
from nipde.measurements.loads import LoadTerm, load_term
from nipde.measurements.parse import FORMATS


@dataclass(frozen=True)
class Description:
    """Every field is a key of the TOML file; what is left out is taken from the files or is as they usually are."""

    #: Files, relative to the TOML file: one with all pairs, or one for every pair or batch of pairs, in this order.
    files: tuple[str, ...] = ()
    #: Format of the files, if their suffix does not tell.
    format: str | None = None
    #: Arrays or columns of the response, one for each component.
    response: tuple[str, ...] = ()
    #: Arrays or columns of the load, one for each component.
    load: tuple[str, ...] = ()
    #: Arrays or columns of the positions, one for each axis.
    coordinates: tuple[str, ...] = ()
    #: Column that numbers the pairs of a long table.
    pair: str = "pair"
    #: Array or column that is true where a response was measured.
    mask: str = "mask"
    #: Unit by name of an array or column, or for all of them by `x`, `load`, `response`.
    units: Mapping[str, str] = field(default_factory=dict)
    #: Size of a pixel, such as `0.05 mm/px`.
    scale: str | None = None
    #: Nodes of the grid along each axis; one number stands for all.
    nodes: tuple[int, ...] = ()
    #: First and last position along each axis, in the unit of the coordinates.
    box: tuple[tuple[float, float], ...] = ()
    #: Kind of boundary along each axis; one word stands for all.
    boundary: tuple[str, ...] = ("dirichlet",)
    #: Order of the space axes of arrays: `xy`, or `yx` for rows of an image.
    axes: str | None = None
    #: Standard deviation of the error of a response: a number in its unit, `0.002 mm`, or `0.2 %` of their size.
    noise: float | str | None = None
    #: Numbers that stand for a response that was not measured.
    missing: tuple[float, ...] = ()
    #: Whether responses of exactly 0 were not measured.
    zeros_missing: bool = False
    #: Whether rigid motion is taken out of the responses.
    rigid_motion: bool = False
    #: Loads that are described instead of stored, see `nipde.measurements.loads`.
    loads: tuple[LoadTerm, ...] = ()
    #: Table whose rows are pairs and whose columns say how much of each described load acted.
    amounts: str | None = None

    def __post_init__(self) -> None:
        if any(count < 3 for count in self.nodes):
            raise _bad("nodes", "whole numbers >= 3", list(self.nodes), "use a finer grid")
        if any(not low < high for low, high in self.box):
            got = [list(ends) for ends in self.box]
            raise _bad("box", "a first and a larger last position for each axis", got, "give the smaller one first")
        for word in self.boundary:
            if word not in BOUNDARIES:
                raise _bad("boundary", f"one of {', '.join(BOUNDARIES)}", repr(word), _nearest(word, BOUNDARIES))
        if self.axes is not None and sorted(self.axes) != sorted(AXES[: len(self.axes)]):
            raise _bad("axes", "an order of the axes", repr(self.axes), "say xy, or yx for rows of an image")
        if self.format is not None and self.format not in FORMATS:
            raise _bad("format", f"one of {', '.join(FORMATS)}", repr(self.format), _nearest(self.format, FORMATS))

    @property
    def dimension(self) -> int:
        """Number of space axes."""
        given = [len(value) for value in (self.coordinates, self.box, self.axes or "") if value]
        given += [len(value) for value in (self.nodes, self.boundary) if len(value) > 1]
        if len(set(given)) > 1:
            raise MeasurementError(
                "description does not agree on the number of axes",
                expected="as many coordinates, box, nodes, axes and boundaries", got=sorted(set(given)),
                remedy="give one entry for each axis",
            )  # fmt: skip
        return given[0] if given else 2

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """One for each axis."""
        words = self.boundary * self.dimension if len(self.boundary) == 1 else self.boundary
        return tuple(BOUNDARIES[word] for word in words)

    @property
    def node_counts(self) -> tuple[int, ...] | None:
        """One for each axis, if stated."""
        return (self.nodes * self.dimension if len(self.nodes) == 1 else self.nodes) or None

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a TOML file; its files become addresses that can be opened from anywhere."""
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise MeasurementError(
                f"{path}: not a TOML file",
                expected="key = value lines",
                got=str(error),
                remedy='texts stand in quotes: x = "mm"',
            ) from error
        try:
            described = cls.from_dict(table)
        except MeasurementError as error:
            raise MeasurementError(f"{path}: {error}") from error
        if not described.files:
            raise MeasurementError(
                f"{path}: names no files", expected='files = ["measured.csv"]', got="none", remedy="add the key files"
            )
        beside = {name: str(path.parent / name) for name in described.files}
        amounts = None if described.amounts is None else str(path.parent / described.amounts)
        return replace(described, files=tuple(beside[name] for name in described.files), amounts=amounts)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """From keys and values as TOML has them: one word may stand for a list of one."""
        kinds = {one.name: one.type for one in fields(cls)}
        for key in table:
            if key not in kinds:
                raise _bad("description", "known keys", repr(key), _nearest(key, kinds))
        return cls(**{key: _value(key, kinds[key], value) for key, value in table.items()})


def _value(key: str, kind: Any, value: Any) -> Any:
    """A value of TOML as the field wants it."""
    many = value if isinstance(value, list) else [value]
    if key == "loads":
        return tuple(load_term(one, number=number) for number, one in enumerate(many, start=1))
    if key == "box":
        if not all(isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends)) for ends in many):
            raise _bad("box", "[first, last] for each axis", value, "write box = [[0, 10], [0, 5]]")
        return tuple((float(low), float(high)) for low, high in many)
    if key == "units":
        if not (isinstance(value, Mapping) and all(isinstance(word, str) for word in value.values())):
            raise _bad("units", "words by name", value, 'write x = "mm" below [units]')
        return dict(value)
    wanted, words, example = CHECKS[kind]
    is_list = str(kind).startswith("tuple")
    fits = all(isinstance(one, wanted) and isinstance(one, bool) == (kind is bool) for one in many)
    if not fits or (isinstance(value, list) and not is_list):
        raise _bad(key, words, repr(value), f"write {key} = {example}")
    return tuple(many) if is_list else value


#: Type of a field -> what its values in TOML are, in words, and an example.
CHECKS: dict[Any, tuple[Any, str, str]] = {
    tuple[str, ...]: (str, "text or a list of it", '"name"'),
    tuple[int, ...]: (int, "a whole number or a list of them", "21"),
    tuple[float, ...]: (int | float, "a number or a list of them", "-999"),
    bool: (bool, "true or false", "true"),
    str: (str, "text", '"name"'),
    str | None: (str, "text", '"name"'),
    float | str | None: (int | float | str, "a number, or text with a unit", '"0.01 mm"'),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _nearest(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"


def _bad(key: str, expected: str, got: object, remedy: str) -> MeasurementError:
    return MeasurementError(f"{key} not understood", expected=expected, got=got, remedy=remedy)
