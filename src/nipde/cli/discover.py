"""`nipde discover FILE`: from a file of measurements to what is inside, in a folder with a page to look at."""

from pathlib import Path

from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.terminal import check_folder, one_thread, parser, progress, say
from nipde.cli.weights import add_weights
from nipde.discovery.discover import discover
from nipde.discovery.rivals import RIVALS
from nipde.report.files import save
from nipde.training.pretrained import load


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("discover", "Find what is inside a specimen from measured loads and responses.")
    add_measurement(options)
    add_weights(options, material=True)
    options.add_argument("--out", type=Path, required=True, help="folder for fields, kernel, predictor, summary, page")
    options.add_argument("--phases", type=int, default=2, help="how many materials to tell apart")
    options.add_argument(
        "--sharp", type=bool | None, default=None, help="whether b is even but for jumps; held-out pairs tell without"
    )
    options.add_argument("--level", type=float, default=0.9, help="share of true values within the bands on b")
    options.add_argument("--classical", type=bool, default=True, help="whether to invert by classical methods beside")
    options.add_argument("--dense", type=bool, default=False, help="whether to store every value of the kernel")
    chosen = options.parse_args(words)
    check_folder(chosen.out)
    one_thread()
    measurement = measurement_of(chosen)
    say(measurement.interpretation())
    model = load(chosen.weights)
    rivals = tuple(RIVALS) if chosen.classical else ()
    with progress("discovering", 4 + len(rivals)) as advance:
        found = discover(
            measurement, model, phases=chosen.phases, sharp=chosen.sharp, level=chosen.level, rivals=rivals,
            progress=lambda doing: advance(1),
        )  # fmt: skip
    say("")
    for sentence in found.verdict:
        say(sentence)
    folder = save(found, chosen.out, dense=chosen.dense)
    say(f"written: {folder}; open {folder / 'report.html'}")
    return 0
