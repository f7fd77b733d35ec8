"""The options by which a verb reads a measurement: its file, and what the file does not say itself."""

from collections.abc import Callable
from typing import Any

from jsonargparse import ArgumentParser

from nipde.cli.arguments import path
from nipde.errors import MeasurementError
from nipde.measurements.measurement import Measurement
from nipde.measurements.outline import PartDescription
from nipde.measurements.read import read

OPTIONS = {
    "--units": "units that the file does not state, such as x=m,load=m/d,response=m; none is guessed",
    "--response": "column or array with the measured response, such as head; of a vector: U,V",
    "--load": "column or array with the applied load, such as rate (pumping per area)",
    "--nodes": "for scattered points: number of grid points to interpolate to, such as 21 or 41,21",
    "--scale": "size of a pixel, for camera data, such as '0.05 mm/px'",
    "--specimen": "name of the specimen, for the report",
    "--date": "day of the measurement, such as 2026-11-03, for the report",
    "--outline": "file with the outline of the specimen, in the coordinates of the measurement: GeoJSON, a csv of its "
    "corners, a mesh, a DXF drawing or a silhouette (png, tiff); sides along its box are left, right, bottom and top, "
    "holes are hole 1, hole 2, …",
    "--outline-layer": "layer of a DXF drawing that holds the outline, such as CUT",
    "--outline-pixel": "size of a pixel of a silhouette, such as '0.1 mm', or '1 px' for camera coordinates",
    "--outline-heights": "over three axes: ends along z of a specimen that has the outline at all heights, such as "
    "0,0.12; they are the parts back and front",
    "--dirichlet": "parts of the outline where the response is given in all tests, such as left=0,'hole 1'=2.5",
    "--flux": "parts with a flux into the specimen in all tests, such as right=3 (load · length); others have none",
    "--robin": "parts in contact with surroundings at 0, with flux per difference, such as window=12",
}
#: Option of a part -> its description by a number.
PARTS: dict[str, Callable[[str], PartDescription]] = {
    "dirichlet": lambda number: PartDescription("dirichlet", number),
    "flux": lambda number: PartDescription("neumann", number),
    "robin": lambda number: PartDescription("robin", 0.0, number),
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
        units=named_units(options.units),
        response=options.response.split(",") if options.response else None,
        load=options.load.split(",") if options.load else None,
        nodes=_numbers(options.nodes, int, "--nodes", expected="whole numbers such as 21 or 41,21"),
        scale=options.scale or None,
        specimen=options.specimen or None,
        date=options.date or None,
        outline=options.outline or None,
        outline_layer=options.outline_layer or None,
        outline_pixel=options.outline_pixel or None,
        outline_heights=_numbers(
            options.outline_heights, float, "--outline-heights", expected="two numbers such as 0,0.12, the lower first"
        ),
        parts={
            name: made(number)
            for kind, made in PARTS.items()
            for name, number in _parts(getattr(options, kind), f"--{kind}").items()
        },
        files_anywhere=options.files_anywhere,
    )


def named_units(text: str) -> dict[str, str]:
    """Units by name, from `x=m,load=m/d`."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, equals, unit in parts:
        if not (name.strip() and equals and unit.strip()):
            raise MeasurementError(
                "--units", expected="name=unit,name=unit", got=repr(text), remedy="write x=m,load=m/d,response=m"
            )
    return {name.strip(): unit.strip() for name, _, unit in parts}


def _parts(text: str, option: str) -> dict[str, str]:
    """Numbers, or text with a unit, by part; of --dirichlet 0 where none is given."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, _, number in parts:
        if not name.strip() or not (number.strip() or option == "--dirichlet"):
            raise MeasurementError(
                option, expected="part=number,part=number", got=repr(text), remedy=f"write {option} left=2"
            )
    return {name.strip().strip("'\""): number.strip() or "0" for name, _, number in parts}


def _numbers(text: str, number: type[Any], option: str, *, expected: str) -> list[Any] | None:
    """Apart by commas; None where the option is not given."""
    if not text:
        return None
    try:
        return [number(part) for part in text.split(",")]
    except ValueError:
        raise MeasurementError(
            option, expected=expected, got=repr(text), remedy="write them with commas between"
        ) from None
