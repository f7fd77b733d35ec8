"""`nipde discover FILE`: identify the coefficient field from a file of measurements; the result is a folder."""

import json
from typing import Any

from nipde.cli.arguments import add_device, between_0_and_1, new_folder, parser, whole
from nipde.cli.estimators import add_weights, on_device
from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.solid import add_bench, discover_solid, on_bench
from nipde.cli.terminal import one_thread, progress, say
from nipde.discovery.discover import discover
from nipde.discovery.material import MOST_PHASES
from nipde.errors import PairsError
from nipde.estimators.inverse.adjoint import BASELINES
from nipde.estimators.inverse.nuisance import NuisanceKind
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.measurements.measurement import Measurement
from nipde.report.files import check_folder
from nipde.report.statements import statements
from nipde.weights import load

ABOUT = (
    "Map the coefficient b of -div(b grad u) = f from tests in which a load f was applied and the response u measured, "
    "over a rectangle or a box of three axes with u = 0 on its sides, or a specimen of any outline (--outline): "
    "transmissivity from pumping rates and heads, tension from pressure and deflection. Prints how the file was "
    "understood, and the results. Writes a folder: report.html to read, b with error bounds and zones (csv, npz, vtk), "
    "the Green's function and a program that predict other responses, summary.json. Of a plane solid, with --clamped, "
    "--force or --traction: Young's modulus from the displacements that a camera saw."
)
EXAMPLE = "heads.csv --load rate --response head --units x=m,load=m/d,response=m --quantity transmissivity --out result"
OUTPUT_ERROR = "output-error"
#: Truncation error of the Green's function that is said.
TRUNCATED = 0.02
#: Weights that are taken for three axes.
SPATIAL = "conduction-3d"


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser("discover", ABOUT, example=EXAMPLE)
    add_measurement(parsed)
    add_weights(
        parsed,
        material=True,
        default="",
        more=f"{OUTPUT_ERROR}, the default, for any sensors; weights such as darcy take seconds, for full fields only, "
        "and are less exact on a specimen than on data of nipde's own solver; "
        f"the default for full fields over three axes is {SPATIAL}",
    )
    parsed.add_argument(
        "--quantity", type=str, default="coefficient", help="what b is called in the report, such as transmissivity"
    )
    parsed.add_argument(
        "--phases", type=whole(1, MOST_PHASES), default=2, help="number of materials to divide the map into; 1 for none"
    )
    parsed.add_argument(
        "--piecewise-constant", type=bool | None, default=None,
        help="whether b is constant within each material; if left out, what predicts held-out tests better",
    )  # fmt: skip
    parsed.add_argument(
        "--nuisance", type=list[NuisanceKind], default=[],
        help="errors that the readings may have beside noise: gain (of the load, in every test), offset (of all "
        "readings of a test), level (an offset of any size), outliers; [gain,offset] for several; estimates by output "
        "error",
    )  # fmt: skip
    parsed.add_argument(
        "--faults", type=bool, default=True,
        help="whether sensors and tests that all others contradict are left out, and named; by output error",
    )  # fmt: skip
    parsed.add_argument(
        "--level", type=between_0_and_1, default=0.9, help="nominal probability that the error bounds contain b"
    )
    parsed.add_argument(
        "--baselines", type=bool, default=True, help=f"whether to compare with inversion by {' and '.join(BASELINES)}"
    )
    parsed.add_argument(
        "--out", type=new_folder, required=True, help="folder for the results; replaced if it holds earlier ones"
    )
    parsed.add_argument(
        "--dense", type=bool, default=False, help="whether to store the Green's function as a matrix, too"
    )
    add_device(parsed)
    add_bench(parsed)
    options = parsed.parse_args(words)
    if on_bench(options):
        return discover_solid(options)
    check_folder(options.out)
    one_thread()
    if options.nuisance and options.weights not in ("", OUTPUT_ERROR):
        raise PairsError(
            expected=f"--weights {OUTPUT_ERROR}", got=f"--nuisance with --weights {options.weights}",
            remedy="leave out one of them",
        )  # fmt: skip
    by_output_error = options.weights in ("", OUTPUT_ERROR)
    model: Any = None if by_output_error else on_device(load(options.weights), options.device)
    measurement = measurement_of(options)
    say(measurement.interpretation())
    if model is None:
        model = on_device(usual_estimator(options, measurement), options.device)
    baselines = BASELINES if options.baselines else {}
    with progress("identifying", 4 + len(baselines)) as advance:
        discovery = discover(
            measurement, model, quantity=options.quantity, phases=options.phases, level=options.level,
            piecewise_constant=options.piecewise_constant, baselines=baselines, progress=lambda step: advance(1),
        )  # fmt: skip
    say("")
    for sentence in statements(discovery):
        say(sentence)
    folder = discovery.save(options.out, dense=options.dense)
    kept = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["kernel"]
    if kept["truncation_error"] > TRUNCATED:
        say(
            f"kernel.npz and predictor.pt2 hold {kept['rank']} terms of the Green's function: for loads that vary from "
            f"node to node they are off by {100 * kept['truncation_error']:.2g} %, for smooth ones by less."
        )
    say(f"written: {folder}; open {folder / 'report.html'}")
    return 0


def usual_estimator(options: Any, measurement: Measurement) -> Any:
    """Output error; weights for full fields over three axes, where it would take long."""
    full_field = measurement.readings is None and measurement.specimen is None
    if measurement.pairs.grid.dimension == 3 and full_field and not options.weights and not options.nuisance:
        return load(SPATIAL)
    return SensorInversion(nuisance=tuple(options.nuisance), faults=options.faults)
