"""`nipde evaluate WHAT --data PATH`: errors of an estimator over an archive's test systems, with intervals."""

import json
from pathlib import Path
from typing import Any, Literal

from jsonargparse import ArgumentParser
from rich.table import Table

from nipde import __version__
from nipde.cli.estimators import described, estimator_of
from nipde.cli.terminal import add_storage_options, check_file, one_thread, parser, progress, say
from nipde.data.archive import open as open_archive
from nipde.evaluation.evaluate import evaluate
from nipde.evaluation.named import FITTED
from nipde.evaluation.protocol import USUAL, usual_context

#: Rows of the table: key of the result, and what a person calls it.
ROWS = {
    "held_out": "held-out loads", "worst_decile": "  worst tenth of the systems", "held_out_interior": "  inside",
    "held_out_edge": "  next to the boundary", "in_context": "loads of the context", "kernel": "kernel",
    "microstructure": "microstructure", "phase_accuracy": "phase accuracy", "phase_accuracy_inside": "  inside",
    "phase_accuracy_edge": "  next to the boundary",
}  # fmt: skip


def run(words: list[str]) -> int:
    """Entry of the verb."""
    chosen = _options().parse_args(words)
    if chosen.json:
        check_file(chosen.json, option="--json")
    one_thread()
    archive = open_archive(chosen.data, options=chosen.storage_options)
    training = open_archive(chosen.training_data, options=chosen.storage_options) if chosen.training_data else archive
    estimator = estimator_of(chosen.what, archive, training=training)
    count = len(archive.indices(chosen.part)[: chosen.systems])
    pairs = chosen.pairs or usual_context(archive, loads=chosen.loads)
    with progress(f"{chosen.what}, {pairs} pairs", count) as advance:
        found = evaluate(
            estimator,
            archive,
            part=chosen.part,
            context=pairs,
            noise=chosen.noise,
            load_noise=chosen.load_noise,
            systems=chosen.systems,
            seed=chosen.seed,
            loads=chosen.loads,
            inversion=not chosen.no_inversion,
            progress=advance,
        )
    say(_table(found))
    systems = f"{found['systems']} {found['part']} system{'s' * (found['systems'] > 1)}"
    say(
        f"{systems}, {found['pairs']} pairs each, {found['queries']} loads held out, "
        f"noise {100 * found['noise']:g} % on responses, {100 * found['load_noise']:g} % on loads, "
        f"{found['seconds_per_system']:.2g} s per estimate"
    )
    if found["microstructure_failed"]:
        say(f"no law is near the kernels of {found['microstructure_failed']} systems: their microstructure is left out")
    if chosen.json:
        provenance = {
            "command": f"nipde evaluate {' '.join(words)}", "nipde": __version__, "estimator": chosen.what,
            "training_archive": training.digest if chosen.what in FITTED else None,
        }  # fmt: skip
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps({**provenance, **found}, indent=1) + "\n")
        say(f"written: {chosen.json}")
    return 0


def _options() -> ArgumentParser:
    options = parser("evaluate", "Measure an estimator over test systems: relative errors, and the truth behind them.")
    options.add_argument("what", type=str, help=described())
    options.add_argument("--data", type=str, required=True, help="the archive to test on")
    options.add_argument(
        "--pairs", type=int | None, default=None, help=f"pairs of a context; {USUAL}, or half of the archive's if fewer"
    )
    options.add_argument(
        "--noise", type=float, default=0.0, help="white noise on the context's responses, as a share of their rms"
    )
    options.add_argument("--load-noise", type=float, default=0.0, help="the same on the context's loads")
    options.add_argument("--part", type=str, default="test", help="which systems: test, validation or train")
    options.add_argument("--systems", type=int | None, default=None, help="only the first of them")
    options.add_argument("--seed", type=int, default=0, help="seed of contexts and noise")
    options.add_argument(
        "--loads", type=Literal["test", "validation", "train"], default="test",
        help="where systems share their loads: unseen ones throughout, or as in the paper a context of training loads",
    )  # fmt: skip
    options.add_argument(
        "--training-data", type=str, default="", help=f"archive that {' and '.join(FITTED)} learn from; else --data"
    )
    options.add_argument("--no-inversion", action="store_true", help="do not look for the microstructure: much faster")
    options.add_argument("--json", type=Path | None, default=None, help="file to write all numbers to")
    add_storage_options(options)
    return options


def _table(found: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("relative errors, %")
    for name in ("mean", "90 % interval", "spread"):
        table.add_column(name, justify="right")
    for key, title in ROWS.items():
        if found[key] is not None:
            mean, low, high, spread = (f"{100 * found[key][part]:.3g}" for part in ("mean", "low", "high", "spread"))
            table.add_row(title, mean, f"{low} to {high}", spread)
    return table
