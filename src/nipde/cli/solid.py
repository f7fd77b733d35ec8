"""`nipde discover` of a plane solid: options of the test bench, from displacements to the modulus."""

from typing import Any

from jsonargparse import ArgumentParser

from nipde.cli.measurement import named_units
from nipde.cli.terminal import one_thread, progress, say
from nipde.context.solid_tests import Uncertain
from nipde.errors import MeasurementError
from nipde.estimators.inverse.solid_inversion import SolidInversion
from nipde.measurements.bench import Bench
from nipde.measurements.solid_file import read_solid
from nipde.report.files import SOLID_NAMES, check_folder
from nipde.report.solid_report import SolidDiscovery

OPTIONS = {
    "--clamped": "solids: parts of the outline that cannot move, such as left,'hole 1'",
    "--roller": "solids: parts that cannot move along x or y, such as left=x,bottom=y",
    "--force": "solids: resultant force on a rigid grip, such as right='1200 N' along the outward normal, or "
    "right='0 N : 300 N' along x and y, or right=Force, a column of the file; of several tests separated by semicolons",
    "--traction": "solids: force per area on a part, such as right='106 MPa'",
    "--displacement": "solids: of a part that is moved, such as right='0.1 mm'; without a force, moduli are ratios",
    "--rotating": "solids: grips that may turn",
    "--thickness": "solids: of the specimen, such as '2 mm'; needed with a force",
    "--noise": "solids: standard deviation of a displacement, such as '0.002 mm'; estimated if left out",
    "--more-files": "solids: files of further tests on the same specimen, separated by commas",
}
#: Options that say that the file is of a scalar law, and of a solid.
SCALAR = ("weights", "nuisance", "dirichlet", "flux", "robin", "load", "nodes", "device", "outline_heights")
MARKS = ("clamped", "roller", "force", "traction", "displacement")


def add_bench(to: ArgumentParser) -> None:
    """How a solid was held and loaded."""
    for option, help in OPTIONS.items():
        to.add_argument(option, type=str, default="", help=help)
    to.add_argument("--poisson", type=float | None, default=None, help="solids: Poisson's ratio; found if left out")
    to.add_argument("--plane-strain", action="store_true", help="solids: thick in the third direction")
    to.add_argument("--homogeneous", action="store_true", help="solids: one modulus everywhere")
    to.add_argument(
        "--uncertain", type=list[Uncertain], default=[],
        help="solids: what may be off beside the noise: motion (of the camera), traction (uneven along its part), "
        "support (slips), outliers; [motion,outliers] for several",
    )  # fmt: skip


def on_bench(options: Any) -> bool:
    """Whether the options are those of a solid."""
    return any(getattr(options, name) for name in MARKS)


def discover_solid(options: Any) -> int:
    """From files to a folder."""
    if others := [name for name in SCALAR if getattr(options, name)]:
        option = f"--{others[0].replace('_', '-')}"
        raise MeasurementError(
            option, expected="options of a solid", got=f"{option}, of a scalar law",
            remedy="leave it out, or leave out the options of the test bench",
        )  # fmt: skip
    check_folder(options.out, names=SOLID_NAMES)
    one_thread()
    bench = Bench(
        clamped=_names(options.clamped), rollers=_pairs(options.roller, "--roller"),
        forces=_tests(options.force, "--force"), tractions=_tests(options.traction, "--traction"),
        displacements=_tests(options.displacement, "--displacement"), rotating=_names(options.rotating),
        thickness=options.thickness or None,
    )  # fmt: skip
    measurement = read_solid(
        [options.file, *_names(options.more_files)], bench, units=named_units(options.units),
        response=_names(options.response), scale=options.scale or None, outline=options.outline or None,
        poisson=options.poisson, plane="strain" if options.plane_strain else "stress", noise=options.noise or None,
        uncertain=tuple(options.uncertain), outline_layer=options.outline_layer or None,
        outline_pixel=options.outline_pixel or None, specimen=options.specimen or None, date=options.date or None,
    )  # fmt: skip
    say(measurement.interpretation())
    with progress("identifying", 1) as advance:
        law = SolidInversion(homogeneous=options.homogeneous)(measurement.tests)
        advance(1)
    discovery = SolidDiscovery(measurement, law, options.level)
    say("")
    for sentence in discovery.statements():
        say(sentence)
    folder = discovery.save(options.out)
    say(f"written: {folder}; open {folder / 'report.html'}")
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("'\"") for name in text.split(",") if name.strip())


def _tests(text: str, option: str) -> tuple[dict[str, str], ...]:
    return tuple(_pairs(one, option) for one in text.split(";")) if text else ()


def _pairs(text: str, option: str) -> dict[str, str]:
    found = {}
    for one in _names(text):
        name, equals, value = one.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise MeasurementError(
                option, expected="part=value", got=repr(one), remedy=f"write {option} right=" + "'120 N'"
            )
        found[name.strip().strip("'\"")] = value.strip().strip("'\"")
    return found
