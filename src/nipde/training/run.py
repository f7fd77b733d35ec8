"""The state of a run: what a checkpoint holds, and everything needed to take the next step."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nipde.data.archive import Archive, open_archive
from nipde.errors import CheckpointError, TrainingError
from nipde.records import dataclass_from_json, from_json, reading
from nipde.training.processes import Group
from nipde.training.recipe import TrainingRecipe
from nipde.training.task import Task, task_of
from nipde.weights import checkpoint
from nipde.weights.checkpoint import MOST_HEADER, open_regular
from nipde.weights.models import BEST, LAST, read, record_of, tensors_of
from nipde.weights.models import card as card_of

#: An archive, or where it is.
One = Archive | str | os.PathLike[str]
RECIPE = "recipe.json"


@dataclass(frozen=True)
class Validated:
    """Means over validation systems of the mean relative error."""

    held_out: float
    in_context: float


@dataclass(frozen=True)
class Begun:
    """recipe.json: what a run was begun with, and by which torchrun."""

    recipe: TrainingRecipe
    data: str
    torchrun: str | None = None

    @classmethod
    def read(cls, folder: Path) -> "Begun":
        """Of a run's folder."""
        path = folder / RECIPE
        with (
            reading(f"{path} is damaged", CheckpointError, expected="the recipe of a run"),
            open_regular(path, most=MOST_HEADER) as file,
        ):
            return dataclass_from_json(json.loads(file.read()), cls, name=RECIPE)


