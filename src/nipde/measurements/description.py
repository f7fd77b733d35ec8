"""How files are to be understood, where the files do not say it themselves; can be kept as a TOML file beside them."""

import json
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import Any, Self

from nipde.boundary import BOUNDARIES, Boundary
from nipde.errors import MeasurementError, meant, naming
from nipde.grid import AXES
from nipde.measurements.formats import Format, names
from nipde.measurements.loads import KINDS, LoadTerm
from nipde.measurements.outline import PartDescription
from nipde.measurements.parse import parse_in_child
from nipde.measurements.sandbox import Limits

_TOML = Format("toml", "nipde.measurements.formats.toml", (".toml",))
_LARGEST_TOML = 2**20
MOST_MISSING = 100
LONGEST_NAME = 200


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
    #: Order of the space axes of arrays: `xy`, or `yx` for rows of an image; `xyz`.
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
    #: File with the outline of the specimen: GeoJSON, a table of corners, a mesh, a drawing (DXF) or a silhouette, in
    #: the coordinates of the files; the layer of a drawing, and the size of a pixel of a silhouette, such as `0.1 mm`.
    outline: str | None = None
    outline_layer: str | None = None
    outline_pixel: str | None = None
    #: Over three axes: first and last height along z of a specimen that has this outline at all heights.
    outline_heights: tuple[float, ...] = ()
    #: Condition of every part of the outline, see `nipde.measurements.outline`; others are insulated.
    parts: Mapping[str, PartDescription] = field(default_factory=dict)
    #: Name of the specimen, and the day of the measurement, such as 2026-11-03; for the report.
    specimen: str | None = None
    date: str | None = None
    #: Table whose rows are pairs and whose columns say how much of each described load acted.
    amounts: str | None = None

    def __post_init__(self) -> None:
        if any(count < 3 for count in self.nodes):
            raise _bad("nodes", "whole numbers >= 3", list(self.nodes), "use a finer grid")
        if len(self.missing) > MOST_MISSING:
            raise _bad("missing", f"at most {MOST_MISSING} numbers", len(self.missing), "name those that occur")
        if any(not low < high for low, high in self.box):
            got = [list(ends) for ends in self.box]
            raise _bad("box", "a first and a larger last position for each axis", got, "give the smaller one first")
        for word in self.boundary:
            _check_word("boundary", word, BOUNDARIES)
        if self.axes is not None and sorted(self.axes) != sorted(AXES[: len(self.axes)]):
            raise _bad("axes", "an order of the axes", repr(self.axes), "say xy, yx for rows of an image, or xyz")
        if self.format is not None:
            _check_word("format", self.format, names())
        if self.date is not None and not _is_day(self.date):
            raise _bad("date", "a day such as 2026-11-03", repr(self.date), "write year-month-day")
        if self.specimen is not None and not 0 < len(self.specimen.strip()) <= LONGEST_NAME:
            raise _bad("specimen", f"a name of 1 to {LONGEST_NAME} letters", repr(self.specimen), "shorten it")
        heights = self.outline_heights
        if heights and not (len(heights) == 2 and heights[0] < heights[1]):
            remedy = "write outline_heights = [0, 0.12]"
            raise _bad("outline_heights", "a first and a larger last height", heights, remedy)
        on_outline = [term.shape.kind for term in self.loads if term.shape.on_outline]
        if self.outline is None and (self.parts or on_outline or heights):
            remedy = "give outline, or leave out its heights, parts and their loads"
            raise _bad("outline", "the file of the outline", "none", remedy)

    @property
    def dimension(self) -> int:
        """Number of space axes; 2 where nothing states it."""
        given = self._counts
        if len(set(given)) > 1:
            raise MeasurementError(
                "description does not agree on the number of axes",
                expected="as many coordinates, box, nodes, axes and boundaries", got=sorted(set(given)),
                remedy="give one entry for each axis",
            )  # fmt: skip
        return given[0] if given else 2

    @property
    def axes_stated(self) -> bool:
        """Whether the number of space axes is stated; if not, it is that of the files."""
        return bool(self._counts)

    @property
    def _counts(self) -> list[int]:
        """Entries of what has one for each axis."""
        given = [len(value) for value in (self.coordinates, self.box, self.axes or "") if value]
        given += [len(value) for value in (self.nodes, self.boundary) if len(value) > 1]
        return given + [3] * bool(self.outline_heights)

    @property
    def acts_on_outline(self) -> bool:
        """Whether loads on parts of the outline are described."""
        return any(term.shape.on_outline for term in self.loads) or any(
            part.data not in (0, "0") for part in self.parts.values()
        )

    @property
    def acts_inside(self) -> bool:
        """Whether loads inside are described."""
        return any(not term.shape.on_outline for term in self.loads)

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
    def from_toml(cls, path: Path, *, files_anywhere: bool = False) -> Self:
        """Read a TOML file; its files become addresses that can be opened from anywhere.

        They lie in the folder of the TOML file or below, unless the caller allows `files_anywhere`.
        """
        limits = Limits(seconds=3.0, memory=2**29)
        _, _, contents = parse_in_child(path, candidates=lambda start: [_TOML], limits=limits, most=_LARGEST_TOML)
        with naming(str(path)):
            described = cls.from_dict(json.loads(str(contents.attributes["table"])))
            if not described.files:
                raise _bad("files", 'files = ["measured.csv"]', "none", "add the key files")
            located = [_located(path.parent, name, files_anywhere) for name in described.files]
            amounts, outline = (
                name and _located(path.parent, name, files_anywhere) for name in (described.amounts, described.outline)
            )
        return replace(described, files=tuple(located), amounts=amounts, outline=outline)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """From keys and values as TOML has them: one word may stand for a list of one."""
        kinds = {one.name: one.type for one in fields(cls)}
        if not isinstance(table, Mapping):
            raise _bad("description", "values by key", repr(table)[:200], 'write {"files": [...], ...}')
        for key in table:
            _check_word("key", key, kinds)
        return cls(**{key: _value(key, kinds[key], value) for key, value in table.items()})


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _located(folder: Path, name: str, anywhere: bool) -> str:
    """Path of a file that a description names: a description from elsewhere must not name a file of yours."""
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # no name of a file, links in a circle
        inside = False
    if not (inside or anywhere):
        raise _bad(
            "files", "names of files in the folder of the description, or below", repr(name),
            "copy the file there, or allow other places with files_anywhere=True (--files-anywhere)",
        )  # fmt: skip
    return str(path)


