"""Weights that come with the package, by name, and how a run's weights become such."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from nipde.errors import CheckpointError, meant
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.estimators.conditioning.calibration import Calibration
from nipde.training import checkpoint
from nipde.training.observers import read_log
from nipde.training.run import BEST
from nipde.training.weights import load_model

SHELF = Path(str(files("nipde"))) / "weights"


def names() -> list[str]:
    """What `load` knows."""
    return sorted(path.stem for path in SHELF.glob("*.safetensors"))


def load(name: str | Path = "darcy") -> ConditionedNIPS:
    """Pretrained weights by name, or published ones by the path of their file; `card(name)` says what they are."""
    place = _place(name)
    model = load_model(place)
    assert isinstance(model, ConditionedNIPS)
    calibration = card(name).get("calibration")
    model.name = Path(name).stem
    model.calibration = None if calibration is None else Calibration.from_dict(calibration)
    return model


def card(name: str | Path) -> dict[str, Any]:
    """What the weights are: range of validity, training, calibration, limits."""
    found: dict[str, Any] = json.loads(_place(name).with_suffix(".json").read_text())
    return found


def _place(name: str | Path) -> Path:
    if str(name) in names():
        return SHELF / f"{name}.safetensors"
    if Path(name).suffix == ".safetensors" and Path(name).with_suffix(".json").exists():
        return Path(name)
    raise CheckpointError(
        expected=f"weights among {', '.join(names())}, or a published file",
        got=repr(str(name)),
        remedy=meant(str(name), names(), otherwise="load_model opens weights of a run"),
    )


def check_name(name: str) -> None:
    """Raise unless the name of weights can be that of their files."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise CheckpointError(
            expected="a name of letters, digits, dots and dashes", got=repr(name), remedy="folders are named by --out"
        )


def publish(run: Path, name: str, about: dict[str, Any], *, shelf: Path = SHELF) -> None:
    """The best weights of a run, without the optimiser's memory, and their card with the curve of its validation."""
    check_name(name)
    tensors, record = checkpoint.load(run / BEST)
    rows = [row for row in read_log(run / "log.csv") if row["held_out"]]
    curve = [{what: float(row[what]) for what in ("step", "seconds", "held_out")} for row in rows]
    kept = {key: value for key, value in tensors.items() if key.startswith("model.")}
    shelf.mkdir(parents=True, exist_ok=True)
    checkpoint.save(shelf / f"{name}.safetensors", kept, record)
    text = json.dumps({"name": name, **about, "training": record, "curve": curve}, indent=1, ensure_ascii=False)
    checkpoint.write(shelf / f"{name}.json", (text + "\n").encode())
