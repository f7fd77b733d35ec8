"""Small archives, made once, and runs that take a second."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.estimators.base import Model
from nipde.estimators.conditioned.conditioned_nips import ConditionedConfig
from nipde.training.feed import Source
from nipde.training.loop import Callback
from nipde.training.recipe import ModelRecipe, TrainingRecipe
from nipde.weights import checkpoint
from nipde.weights.models import BEST, LAST

RECIPES = {
    "own": DarcyRecipe(nodes=9, pairs=14),
    "shared": DarcyRecipe(nodes=9, pairs=30, shared_loads=True),
    "other": DarcyRecipe(nodes=9, pairs=14, load_alpha=2.0),
    "finer": DarcyRecipe(nodes=11, pairs=16),
}
#: Options of the same recipe on the command line.
WORDS = ["nips-2", "--channels=6", "--context=8", "--batch=4", "--warmup=5", "--validate-every=5", "--threads=1"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Archives: loads of their own, shared loads, another law, another grid; 8 systems to train on, 4 to validate."""
    path = tmp_path_factory.mktemp("archives")
    for name, recipe in RECIPES.items():
        generate(Plan(recipe, systems=16, seed=5, split=(0.5, 0.25, 0.25)), path / name, workers=1)
    return path


@pytest.fixture(scope="session")
def archives(folder):
    return {name: open_archive(folder / name) for name in RECIPES}


@pytest.fixture(scope="session")
def own(archives):
    return archives["own"]


@pytest.fixture(scope="session")
def shared(archives):
    return archives["shared"]


@pytest.fixture(scope="session")
def words() -> list[str]:
    return WORDS


@pytest.fixture(autouse=True)
def one_thread():
    """Sums are rounded the same way in every process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small():
    """A recipe of a kind, with options changed."""

    def made(kind: str = "nips", **options) -> TrainingRecipe:
        recipe = TrainingRecipe(
            ModelRecipe(kind, layers=2, channels=6), context=8, batch=4, steps=20, warmup=5, validate_every=5,
            learning_rate=5e-2,
        )  # fmt: skip
        return recipe.with_options(options) if options else replace(recipe)

    return made


@pytest.fixture(scope="session")
def end_of():
    """What a run left on disk, but for the time it took: tensors and counters of its state and best weights."""

    def read(path: Path) -> dict[str, dict]:
        found = {}
        for name in (LAST, BEST):
            tensors, record = checkpoint.load(path / name)
            bits = {
                key: (str(value.dtype), tuple(value.shape), value.numpy().tobytes()) for key, value in tensors.items()
            }
            found[name] = bits | {key: value for key, value in record.items() if key not in ("seconds", "environment")}
        return found

    return read


class StopAfter(Callback):
    """Asks for an end as a signal does, so that `step` is the last one."""

    def __init__(self, step: int) -> None:
        self.step = step

    def started(self, run) -> None:
        self.stepped(run, run)
        if run.step == self.step:
            run.stopped_by = 15

    def stepped(self, run, report) -> None:
        if report.step == self.step - 1:
            run.pending_signal = 15


@pytest.fixture(scope="session")
def stop_after():
    return StopAfter


@pytest.fixture
def spoil(monkeypatch):
    """Makes the responses of one system, by its index in the archive, not a number wherever they are read."""

    def spoiled(system: int) -> None:
        read = Source._read

        def with_one_bad(self, systems):
            loads, responses = read(self, systems)
            responses[torch.as_tensor(self.systems[systems] == system)] = float("nan")
            return loads, responses

        monkeypatch.setattr(Source, "_read", with_one_bad)

    return spoiled


@dataclass(frozen=True)
class Proportional:
    """Answers a load with a multiple of itself; its prior knows of one part of it."""

    prior: torch.Tensor
    rest: torch.Tensor

    def predict(self, loads):
        return self.predict_with_prior(loads)[0]

    def predict_with_prior(self, loads):
        alone = self.prior.view(-1, 1, 1, 1, 1) * loads
        return alone + self.rest * loads, alone


class StandIn(Model):
    """Has the signature of ConditionedNIPS and two weights: any grid, any number of pairs, a prior."""

    Config = ConditionedConfig

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.prior, self.rest = (torch.nn.Parameter(0.01 * torch.randn(())) for _ in range(2))

    def forward(self, pairs):
        loads, responses = (field.flatten(1) for field in (pairs.loads, pairs.responses))
        level = (loads * responses).sum(1) / loads.square().sum(1)
        return Proportional(self.prior + level, self.rest)


@pytest.fixture
def stand_in(monkeypatch):
    """Takes the place of the conditioned model, for what is about training and not about the model."""
    monkeypatch.setitem(
        sys.modules, "nipde.estimators.conditioned.conditioned_nips", SimpleNamespace(ConditionedNIPS=StandIn)
    )
    return StandIn
