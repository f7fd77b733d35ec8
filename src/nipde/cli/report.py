"""`nipde report FILE`: the page of a measurement alone."""

from pathlib import Path

from nipde.cli.measurement import add_measurement, measurement_of
from nipde.cli.terminal import check_file, one_thread, parser, progress, say
from nipde.cli.weights import add_weights
from nipde.discovery.discover import discover
from nipde.discovery.rivals import RIVALS
from nipde.report.page.page import page
from nipde.training.pretrained import load


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("report", "Write one self-contained page on what a measurement says is inside.")
    add_measurement(options)
    add_weights(options, material=True)
    options.add_argument("--out", type=Path, default=Path("report.html"), help="page to write")
    options.add_argument("--phases", type=int, default=2, help="how many materials to tell apart")
    chosen = options.parse_args(words)
    check_file(chosen.out)
    one_thread()
    measurement = measurement_of(chosen)
    say(measurement.interpretation())
    with progress("discovering", 4 + len(RIVALS)) as advance:
        found = discover(measurement, load(chosen.weights), phases=chosen.phases, progress=lambda doing: advance(1))
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(page(found), encoding="utf-8")
    say(f"written: {chosen.out}, {chosen.out.stat().st_size / 1e6:.1f} MB")
    return 0
