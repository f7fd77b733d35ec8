"""Ncorr, as its menu saves: a structure `data_dic_save` with `displacements`, one element a frame, and `dispinfo`.

Formatted displacements are in `dispinfo.units`, `pixtounits` of them a pixel; `plot_u_dic`, before formatting, are
in pixels. Fields have a node every `spacing` + 1 pixels. The mask of a region of interest is a MATLAB object in
some files and cannot be read there; then a point is lost where both displacements are exactly 0, as Ncorr writes it.
"""

from pathlib import Path
from typing import Any

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents, mat
from nipde.measurements.formats.csv import PIXELS

#: As saved from the menu, and as the object names it.
VARIABLES = ("data_dic_save", "data_dic")
#: u, v and region of interest: on the reference image, on the current one, and before formatting.
FIELDS = (
    ("plot_u_ref_formatted", "plot_v_ref_formatted", "roi_ref_formatted"),
    ("plot_u_cur_formatted", "plot_v_cur_formatted", "roi_cur_formatted"),
    ("plot_u_dic", "plot_v_dic", "roi_dic"),
)


def recognises(path: Path) -> bool:
    """By the name of its variable."""
    return any(name in VARIABLES for name in mat.names(path))


def parse(path: Path, *, values: int) -> Contents:
    """x, y in pixels; u, v on [frame y x]; where they were measured; the scale of a pixel as attributes."""
    contents = Contents(values)
    variable = next((name for name in mat.names(path) if name in VARIABLES), None)
    if variable is None:
        raise MeasurementError(expected="a variable data_dic_save", got="none", remedy="pass format='mat'")
    data = mat.load(path, contents, only=variable)[variable]
    frames, info = _part(data, "displacements"), _part(data, "dispinfo")
    for names in FIELDS:
        u, v = (_stack(frames.get(name)) for name in names[:2])
        if u is not None and v is not None and u.shape == v.shape:
            break
    else:
        raise MeasurementError(expected="equal fields u and v in every frame", got=", ".join(frames) or "none")
    _describe(info, names[0], contents)
    pitch = contents.attributes.get("spacing", 0.0)
    if not isinstance(pitch, float):
        raise MeasurementError("dispinfo.spacing", expected="a number of pixels", got=repr(pitch))
    for axis, count in (("y", u.shape[1]), ("x", u.shape[2])):
        contents.add(axis, np.arange(count) * (pitch + 1), unit="px")
    for name, field in (("u", u), ("v", v)):
        contents.add(name, field, unit=_unit(names[0], contents))
    mask = _stack([_mask(region) for region in _frames(frames.get(names[2]))])
    contents.valid = mask.astype(bool) if mask is not None and mask.shape == u.shape else (u != 0) | (v != 0)
    return contents


def _part(data: Any, name: str) -> dict[str, Any]:
    part = data.get(name) if isinstance(data, dict) else None
    if not isinstance(part, dict):
        raise MeasurementError(expected=f"a structure data_dic_save.{name}", got=type(part).__name__)
    return part


def _frames(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _stack(value: Any) -> np.ndarray | None:
    """Frames on top of each other, if all are fields of one shape."""
    frames = _frames(value)
    fields = [frame for frame in frames if isinstance(frame, np.ndarray) and frame.ndim == 2 and frame.size]
    if not fields or len(fields) < len(frames) or len({field.shape for field in fields}) > 1:
        return None
    return np.stack(fields)


def _mask(region: Any) -> Any:
    return region.get("mask") if isinstance(region, dict) else None


def _describe(info: dict[str, Any], field: str, contents: Contents) -> None:
    contents.attributes["field"] = field
    for name in ("pixtounits", "units", "spacing", "radius", "type"):
        value = info.get(name)
        if isinstance(value, str) or (isinstance(value, np.ndarray) and value.size == 1):
            contents.note(name, value if isinstance(value, str) else value.item())
    cutoff = info.get("cutoff_corrcoef")
    if isinstance(cutoff, np.ndarray) and cutoff.size:
        contents.note("cutoff_corrcoef", float(np.max(cutoff)))


def _unit(field: str, contents: Contents) -> str | None:
    unit = str(contents.attributes.get("units", ""))
    return "px" if field.endswith("_dic") or unit.lower() in PIXELS else unit
