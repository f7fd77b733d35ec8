"""Closed outlines of an ASCII DXF drawing by layer: polylines, circles, ellipses, chains of lines, arcs and splines.

    a bulge is tan(θ/4), θ the angle of the arc from a vertex to the next, anticlockwise if positive

Arrays are `ring 0`, `ring 1`, …; their layers are attributes of the same names. `open/LAYER` is the place of an end
where a chain does not go on, `other/LAYER` names entities that are not understood. The unit is that of `$INSUNITS`.
Text, dimensions, hatches and points are left alone, and so are blocks and paper space.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import atan, cos, hypot, pi, radians, sin
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.interpolate import BSpline
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents

#: Sides of a full circle: an arc is inside of them by 2e-5 of its radius at most.
SIDES = 512
#: Ends of lines and arcs that are this close, over the extent of the drawing, are one.
CLOSE = 1e-6
#: Sides between two knots of a spline.
BETWEEN_KNOTS = 128
#: By number of $INSUNITS.
UNITS = {1: "inch", 2: "ft", 4: "mm", 5: "cm", 6: "m", 7: "km", 10: "yd", 12: "nm", 13: "um", 14: "dm"}
#: No part of an outline.
ANNOTATIONS = {
    "TEXT", "MTEXT", "DIMENSION", "POINT", "HATCH", "LEADER", "MULTILEADER", "TOLERANCE", "VIEWPORT", "ATTDEF", "SEQEND"
}  # fmt: skip
Curve = np.ndarray


class Tag(NamedTuple):
    """A group: its code and its value as text."""

    code: int
    value: str


class Entity(NamedTuple):
    """Its kind, its tags, and for a POLYLINE those of its vertices."""

    kind: str
    tags: list[Tag]
    vertices: list[list[Tag]]

    def all(self, code: int) -> list[float]:
        """All numbers of a code."""
        return _numbers(self.tags, code)

    def first(self, code: int, otherwise: float | None = None) -> float:
        """The first number of a code."""
        found = self.all(code)
        if not found and otherwise is None:
            raise MeasurementError(self.kind, expected=f"a group {code}", got="none", remedy="export the drawing again")
        return found[0] if found else float(otherwise or 0.0)

    @property
    def layer(self) -> str:
        """Its name."""
        return next((tag.value for tag in self.tags if tag.code == 8), "0")


def parse(path: Path, *, values: int) -> Contents:
    """Rings of all layers."""
    contents = Contents(values)
    entities, unit = _drawing(path)
    open_ends: dict[str, list[Curve]] = {}
    rings: list[tuple[str, Curve]] = []
    for entity in entities:
        if entity.kind in ANNOTATIONS or entity.first(67, 0.0) == 1:  # paper space
            continue
        curve = _curve(entity)
        if curve is None:
            known = str(contents.attributes.get(f"other/{entity.layer}", ""))
            if entity.kind not in known.split(", "):
                contents.note(f"other/{entity.layer}", f"{known}, {entity.kind}".strip(", "))
        elif not np.isfinite(curve).all():
            raise MeasurementError(entity.kind, expected="finite coordinates", got="others", remedy="export it again")
        elif len(curve) > 3 and np.array_equal(curve[0], curve[-1]):
            rings.append((entity.layer, curve[:-1]))
        else:
            open_ends.setdefault(entity.layer, []).append(curve)
    for layer, curves in open_ends.items():
        closed, end = _chained(curves)
        rings += [(layer, ring) for ring in closed]
        if end is not None:
            contents.note(f"open/{layer}", end)
    for number, (layer, corners) in enumerate(rings):
        ring = corners[np.any(corners != np.roll(corners, 1, axis=0), axis=1)]  # no corner twice in a row
        contents.reserve(f"ring {number}", ring.shape)
        contents.add(f"ring {number}", ring, unit=unit)
        contents.note(f"ring {number}", layer)
    return contents


def _drawing(path: Path) -> tuple[list[Entity], str | None]:
    """Entities of the model, and the unit of length."""
    content = path.read_bytes()
    if content.startswith(b"AutoCAD Binary DXF"):
        raise MeasurementError(expected="ASCII DXF", got="binary DXF", remedy="save the drawing as ASCII DXF")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    section, variable, unit = "", "", None
    entities: list[Entity] = []
    inside = False
    for code, value in _tags(text):
        if code == 0:
            inside = section == "ENTITIES" and value not in ("SECTION", "ENDSEC", "EOF")
            section = "" if value in ("SECTION", "ENDSEC") else section
            if inside and value == "VERTEX" and entities:
                entities[-1].vertices.append([])
            elif inside:
                entities.append(Entity(value, [], []))
        elif code == 2 and not section:
            section = value
        elif section == "HEADER" and code == 9:
            variable = value
        elif section == "HEADER" and variable == "$INSUNITS" and code == 70:
            unit = _unit(value)
        elif inside:
            (entities[-1].vertices[-1] if entities[-1].vertices else entities[-1].tags).append(Tag(code, value))
    return entities, unit


def _unit(value: str) -> str | None:
    if value not in ("0", *map(str, UNITS)):
        raise MeasurementError(
            "$INSUNITS", expected=", ".join(f"{number} ({unit})" for number, unit in UNITS.items()) + " or 0 (none)",
            got=value[:80], remedy="save the drawing in one of these units",
        )  # fmt: skip
    return UNITS.get(int(value))


def _tags(text: str) -> Iterator[Tag]:
    lines = text.splitlines()
    for place in range(0, len(lines) - 1, 2):
        code = lines[place].strip()
        if not (code.isascii() and code.lstrip("-").isdigit() and len(code) < 6):
            raise MeasurementError(
                f"line {place + 1}", expected="a group code of DXF", got=repr(code[:80]), remedy="save as ASCII DXF"
            )
        yield Tag(int(code), lines[place + 1].strip())


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise MeasurementError(expected="a number", got=repr(value[:80]), remedy="export the drawing again") from None


def _numbers(tags: list[Tag], code: int) -> list[float]:
    return [_number(tag.value) for tag in tags if tag.code == code]


def _curve(entity: Entity) -> Curve | None:
    """Points along it, the first again at the end if it is closed; None if it is not understood."""
    facing = entity.first(230, 1.0)
    if hypot(entity.first(210, 0.0), entity.first(220, 0.0)) > 1e-9 or abs(abs(facing) - 1) > 1e-9:
        return None
    found: Curve | None
    match entity.kind:
        case "LINE":
            return np.array([[entity.first(10), entity.first(20)], [entity.first(11), entity.first(21)]])
        case "ELLIPSE":
            return _ellipse(entity, facing)
        case "SPLINE":
            return _spline(entity)
        case "CIRCLE":
            found = _circle(entity, 0.0, 2 * pi)
        case "ARC":
            start, end = radians(entity.first(50)), radians(entity.first(51))
            found = _circle(entity, start, start + ((end - start) % (2 * pi) or 2 * pi))
        case "LWPOLYLINE":
            found = _polyline(_light_vertices(entity.tags), closed=int(entity.first(70, 0)) & 1 == 1)
        case "POLYLINE" if not int(entity.first(70, 0)) & (8 | 16 | 64):
            vertices = [one for one in entity.vertices if not int((_numbers(one, 70) or [0])[0]) & 16]
            corners = [[(_numbers(one, code) or [0.0])[0] for code in (10, 20, 42)] for one in vertices]
            found = _polyline(corners, closed=int(entity.first(70, 0)) & 1 == 1)
        case _:
            return None
    return found if facing > 0 or found is None else found * [-1.0, 1.0]  # seen from behind


def _circle(entity: Entity, start: float, end: float) -> Curve:
    centre, radius = np.array([entity.first(10), entity.first(20)]), entity.first(40)
    return centre + radius * _around(start, end)


def _ellipse(entity: Entity, facing: float) -> Curve:
    centre, major = (np.array([entity.first(one), entity.first(one + 10)]) for one in (10, 11))
    minor = facing * entity.first(40) * np.array([-major[1], major[0]])
    start, end = entity.first(41, 0.0), entity.first(42, 2 * pi)
    return centre + _around(start, start + ((end - start) % (2 * pi) or 2 * pi)) @ np.stack([major, minor])


def _around(start: float, end: float) -> Curve:
    """On the unit circle; a full one ends where it begins, to the last bit."""
    angles = np.linspace(start, end, max(3, round(abs(end - start) / (2 * pi) * SIDES) + 1))
    points = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    if abs(abs(end - start) - 2 * pi) < 1e-9:
        points[-1] = points[0]
    return points


def _light_vertices(tags: list[Tag]) -> list[list[float]]:
    """x, y and bulge."""
    corners: list[list[float]] = []
    for code, value in tags:
        if code == 10:
            corners.append([_number(value), 0.0, 0.0])
        elif corners and code in (20, 42):
            corners[-1][1 if code == 20 else 2] = _number(value)
    return corners


def _polyline(corners: list[list[float]], *, closed: bool) -> Curve | None:
    if len(corners) < 2:
        return None
    points = [np.array(corners[0][:2])[None]]
    for here, there in zip(corners, [*corners[1:], *([corners[0]] if closed else [])], strict=False):
        points.append(_bulged(np.array(here[:2]), np.array(there[:2]), here[2]))
    return np.concatenate(points)


def _bulged(start: Curve, end: Curve, bulge: float) -> Curve:
    """Points behind the start, to the end."""
    if abs(bulge) < 1e-9:
        return end[None]
    chord, angle = end - start, 4 * atan(bulge)
    centre = (start + end) / 2 + np.array([-chord[1], chord[0]]) * (1 - bulge**2) / (4 * bulge)
    count = max(2, round(abs(angle) / (2 * pi) * SIDES))
    turns = angle * np.arange(1, count) / count
    x, y = start - centre
    arc = np.array([[x * cos(turn) - y * sin(turn), x * sin(turn) + y * cos(turn)] for turn in turns])
    return np.concatenate([centre + arc, end[None]])


def _spline(entity: Entity) -> Curve | None:
    """Rational, by its control points; None where it has fit points alone."""
    control = np.array([entity.all(10), entity.all(20)]).T if len(entity.all(10)) == len(entity.all(20)) else None
    degree, knots = int(entity.first(71, 3)), np.array(entity.all(40))
    if control is None or not 1 <= degree <= 10 or len(control) <= degree or len(knots) != len(control) + degree + 1:
        return None
    weights = np.array(entity.all(41) or [1.0] * len(control))
    spans = np.unique(knots[degree : len(knots) - degree])
    if len(weights) != len(control) or np.any(np.diff(knots) < 0) or len(spans) < 2:
        return None
    at = np.unique(np.concatenate([np.linspace(*ends, BETWEEN_KNOTS + 1) for ends in pairwise(spans)]))
    found = BSpline(knots, np.column_stack([control * weights[:, None], weights]), degree)(at)
    curve = np.asarray(found[:, :2] / found[:, 2:])
    if hypot(*(curve[-1] - curve[0])) <= CLOSE * np.ptp(curve, axis=0).max():
        curve[-1] = curve[0]
    return curve


def _chained(curves: list[Curve]) -> tuple[list[Curve], str | None]:
    """Rings of pieces that meet at their ends, and the place of one where they do not."""
    ends = np.concatenate([[one[0], one[-1]] for one in curves])
    extent = float(np.ptp(np.concatenate(curves), axis=0).max())
    first, second = KDTree(ends).query_pairs(CLOSE * extent, output_type="ndarray").T
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(len(ends), len(ends)))
    node = connected_components(graph, directed=False)[1]
    meet = np.bincount(node)[node]
    if np.any(meet != 2):
        wrong = int(np.argmax(meet != 2))
        return [], f"({ends[wrong, 0]:.6g}, {ends[wrong, 1]:.6g}), where {meet[wrong]} ends meet"
    partner = np.empty(len(ends), dtype=int)
    couples = np.argsort(node, kind="stable").reshape(-1, 2)
    partner[couples] = couples[:, ::-1]
    rings, done = [], np.zeros(len(curves), dtype=bool)
    for start in range(len(curves)):
        pieces, at = list[Curve](), 2 * start
        while not done[at // 2]:
            done[at // 2] = True
            curve = curves[at // 2]
            pieces.append(curve[:-1] if at % 2 == 0 else curve[:0:-1])
            at = int(partner[at ^ 1])
        if pieces:
            rings.append(np.concatenate(pieces))
    return rings, None
