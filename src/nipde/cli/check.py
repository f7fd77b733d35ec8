"""`nipde check FILE`: how a file of measurements is understood, and nothing more."""

from nipde.cli.arguments import PICTURES, new_file, parser
from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.terminal import say, written
from nipde.measurements.sandbox import sandbox
from nipde.report.measurement_figure import measurement_figure

ABOUT = (
    "Say how a file of measured loads and responses is understood, and stop: which columns are position, load and "
    "response, the units, the grid, the range of the values, the share of gaps, the noise. A line that begins with "
    "WARNING names something to look at before `nipde discover FILE`. Nothing is computed; --out writes a picture "
    "of what was understood. "
    "Exit code 0: the file can be read. Exit code 2: it cannot, and the message says what to change."
)
EXAMPLE = (
    "example: heads of pumping tests in a table with the columns pair, x, y, rate, head: "
    "nipde check heads.csv --load rate --response head --units x=m,load=m/d,response=m"
)


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("check", ABOUT)
    options.epilog = EXAMPLE
    add_measurement(options)
    options.add_argument("--out", type=new_file(*PICTURES), default=None, help="picture to write: png, svg or pdf")
    given = options.parse_args(words)
    measurement = measurement_of(given)
    say(measurement.interpretation())
    if given.out is not None:
        figure = measurement_figure(measurement)
        with written(given.out) as partial:
            figure.savefig(partial, format=given.out.suffix[1:], dpi=130)
    means = " and ".join(sandbox().confined) or "nothing but limits on time and memory on this system"
    say(f"The parser of the file was confined by {means}.")
    return 0