def _value(key: str, kind: Any, value: Any) -> Any:
    """A value of TOML as the field of this type wants it."""
    many = value if isinstance(value, list) else [value]
    if key == "loads":
        return tuple(load_term(one, number=number) for number, one in enumerate(many, start=1))
    if key == "box":
        if not all(isinstance(ends, list) and len(ends) == 2 for ends in many):
            raise _bad("box", "[first, last] for each axis", value, "write box = [[0, 10], [0, 5]]")
        return tuple(_value("ends of the box", tuple[float, ...], ends) for ends in many)
    if key == "parts":
        if not isinstance(value, Mapping):
            raise _bad("parts", "conditions by name of a part", value, 'write left = "dirichlet" below [parts]')
        return {str(name): PartDescription.from_toml(one) for name, one in value.items()}
    if key == "units":
        if not (isinstance(value, Mapping) and all(isinstance(word, str) for word in value.values())):
            raise _bad("units", "words by name", value, 'write x = "mm" below [units]')
        return dict(value)
    types, words, example = CHECKS[kind]
    is_list = str(kind).startswith("tuple")
    fits = all(isinstance(one, types) and isinstance(one, bool) == (kind is bool) for one in many)
    if not fits or (isinstance(value, list) and not is_list):
        raise _bad(key, words, repr(value), f"write {key} = {example}")
    return tuple(many) if is_list else value


_LABELLED = (int | float | str, "a number, or text with a unit", '"0.01 mm"')
#: Type of a field -> what its values in TOML are, in words, and an example.
CHECKS: dict[Any, tuple[Any, str, str]] = {
    tuple[str, ...]: (str, "text or a list of it", '"name"'),
    tuple[int, ...]: (int, "a whole number or a list of them", "21"),
    tuple[float, ...]: (int | float, "a number or a list of them", "-999"),
    bool: (bool, "true or false", "true"),
    int: (int, "a whole number", "1"),
    float: (int | float, "a number", "1.5"),
    str: (str, "text", '"name"'),
    str | None: (str, "text", '"name"'),
    float | str: _LABELLED,
    float | str | None: _LABELLED,
}


def load_term(table: object, *, number: int) -> LoadTerm:
    """From one `[[loads]]` table, the `number`th: its kind, the fields of that kind, and which pair it belongs to."""
    with naming(f"load {number}"):
        if not isinstance(table, Mapping):
            raise _bad("load", f"kind = one of {', '.join(KINDS)}", repr(table), 'write kind = "point" below [[loads]]')
        _check_word("kind", table.get("kind"), KINDS)
        kind = KINDS[table["kind"]]
        known = {one.name: one for one in fields(kind)}
        types = {name: one.type for name, one in known.items()} | {"kind": str, "pair": int, "amount": str}
        for key in table:
            _check_word("key", key, types)
        for name, one in known.items():
            if one.default is MISSING and name not in table:
                raise _bad(name, f"a value of {name}", "none", f"add the key {name}")
        values = {key: _value(key, types[key], value) for key, value in table.items() if key != "kind"}
        pair, amount = values.pop("pair", number), values.pop("amount", None)
        if pair < 1:
            raise _bad("pair", "a whole number from 1", pair, "number the pairs")
        return LoadTerm(kind(**values), pair, amount)


def _check_word(key: str, word: Any, known: Collection[str]) -> None:
    if not isinstance(word, str) or word not in known:
        remedy = meant(str(word)[:80], known, otherwise="choose one of them")
        raise _bad(key, f"one of {', '.join(known)}", repr(word), remedy)


def _bad(key: str, expected: str, got: object, remedy: str) -> MeasurementError:
    shown = got if len(str(got)) <= 300 else f"{str(got)[:300]}…"
    return MeasurementError(f"{key[:80]} not understood", expected=expected, got=shown, remedy=remedy)
