"""`python -m benchmarks NAME` measures and writes results/NAME.json; `tables` fills the tables of the documents."""

import sys
from pathlib import Path

from jsonargparse import ArgumentParser

from benchmarks.band_factors import write as write_factors
from benchmarks.darcy import BUDGETS
from benchmarks.record import read_record
from benchmarks.run import CAMPAIGNS, MEASUREMENTS
from benchmarks.run import run as measure
from benchmarks.run import run_campaign as measure_campaign
from benchmarks.tables.fill import documents_below, fill
from benchmarks.tables.render import render
from nipde.cli.terminal import say
from nipde.errors import NipdeError


def run(words: list[str]) -> int:
    """Run one measurement, one campaign, or the tables."""
    lines = [f"{name}: {what}." for name, what in MEASUREMENTS.items()]
    lines += [f"{name}: {what}, within a --budget; resumable." for name, what in CAMPAIGNS.items()]
    options = ArgumentParser(
        prog="python -m benchmarks", description="Measure, and write a record to results/. " + " ".join(lines)
    )
    options.add_argument(
        "name",
        type=str,
        help="one of these; `tables` to refresh the tables of README and docs; "
        "`band-factors` to calibrate the bands of output error by the campaigns `reference`, `specimens` and `tension`",
    )
    options.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    options.add_argument("--quick", action="store_true", help="a short version of the measurement")
    options.add_argument(
        "--budget", type=str, default="", help=f"of `darcy` and `solids`: {', '.join(BUDGETS)}; quick if not given"
    )
    options.add_argument("--work", type=Path, default=Path("runs"), help="of these: folder of data and runs")
    options.add_argument("--cases", type=list[str], default=[], help="of these: only these, e.g. [21-nips-2]")
    options.add_argument("--workers", type=int, default=2, help="of these: runs at a time, one thread each")
    options.add_argument(
        "--data",
        type=Path,
        default=None,
        help="of `steel-plate`, `tank`, `tank-learned`, `pumping` and `others`: folder of the published data",
    )
    options.add_argument(
        "--environments", type=Path, default=None, help="of `others`: folder with an environment of every package"
    )
    options.add_argument("--finished", action="store_true", help="of `others`: record what is on file, start nothing")
    options.add_argument("--against", type=Path, default=None, help="of `imports`: folder of another source tree")
    options.add_argument("--check", action="store_true", help="with `tables`: fail if a table is not current")
    chosen = options.parse_args(words)
    if chosen.name == "band-factors":
        records = [f"{name}-{chosen.budget or 'standard'}" for name in ("reference", "specimens", "tension")]
        path = write_factors(chosen.results, records)
        say(f"written: {path}")
        return 0
    if chosen.name not in CAMPAIGNS and chosen.budget:
        raise NipdeError(
            expected=f"--budget with {' or '.join(CAMPAIGNS)}", got=f"with {chosen.name}", remedy="others know --quick"
        )
    if chosen.name in ("tables", "table"):
        changed = fill(documents_below(chosen.results.parent), results=chosen.results, check=chosen.check)
        say(f"refreshed: {', '.join(map(str, changed))}" if changed else "all tables are current")
    elif chosen.name in CAMPAIGNS:
        path = measure_campaign(
            chosen.name, chosen.budget or "quick",
            results=chosen.results, work=chosen.work, only=chosen.cases, workers=chosen.workers,
            progress=lambda finished: print(finished, file=sys.stderr),
        )  # fmt: skip
        say(render(read_record(chosen.results, path.stem)))
        say(f"written: {path}")
    else:
        given = {"against": chosen.against, "data": chosen.data, "environments": chosen.environments,
                 "finished": chosen.finished or None}  # fmt: skip
        more = {name: value for name, value in given.items() if value is not None}
        path = measure(chosen.name, results=chosen.results, quick=chosen.quick, **more)
        say(render(read_record(chosen.results, chosen.name)))
        say(f"written: {path}")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(run(sys.argv[1:]))
    except NipdeError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
