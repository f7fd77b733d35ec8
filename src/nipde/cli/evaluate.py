"""`nipde evaluate ESTIMATOR --data ARCHIVE`: errors over the test systems of an archive, with confidence intervals."""

import json
from dataclasses import astuple
from typing import Literal

from jsonargparse import ArgumentParser, Namespace
from rich.table import Table

from nipde import __version__
from nipde.cli.arguments import add_device, add_storage_options, address, new_file, non_negative, parser, whole
from nipde.cli.estimators import described, estimator_of, on_device
from nipde.cli.terminal import one_thread, progress, say, written
from nipde.data.archive import open_archive
from nipde.errors import UsageError
from nipde.estimators.registry import FITTED, names
from nipde.evaluation.evaluate import Evaluation, Mean, evaluate
from nipde.evaluation.named import is_fitted
from nipde.evaluation.protocol import USUAL, usual_context
from nipde.evaluation.specimens import evaluate_specimens

#: Rows of the table: key of the result, and its title.
ROWS = {
    "held_out": "held-out loads", "worst_decile": "  worst tenth of the systems",
    "held_out_interior": "  interior nodes", "held_out_edge": "  nodes next to the boundary",
    "in_context": "loads of the context", "kernel": "kernel", "microstructure": "coefficient",
    "phase_accuracy": "phase accuracy", "phase_accuracy_inside": "  interior nodes",
    "phase_accuracy_edge": "  nodes next to the boundary",
}  # fmt: skip


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = _options().parse_args(words)
    one_thread()
    archive = open_archive(options.data, options=options.storage_options)
    training = archive
    if options.training_data:
        training = open_archive(options.training_data, options=options.storage_options)
    estimator = on_device(estimator_of(options.what, archive, training=training), options.device)
    count = len(archive.indices(options.part)[: options.systems])
    pairs = options.pairs or usual_context(archive, loads=options.loads)
    common = {
        "part": options.part, "context": pairs, "noise": options.noise, "systems": options.systems, "seed": options.seed
    }  # fmt: skip
    with progress(f"{options.what}, {pairs} pairs", count) as advance:
        if archive.plan.recipe.on_shapes:
            _refuse(options, "load_noise", "no_inversion", otherwise="systems that fill their box")
            result = evaluate_specimens(estimator, archive, sensors=options.sensors, progress=advance, **common)
        else:
            _refuse(options, "sensors", otherwise="specimens of darcy-shapes")
            result = evaluate(
                estimator, archive, load_noise=options.load_noise, loads=options.loads,
                inversion=not options.no_inversion, progress=advance, **common,
            )  # fmt: skip
    say(_table(result))
    say(
        f"{result.systems} {result.part} system{'s' * (result.systems > 1)}, "
        f"{result.pairs} pairs each, {result.queries} loads held out, "
        f"noise {100 * result.noise:g} % on responses, {100 * result.load_noise:g} % on loads, "
        f"{result.seconds_per_system:.2g} s per estimate"
    )
    if result.microstructure_failed:
        say(f"no coefficient identified for {result.microstructure_failed} systems: left out of its error")
    if options.json:
        provenance = {
            "command": f"nipde evaluate {' '.join(words)}", "nipde": __version__, "estimator": options.what,
            "training_archive": training.digest if options.what in names() and is_fitted(options.what) else None,
        }  # fmt: skip
        with written(options.json) as partial:
            partial.write_text(json.dumps({**provenance, **result.to_dict()}, indent=1) + "\n")
    return 0


def _refuse(options: Namespace, *names: str, otherwise: str) -> None:
    """Options that this archive has no use for."""
    for name in names:
        if options[name]:
            raise UsageError(
                expected=f"no --{name.replace('_', '-')} here", got=options[name], remedy=f"it is for {otherwise}"
            )


def _options() -> ArgumentParser:
    options = parser(
        "evaluate", "Relative errors of an estimator over the test systems: predictions, kernel, coefficient.",
        example="darcy-two-phase --data darcy21 --pairs 20 --noise 0.01 --json result.json",
    )  # fmt: skip
    options.add_argument("what", type=str, help=described())
    options.add_argument("--data", type=address, required=True, help="archive with the test systems")
    options.add_argument(
        "--pairs", type=whole(), default=None,
        help=f"pairs of each context; default {USUAL}, or half of the archive's if fewer",
    )  # fmt: skip
    options.add_argument(
        "--noise",
        type=non_negative,
        default=0.0,
        help="white noise on the context's responses, as a share of their rms",
    )
    options.add_argument(
        "--sensors", type=whole(), default=None,
        help="of specimens with an outline: number of nodes inside that are measured, at random; default all",
    )  # fmt: skip
    options.add_argument("--load-noise", type=non_negative, default=0.0, help="the same on the context's loads")
    options.add_argument(
        "--part",
        type=Literal["test", "validation", "train"],
        default="test",
        help="which systems: test, validation or train",
    )
    options.add_argument("--systems", type=whole(), default=None, help="number of systems, at most")
    options.add_argument("--seed", type=whole(0), default=0, help="seed of contexts and noise")
    options.add_argument(
        "--loads", type=Literal["test", "validation", "train"], default="test",
        help="where systems share their loads: those of the context; train as in the paper",
    )  # fmt: skip
    options.add_argument(
        "--training-data",
        type=address,
        default=None,
        help=f"archive that {' and '.join(FITTED)} learn from; else --data",
    )
    options.add_argument("--no-inversion", action="store_true", help="do not identify the coefficient: much faster")
    options.add_argument("--json", type=new_file(), default=None, help="file to write all numbers to")
    add_device(options)
    add_storage_options(options)
    return options


def _table(result: Evaluation) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("relative errors, %")
    for name in ("mean", "90 % interval", "spread"):
        table.add_column(name, justify="right")
    for key, title in ROWS.items():
        measure: Mean | None = getattr(result, key)
        if measure is not None:
            mean, low, high, spread = (f"{100 * number:.3g}" for number in astuple(measure))
            table.add_row(title, mean, f"{low} to {high}", spread)
    return table
