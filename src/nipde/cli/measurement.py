"""The measurement a verb reads: its files, and what they do not say themselves."""

from typing import Any

from jsonargparse import ArgumentParser

from nipde.errors import MeasurementError
from nipde.measurements.measurement import Measurement
from nipde.measurements.read import read


def add_measurement(to: ArgumentParser) -> None:
    """The file, and options that stand in for what it leaves out."""
    to.add_argument(
        "file", type=str, help="npz, mat, h5, csv, vtk, nc, a DIC export, or a TOML file that describes some"
    )
    to.add_argument(
        "--units", type=str, default="", help="such as x=mm,load=N/m^2,response=mm, where files say nothing"
    )
    to.add_argument("--response", type=str, default="", help="name of the response's array or column, such as W")
    to.add_argument("--load", type=str, default="", help="name of the load's array or column")
    to.add_argument("--nodes", type=str, default="", help="grid for scattered points, such as 21 or 41,21")
    to.add_argument("--scale", type=str, default="", help="size of a pixel, such as '0.05 mm/px'")


def measurement_of(chosen: Any) -> Measurement:
    """What the options of `add_measurement` ask for."""
    return read(
        chosen.file,
        units=_words(chosen.units),
        response=chosen.response.split(",") if chosen.response else None,
        load=chosen.load.split(",") if chosen.load else None,
        nodes=_counts(chosen.nodes),
        scale=chosen.scale or None,
    )


def _words(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, equals, unit in parts:
        if not (name.strip() and equals and unit.strip()):
            raise MeasurementError("--units", expected="name=unit,name=unit", got=repr(text))
    return {name.strip(): unit.strip() for name, _, unit in parts}


def _counts(text: str) -> list[int] | None:
    if not text:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise MeasurementError("--nodes", expected="whole numbers such as 21 or 41,21", got=repr(text)) from None
