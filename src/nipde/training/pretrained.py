"""Weights that come with the package, by name, and how a run's weights become such."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from nipde.errors import CheckpointError
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


def load(name: str = "darcy") -> ConditionedNIPS:
    """Pretrained weights by name; `card(name)` says what they were trained on, and how good they are."""
    if name not in names():
        raise CheckpointError(
            expected=f"weights among {', '.join(names())}",
            got=repr(name),
            remedy="load_model opens weights of your own",
        )
    model = load_model(SHELF / f"{name}.safetensors")
    assert isinstance(model, ConditionedNIPS)
    calibration = card(name).get("calibration")
    model.calibration = None if calibration is None else Calibration.from_dict(calibration)
    return model


def card(name: str) -> dict[str, Any]:
    """What the weights are: range of validity, training, calibration, limits."""
    found: dict[str, Any] = json.loads((SHELF / f"{name}.json").read_text())
    return found


def publish(run: Path, name: str, about: dict[str, Any], *, shelf: Path = SHELF) -> None:
    """The best weights of a run, without the optimiser's memory, and their card with the curve of its validation."""
    tensors, record = checkpoint.load(run / BEST)
    rows = [row for row in read_log(run / "log.csv") if row["held_out"]]
    curve = [{what: float(row[what]) for what in ("step", "seconds", "held_out")} for row in rows]
    kept = {key: value for key, value in tensors.items() if key.startswith("model.")}
    shelf.mkdir(parents=True, exist_ok=True)
    checkpoint.save(shelf / f"{name}.safetensors", kept, record)
    text = json.dumps({"name": name, **about, "training": record, "curve": curve}, indent=1, ensure_ascii=False)
    checkpoint.write(shelf / f"{name}.json", (text + "\n").encode())