@dataclass
class Run:
    """Weights, optimiser and counters after `step` steps; there is no generator whose state would matter."""

    recipe: TrainingRecipe
    archives: tuple[Archive, ...]
    group: Group
    task: Task
    optimiser: torch.optim.Adam
    step: int = 0
    #: Time spent so far on the recipe's clock, over all sittings.
    seconds: float = 0.0
    #: Time that the weights it started from had been trained.
    seconds_before: float = 0.0
    best: float = float("inf")
    best_step: int = 0
    #: Signal that this process has received, and the one by which all processes agree to stop.
    pending_signal: int = 0
    stopped_by: int = 0
    #: A warning for the person who continues the run, if there is one.
    notes: list[str] = field(default_factory=list)

    @classmethod
    def fresh(cls, recipe: TrainingRecipe, data: Archive | Sequence[Archive], group: Group) -> "Run":
        """Before the first step."""
        archives = gathered(data)
        task = task_of(recipe, archives[0], group).to(group.device)
        optimiser = torch.optim.Adam(
            task.parameters(), lr=recipe.learning_rate, betas=(0.9, recipe.second_moment),
            weight_decay=recipe.weight_decay, fused=True,
        )  # fmt: skip
        before = 0.0 if recipe.start is None else _trained_seconds(card_of(recipe.start))
        return cls(recipe, archives, group, task, optimiser, seconds_before=before)

    @property
    def archive(self) -> Archive:
        """The first archive, or the only one."""
        return self.archives[0]

    @property
    def progress(self) -> float:
        """How much of the run is done."""
        return self.recipe.progress(self.step, self.seconds)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything a later process needs to go on, bit by bit as if nothing had happened."""
        tensors = tensors_of(self.task.model)
        moments = self.optimiser.state_dict()["state"]
        for place, (name, _) in enumerate(self.task.model.named_parameters()):
            for kind, value in moments.get(place, {}).items():
                tensors[f"optimiser.{kind}.{name}"] = value
        counters = {"best": self.best, "best_step": self.best_step, "environment": self.environment()}
        return tensors, {**self.card(), **counters}

    def restore(self, path: Path) -> None:
        """Take over the state in a file."""
        tensors, record = read(path)
        with reading(f"{path} is no state of this run", CheckpointError, expected="a state"):
            counters = [record[name] for name in ("step", "seconds", "best", "best_step", "environment")]
            names = [name for name, _ in self.task.model.named_parameters()]
            moments: dict[int, dict[str, Tensor]] = {}
            for key, value in _under(tensors, "optimiser.").items():
                kind, name = key.split(".", 1)
                moments.setdefault(names.index(name), {})[kind] = value
            groups = self.optimiser.state_dict()["param_groups"]
            self.task.model.load_state_dict(_under(tensors, "model."))
            self.optimiser.load_state_dict({"state": moments, "param_groups": groups})
            for parameter, kept in self.optimiser.state.items():
                if [kept[name].shape for name in ("step", "exp_avg", "exp_avg_sq")] != [(), *[parameter.shape] * 2]:
                    raise ValueError("moments of another shape")
        self.step, self.seconds, self.best, self.best_step, environment = counters
        if environment != self.environment():
            self.notes.append(
                f"continued with {self.environment()} what began with {environment}: "
                "sums may round differently, so the result is not bitwise that of an undisturbed run"
            )

    def environment(self) -> dict[str, Any]:
        """What bitwise repetition depends on."""
        return {
            "torch": torch.__version__,
            "processes": self.group.ranks,
            **({"space": self.group.space} if self.group.space > 1 else {}),
            "threads": torch.get_num_threads(),
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "machine": platform.machine(),
        }

    def card(self) -> dict[str, Any]:
        """What weights are, without which they are only numbers."""
        return {
            **record_of(self.task.model),
            "recipe": self.recipe.to_dict(),
            "grid": self.archive.grid.to_dict(),
            "data": digest_of(self.archives),
            "step": self.step,
            "seconds": self.seconds,
            "seconds_before": self.seconds_before,
        }


def _trained_seconds(record: dict[str, Any]) -> float:
    """How long weights have been trained in all, by the record of a run or of published weights."""
    training = record.get("training", record)
    return float(training.get("seconds", 0.0)) + float(training.get("seconds_before", 0.0))


def gathered(data: One | Sequence[One]) -> tuple[Archive, ...]:
    """All archives, opened; raises unless their fields have as many components and axes."""
    given = [data] if isinstance(data, Archive | str | os.PathLike) else list(data)
    if not given:
        raise TrainingError(expected="at least one archive", got="none", remedy="say what to learn from")
    archives = tuple(one if isinstance(one, Archive) else open_archive(one) for one in given)
    for other in archives[1:]:
        if _kind(other) != _kind(archives[0]):
            raise TrainingError(
                "archives do not go together", expected=f"{_kind(archives[0])} as in {archives[0].storage.address}",
                got=f"{_kind(other)} in {other.storage.address}", remedy="train on them one by one",
            )  # fmt: skip
    return archives


def digest_of(archives: Sequence[Archive]) -> str:
    """The digest of one archive; those of several, in order."""
    return "+".join(archive.digest for archive in archives)


def opened(
    folder: Path, recipe: TrainingRecipe, data: Archive | Sequence[Archive], group: Group, *, resume: bool
) -> Run:
    """A run in its folder: new, or from its last checkpoint."""
    kept = folder / RECIPE
    # All processes look before the first one writes.
    (exists,) = group.sum(float(kept.exists()))
    if exists and not resume:
        raise refusal(folder)
    run = Run.fresh(recipe, data, group)
    if exists:
        _check_same(Begun.read(folder), recipe, digest_of(run.archives))
    if (folder / LAST).exists() and resume:
        run.restore(folder / LAST)
        if (folder / BEST).exists():  # saved after the state, by a sitting that was killed then
            card = read(folder / BEST)[1]
            look = from_json(card.get("validation"), Validated, name=f"validation of {folder / BEST}")
            run.best, run.best_step = min((run.best, run.best_step), (look.held_out, card["step"]))
    return run


def begin(folder: Path, run: Run) -> None:
    """Leave the recipe in the folder; from here on it holds a run."""
    if run.group.rank == 0 and not (folder / RECIPE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        record = {"recipe": run.recipe.to_dict(), "data": digest_of(run.archives), "torchrun": _torchrun()}
        checkpoint.write(folder / RECIPE, (json.dumps(record, indent=1) + "\n").encode())


def restarted(folder: Path) -> bool:
    """Whether the torchrun that began the run in this folder has started this process again."""
    if not int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) or not (folder / RECIPE).exists():
        return False
    return Begun.read(folder).torchrun == _torchrun()


def _torchrun() -> str | None:
    return os.environ.get("TORCHELASTIC_RUN_ID")


def refusal(folder: Path) -> TrainingError:
    """What is said to one who would write over a run."""
    remedy = "--resume it, or choose another --out"
    return TrainingError(expected="a folder without a run", got=f"one in {folder}", remedy=remedy)


def _check_same(kept: Begun, recipe: TrainingRecipe, digest: str) -> None:
    if kept.data != digest:
        expected, got = ("+".join(one[:16] for one in each.split("+")) for each in (kept.data, digest))
        raise TrainingError("the run was begun on other data", expected=expected, got=got)
    # A run that was begun before an option was known has its default.
    before, now = kept.recipe.to_dict(), recipe.to_dict()
    changed = [name for name in now if before[name] != now[name]]
    if changed:
        raise TrainingError(
            "the run was begun with another recipe",
            expected=", ".join(f"{name}={before[name]}" for name in changed),
            got=", ".join(f"{name}={now[name]}" for name in changed),
            remedy="give the same options as at first, or choose another --out",
        )


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _kind(archive: Archive) -> str:
    load, response = (len(quantity.components) for quantity in (archive.quantities.load, archive.quantities.response))
    return f"{archive.grid.dimension} axes, {load} component(s) of a load, {response} of a response"
