"""The options by which a verb reads a measurement: its file, and what the file does not say itself."""

from typing import Any

from jsonargparse import ArgumentParser

from nipde.cli.arguments import path
from nipde.errors import MeasurementError
from nipde.measurements.measurement import Measurement
from nipde.measurements.read import read

OPTIONS = {
    "--units": "units that the file does not state, such as x=m,load=m/d,response=m; none is guessed",
    "--response": "column or array with the measured response, such as head; of a vector: U,V",
    "--load": "column or array with the applied load, such as rate (pumping per area)",
    "--nodes": "for scattered points: number of grid points to interpolate to, such as 21 or 41,21",
    "--scale": "size of a pixel, for camera data, such as '0.05 mm/px'",
}


def add_measurement(to: ArgumentParser) -> None:
    """The file, and options that stand in for what it leaves out."""
    formats = "table (csv, txt), npz, mat, h5, nc, vtk, export of image correlation, or a TOML file that describes some"
    to.add_argument("file", type=path, help=formats)
    for option, help in OPTIONS.items():
        to.add_argument(option, type=str, default="", help=help)
    to.add_argument("--files-anywhere", action="store_true", help="let a TOML file name files outside its own folder")


def measurement_of(options: Any) -> Measurement:
    """The measurement that the options of `add_measurement` name."""
    return read(
        options.file,
        units=_units(options.units),
        response=options.response.split(",") if options.response else None,
        load=options.load.split(",") if options.load else None,
        nodes=_nodes(options.nodes),
        scale=options.scale or None,
        files_anywhere=options.files_anywhere,
    )


def _units(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, equals, unit in parts:
        if not (name.strip() and equals and unit.strip()):
            raise MeasurementError(
                "--units", expected="name=unit,name=unit", got=repr(text), remedy="write x=m,load=m/d,response=m"
            )
    return {name.strip(): unit.strip() for name, _, unit in parts}


def _nodes(text: str) -> list[int] | None:
    if not text:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise MeasurementError(
            "--nodes", expected="whole numbers such as 21 or 41,21", got=repr(text), remedy="give one for each axis"
        ) from None
