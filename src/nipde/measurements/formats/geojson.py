"""GeoJSON with one polygon, `ring 0` outside and its holes, and lines with a property `name`: `line 0`, `line 1`, …"""

import json
from pathlib import Path

import shapely
from shapely.geometry import LineString, MultiLineString, Polygon
from shapely.geometry.base import BaseGeometry

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents


def parse(path: Path, *, values: int) -> Contents:
    """Names of lines are attributes of the same keys."""
    contents = Contents(values)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        features = content.get("features", [content if "geometry" in content else {"geometry": content}])
        geometries = [
            (shapely.from_geojson(json.dumps(one["geometry"])), (one.get("properties") or {}).get("name"))
            for one in features
        ]
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError, shapely.errors.GEOSException) as error:
        raise MeasurementError(
            expected="GeoJSON with a polygon, or a .csv of corners", got=str(error).split("\n")[0],
            remedy="export the outline again",
        ) from error  # fmt: skip
    regions = [geometry for geometry, _ in geometries if isinstance(geometry, Polygon)]
    if len(regions) != 1:
        raise MeasurementError(expected="one polygon", got=len(regions), remedy="keep that of the specimen")
    add_rings(regions[0], contents)
    drawn = [one for one in geometries if isinstance(one[0], LineString | MultiLineString) and one[1]]
    lines = [(line, str(name)) for geometry, name in drawn for line in shapely.get_parts(geometry)]
    for number, (line, name) in enumerate(lines):
        points = shapely.get_coordinates(line)
        contents.reserve(f"line {number}", points.shape)
        contents.add(f"line {number}", points)
        contents.note(f"line {number}", name)
    return contents


def add_rings(region: BaseGeometry, contents: Contents) -> None:
    """Rings of one polygon, the outer one first."""
    if not isinstance(region, Polygon) or region.is_empty:
        count = "nothing" if region.is_empty else f"{len(shapely.get_parts(region))} regions"
        raise MeasurementError(expected="one connected region", got=count, remedy="take one region at a time")
    for number, ring in enumerate((region.exterior, *region.interiors)):
        points = shapely.get_coordinates(ring)
        contents.reserve(f"ring {number}", points.shape)
        contents.add(f"ring {number}", points)
