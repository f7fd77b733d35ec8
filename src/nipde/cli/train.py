"""`nipde train CASE`: pairs of many systems in, the weights of an estimator out; stops and goes on at any moment."""

import json
import sys
import time
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from nipde.cli.arguments import add_storage_options, device, new_folder, non_negative, parser, whole
from nipde.cli.terminal import say
from nipde.context.sampling import places_of
from nipde.data.archive import open_archive
from nipde.errors import StoppedEarly, TrainingError, meant
from nipde.training.fit import fit
from nipde.training.loop import Callback, Report
from nipde.training.processes import check_mesh, exit_code, launch, launched
from nipde.training.recipe import CASES, ModelRecipe, TrainingRecipe
from nipde.training.run import RECIPE, Run, refusal


def run(words: list[str]) -> int:
    """Entry of the verb."""
    arguments = _parser().parse_args(words)
    recipe = _recipe(arguments)
    if arguments.devices > 1 and not launched():
        if (Path(arguments.out) / RECIPE).exists() and not arguments.resume:
            raise refusal(Path(arguments.out))  # once, instead of in every process
        check_mesh(arguments.devices, space=arguments.space, model=recipe.model)
        places_of(recipe.batch, rank=0, ranks=arguments.devices // arguments.space * recipe.parts)
        return launch("nipde.cli", ["train", *words], processes=arguments.devices, restarts=arguments.restarts)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    archives = [open_archive(address, options=arguments.storage_options) for address in arguments.data]
    bars = [_Bar(recipe)] if Console(stderr=True).is_terminal else []
    try:
        with warnings.catch_warnings(action="ignore", category=StoppedEarly):  # said below
            ended = fit(
                recipe, archives, arguments.out, resume=arguments.resume, save_seconds=arguments.save_seconds,
                log_every=arguments.log_every, tensorboard=not arguments.no_tensorboard, space=arguments.space,
                callbacks=bars, device=arguments.device or None,
            )  # fmt: skip
    finally:
        for shown in bars:
            shown.bar.stop()  # also after a failure, which is said below it
    if ended.group.rank:
        return exit_code(ended.stopped_by)
    for note in ended.notes:
        print(f"note: {note}", file=sys.stderr)
    if ended.stopped_by:
        say(f"stopped after step {ended.step}, all is saved; the same command with --resume goes on")
        return exit_code(ended.stopped_by)
    say(f"{ended.step} steps, {ended.seconds:.0f} s; best held-out error on validation systems "
        f"{100 * ended.best:.3g} % at step {ended.best_step}; weights in {arguments.out}")  # fmt: skip
    return 0


def _parser() -> ArgumentParser:
    options = parser(
        "train",
        "Train an estimator on the training systems of an archive; weights are selected by validation systems only. "
        "Ctrl-C, SIGTERM and SIGUSR1 save and stop; --resume goes on, bit by bit as if nothing had happened. "
        f"Cases: {', '.join(CASES)}; or a recipe.json of an earlier run.",
    )
    options.add_argument("case", type=str, help="a case, or the file of a recipe")
    options.add_argument(
        "--data", type=str, action="append", required=True,
        help="folder of the archive, or an address; several, each after a --data of its own, are learned together",
    )  # fmt: skip
    options.add_argument(
        "--out", type=new_folder, required=True, help="folder of the run: recipe, weights, state, logs"
    )
    options.add_argument("--devices", type=whole(), default=1, help="processes to share a batch, one per device")
    options.add_argument(
        "--space", type=whole(), default=1,
        help="of these, processes that share the rows of every grid (nips, nips-mlp, gated priors); "
        "the others share the batch",
    )  # fmt: skip
    options.add_argument(
        "--device", type=device, default="",
        help="where to compute, such as cpu or cuda:1; CUDA by default if there is one",
    )  # fmt: skip
    options.add_argument("--restarts", type=whole(0), default=3, help="with --devices: restarts after a process died")
    options.add_argument("--resume", action="store_true", help="go on from what is in --out, if anything is")
    options.add_argument("--save-seconds", type=non_negative, default=60.0, help="time between two saves of the state")
    options.add_argument("--log-every", type=whole(), default=20, help="steps between two rows of the log")
    options.add_argument("--threads", type=whole(0), default=0, help="threads per process; torch chooses if 0")
    options.add_argument("--no-tensorboard", action="store_true", help="write log.csv only")
    add_storage_options(options)
    for recipe, what in ((TrainingRecipe, "how it is trained"), (ModelRecipe, "what is trained")):
        group = options.add_argument_group(f"{what}; the case decides what is not given")
        for field in fields(recipe):
            if "help" in field.metadata:
                group.add_argument(
                    f"--{field.name.replace('_', '-')}", type=field.type | None, default=None,  # type: ignore[operator]
                    help=field.metadata["help"],
                )  # fmt: skip
    return options


def _recipe(arguments: Namespace) -> TrainingRecipe:
    if arguments.case in CASES:
        recipe = CASES[arguments.case]
    elif Path(arguments.case).is_file():
        recipe = _recipe_in(Path(arguments.case))
    else:
        raise TrainingError(
            expected=f"a case among {', '.join(CASES)}, or the file of a recipe", got=arguments.case,
            remedy=meant(arguments.case, CASES, otherwise="see nipde train --help"),
        )  # fmt: skip
    names = [field.name for kind in (TrainingRecipe, ModelRecipe) for field in fields(kind) if field.name != "model"]
    given: dict[str, Any] = {name: arguments[name] for name in names if arguments[name] is not None}
    # One length of a run replaces the other.
    if "steps" in given:
        given.setdefault("minutes", None)
    elif "minutes" in given:
        given["steps"] = None
    return recipe.with_options(given)


def _recipe_in(file: Path) -> TrainingRecipe:
    try:
        record = json.loads(file.read_text())["recipe"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TrainingError(f"{file} is no recipe", expected="the recipe.json of a run", got=str(error)) from error
    return TrainingRecipe.from_dict(record)


class _Bar(Callback):
    """Loss, held-out error, samples per second and time left, on a terminal."""

    def __init__(self, recipe: TrainingRecipe) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"),
                   TimeRemainingColumn())  # fmt: skip
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.batch, self.loss, self.since = recipe.batch, 0.0, (0, 0.0)

    def started(self, run: Run) -> None:
        """Show the bar."""
        self.since = run.step, time.monotonic()
        self.row = self.bar.add_task("", total=1.0)
        self.bar.start()

    def stepped(self, run: Run, report: Report) -> None:
        """New figures."""
        self.loss = report.loss if not self.loss else 0.95 * self.loss + 0.05 * report.loss
        rate = self.batch * (report.step - self.since[0]) / (time.monotonic() - self.since[1])
        held_out = f"{100 * run.best:.2f} %" if run.best_step else "–"  # until the first validation
        text = f"step {report.step:,}  loss {100 * self.loss:.2f} %  held out {held_out}  {rate:.0f}/s"
        self.bar.update(self.row, completed=run.progress, description=text)

    def ended(self, run: Run) -> None:
        """Take it away."""
        self.bar.stop()
