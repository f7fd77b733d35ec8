"""`nipde bench NAME`: measure and write results/NAME.json; `nipde bench tables`: put results into the documents."""

from pathlib import Path

from nipde.benchmarks.record import read_record
from nipde.benchmarks.run import MEASUREMENTS
from nipde.benchmarks.run import run as measure
from nipde.benchmarks.tables import documents_below, fill, render
from nipde.cli.terminal import parser, say


def run(words: list[str]) -> int:
    """Entry of the verb."""
    lines = [f"{name}: {what}." for name, what in MEASUREMENTS.items()]
    options = parser("bench", "Measure, and write a record to results/. " + " ".join(lines))
    options.add_argument("name", type=str, help="a measurement, or `tables` to refresh the tables of README and docs")
    options.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    options.add_argument("--quick", action="store_true", help="a short version of the measurement")
    options.add_argument("--check", action="store_true", help="with `tables`: fail if a table is not current")
    chosen = options.parse_args(words)
    if chosen.name == "tables":
        changed = fill(documents_below(chosen.results.parent), results=chosen.results, check=chosen.check)
        say(f"refreshed: {', '.join(map(str, changed))}" if changed else "all tables are current")
    else:
        path = measure(chosen.name, results=chosen.results, quick=chosen.quick)
        say(render(read_record(chosen.results, chosen.name)))
        say(f"written: {path}")
    return 0
