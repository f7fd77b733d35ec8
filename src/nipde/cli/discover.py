"""`nipde discover FILE`: identify the coefficient field from a file of measurements; the result is a folder."""

from nipde.cli.arguments import level, new_folder, parser, whole
from nipde.cli.estimators import add_weights
from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.terminal import one_thread, progress, say
from nipde.discovery.discover import discover
from nipde.discovery.material import MOST_PHASES
from nipde.estimators.inverse.adjoint import BASELINES
from nipde.report.files import check_folder
from nipde.report.statements import statements
from nipde.weights import load

ABOUT = (
    "Identify the coefficient field of -div(b grad u) = f from measured loads f and responses u: transmissivity from "
    "pumping rates and heads, tension from pressure and deflection. Prints how the file was read and the results, and "
    "writes fields with bands, phases, the kernel, a predictor for new loads, summary.json and report.html."
)
EXAMPLE = "heads.csv --load rate --response head --units x=m,load=m/d,response=m --quantity transmissivity --out result"


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser("discover", ABOUT, example=EXAMPLE)
    add_measurement(parsed)
    add_weights(parsed, material=True)
    parsed.add_argument("--quantity", type=str, default="coefficient", help="your name of b, such as transmissivity")
    parsed.add_argument(
        "--phases", type=whole(1, MOST_PHASES), default=2, help="number of phases to segment the field into; 1 for none"
    )
    parsed.add_argument(
        "--piecewise-constant", type=bool | None, default=None,
        help="whether to use the piecewise-constant prior; selected by the held-out error if left out",
    )  # fmt: skip
    parsed.add_argument("--level", type=level, default=0.9, help="share of true values within the bands")
    parsed.add_argument(
        "--baselines", type=bool, default=True, help=f"whether to compare with {' and '.join(BASELINES)}"
    )
    parsed.add_argument("--out", type=new_folder, required=True, help="folder to write")
    parsed.add_argument("--dense", type=bool, default=False, help="whether to store the kernel as a matrix, too")
    options = parsed.parse_args(words)
    check_folder(options.out)
    one_thread()
    model, measurement = load(options.weights), measurement_of(options)
    say(measurement.interpretation())
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
    say(f"written: {folder}; open {folder / 'report.html'}")
    return 0
