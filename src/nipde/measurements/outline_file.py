"""Files with the outline of a specimen, parsed in a child process: GeoJSON, corners, meshes, drawings, silhouettes."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from jaxtyping import Float
from shapely.geometry import MultiLineString, Polygon
from shapely.geometry.base import BaseGeometry

from nipde.errors import MeasurementError, meant, naming
from nipde.measurements.formats import Contents, Format
from nipde.measurements.parse import parse_in_child
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits
from nipde.measurements.units import factor, quantity
from nipde.shape import Shape

#: Bytes of a file.
LARGEST = 2**26
#: Share of pixels at the border of a silhouette that are of the background, at least.
BORDER = 0.9
#: Share of pixels that are neither dark nor light, at most; and what is neither.
BETWEEN, DARK, LIGHT = 0.05, 0.25, 0.75
#: Of silhouettes, in pixels: sides that meet at a corner are as long as the first, those of stairs are shorter on one
#: side; sides as long as the second stay straight; pieces of the area of the third, this close, were cut off by pixels.
CORNER, STRAIGHT, CRUMB, NEAR = 3, 40, 16, 3


def _format(name: str, *suffixes: str) -> Format:
    return Format(name, f"nipde.measurements.formats.{name}", suffixes)


FORMATS = (
    _format("geojson", ".geojson", ".json"),
    _format("corners", ".csv"),
    _format("dxf", ".dxf"),
    _format("silhouette", ".png", ".tif", ".tiff", ".bmp"),
)
MESH = _format("mesh")


@dataclass(frozen=True, eq=False)
class OutlineFile:
    """What was read; `unit` is that of the shape if the file, or the size of a pixel, states it."""

    shape: Shape
    unit: str | None
    sha256: str

    def scale(self, length: Float[np.ndarray, " axis"], unit: str) -> tuple[float, ...]:
        """What its coordinates are multiplied with: `length` if it states no unit, else to get to this one."""
        return tuple(length) if self.unit is None else (factor(self.unit, unit, of="the outline"),) * 2


def read_outline(
    path: str | Path, *, layer: str | None = None, pixel: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> OutlineFile:
    """The outline in a file.

    `layer` chooses one of a DXF drawing. `pixel` is the size of a pixel of a silhouette, such as `0.1 mm`: x and y are
    then measured from the lower left corner of the picture. With `1 px` they are camera coordinates, from its upper
    left corner, y downwards.
    """
    path = Path(path)
    format = next((one for one in FORMATS if path.suffix.lower() in one.suffixes), MESH)
    digest, _, contents = parse_in_child(path, candidates=lambda _: [format], limits=limits, most=LARGEST)
    with naming(path.name):
        for option, value, belongs in (("layer", layer, "dxf"), ("pixel", pixel, "silhouette")):
            if value is not None and format.name != belongs:
                raise MeasurementError(
                    option, expected=f"a {belongs} file", got=path.suffix or "another", remedy="leave it out"
                )
        if format.name == "dxf":
            rings = _rings_of_layer(contents, layer)
            return OutlineFile(_nested(rings), next(iter(contents.units.values()), None), digest)
        if format.name == "silhouette":
            return OutlineFile(*_silhouette(contents.arrays["grey"], pixel), digest)
        return OutlineFile(_polygon(contents), None, digest)


def _polygon(contents: Contents) -> Shape:
    rings = [contents.arrays[name] for name in contents.arrays if name.startswith("ring ")]
    shape, lines = Shape.polygon(rings[0], holes=rings[1:]), dict[str, list[np.ndarray]]()
    for key, name in contents.attributes.items():
        if key.startswith("line "):
            lines.setdefault(str(name), []).append(contents.arrays[key])
    for name, pieces in lines.items():
        shape = shape.with_part(name, MultiLineString(pieces))
    return shape


def _rings_of_layer(contents: Contents, layer: str | None) -> list[np.ndarray]:
    """Those of the chosen layer, or of the only one that has some."""
    attributes = contents.attributes
    layers = list(dict.fromkeys(str(name) for key, name in attributes.items() if key.startswith("ring ")))
    every = layers + [key.partition("/")[2] for key in attributes if key.startswith(("open/", "other/"))]
    if layer is None and len(layers) > 1:
        raise MeasurementError(
            expected="closed outlines on one layer", got=f"on {len(layers)}: {', '.join(layers)[:200]}",
            remedy="choose the layer (layer=, --outline-layer, outline_layer)",
        )  # fmt: skip
    chosen = layer if layer is not None else (layers or every or ["0"])[0]
    if layer is not None and layer not in every:
        raise MeasurementError(
            f"layer {layer!r}", expected=f"one of {', '.join(dict.fromkeys(every))[:200]}", got="no lines there",
            remedy=meant(layer, every, otherwise="see the layers of the drawing"),
        )  # fmt: skip
    if (other := attributes.get(f"other/{chosen}")) is not None:
        raise MeasurementError(
            f"layer {chosen!r}", expected="lines, arcs, circles, ellipses, splines and polylines", got=other,
            remedy="explode blocks, turn what is left into polylines, or put it on another layer",
        )  # fmt: skip
    if (end := attributes.get(f"open/{chosen}")) is not None or chosen not in layers:
        raise MeasurementError(
            f"layer {chosen!r}", expected="closed outlines", got=f"an open end at {end}" if end else "none",
            remedy="close the outline, or put other lines on another layer",
        )  # fmt: skip
    return [contents.arrays[key] for key, name in attributes.items() if key.startswith("ring ") and name == chosen]


def _nested(rings: list[np.ndarray]) -> Shape:
    """The largest is the outline of the specimen, the others those of its holes."""
    areas = [abs(np.sum(ring[:, 0] * np.roll(ring[:, 1], 1) - ring[:, 1] * np.roll(ring[:, 0], 1))) for ring in rings]
    outer = int(np.argmax(areas))
    return Shape.polygon(rings[outer], holes=[ring for number, ring in enumerate(rings) if number != outer])


def _silhouette(grey: np.ndarray, pixel: str | None) -> tuple[Shape, str | None]:
    """The region of the specimen; its unit is None in camera coordinates."""
    if pixel is None:
        raise MeasurementError(
            "size of a pixel", expected="one such as 0.1 mm, or 1 px for camera coordinates", got="none",
            remedy="give it (pixel=, --outline-pixel, outline_pixel)",
        )  # fmt: skip
    size, unit = quantity(pixel, of="the size of a pixel")
    camera = unit == "px"
    if not 0 < size < np.inf or (camera and size != 1):
        raise MeasurementError("size of a pixel", expected="one > 0, or 1 px", got=pixel, remedy="write 0.1 mm")
    specimen = _specimen_of(grey)
    rows = specimen if camera else specimen[::-1]
    edges = np.diff(np.pad(rows, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    (row, start), (_, end) = np.nonzero(edges == 1), np.nonzero(edges == -1)
    region = _without_crumbs(shapely.union_all(shapely.box(start, row, end, row + 1)).simplify(0))
    rings = [_smoothed(shapely.get_coordinates(ring)[:-1]) for ring in (region.exterior, *region.interiors)]
    shape = Shape.polygon(rings[0], holes=rings[1:]).transformed(scale=(size, size))
    return shape, None if camera else unit


def _without_crumbs(region: BaseGeometry) -> Polygon:
    """One region; a sharp tip of it may hang on by the corner of a pixel."""
    pieces = sorted(shapely.get_parts(region), key=lambda one: one.area)
    others = [one for one in pieces[:-1] if one.area > CRUMB or not one.dwithin(pieces[-1], NEAR)]
    if others or not pieces:
        raise MeasurementError(
            expected="one specimen", got=f"{len(others) + 1} regions" if others else "nothing",
            remedy="remove specks and other things from the picture",
        )  # fmt: skip
    piece: Polygon = pieces[-1]
    return piece


def _smoothed(ring: np.ndarray) -> np.ndarray:
    """Corners, and of stairs the middles of their sides: these lie on the line that the pixels were cut along."""
    along = np.roll(ring, -1, 0) - ring
    lengths = np.abs(along).sum(axis=1)
    corner = np.minimum(lengths, np.roll(lengths, 1)) >= CORNER
    points: list[np.ndarray] = []
    for place, here, step, length in zip(range(len(ring)), ring, along, lengths, strict=True):
        points += [here] if corner[place] else []
        if not (corner[place] and corner[(place + 1) % len(ring)]):
            points += [here + share * step for share in ((0.1, 0.9) if length >= STRAIGHT else (0.5,))]
    return np.array(points)


def _specimen_of(grey: np.ndarray) -> np.ndarray:
    """What differs from the border of the picture."""
    solid = ~np.isnan(grey)
    if solid.all():
        between = float(np.mean((grey > DARK) & (grey < LIGHT)))
        if between > BETWEEN:
            raise MeasurementError(
                expected="a silhouette: dark and light", got=f"{100 * between:.0f} % of the pixels in between",
                remedy="make the specimen black and everything else white",
            )  # fmt: skip
        solid = grey < 0.5
    border = np.concatenate([solid[0], solid[-1], solid[1:-1, 0], solid[1:-1, -1]])
    share = float(border.mean())
    if BORDER > share > 1 - BORDER:
        raise MeasurementError(
            expected="background along the border of the picture", got=f"{100 * share:.0f} % dark, the rest light",
            remedy="leave a margin around the specimen",
        )  # fmt: skip
    return ~solid if share >= BORDER else solid
