"""A model as a folder to share: model.safetensors, config.json and a card, as the Hugging Face hub wants them.

The weights are one checkpoint (`interop.checkpoint`); config.json is its record, to be read by people and by the hub. A
folder works as it is, without a network; a name such as `owner/model` is fetched through huggingface_hub.
"""

import json
import os
from pathlib import Path
from typing import Any

from torch import nn

from nipde.errors import CheckpointError
from nipde.interop.checkpoint import from_checkpoint, save_checkpoint
from nipde.interop.extras import needed
from nipde.training import checkpoint
from nipde.training.weights import checked

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
FILES = (WEIGHTS, CONFIG, CARD)


def save_pretrained(
    model: nn.Module,
    folder: str | os.PathLike[str],
    *,
    about: str = "",
    limits: str = "",
    license: str = "apache-2.0",
) -> Path:
    """Write the three files; `about` and `limits` are what a reader of the card must know. Returns the folder."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    record = save_checkpoint(model, place / WEIGHTS, about={"about": about, "limits": limits, "license": license})
    checkpoint.write(place / CONFIG, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    checkpoint.write(place / CARD, card_of(model, record).encode())
    return place


def from_pretrained(
    place: str | os.PathLike[str], *, revision: str | None = None, local_files_only: bool = False
) -> nn.Module:
    """The model of a folder, or of a repository on the hub; `local_files_only` asks its cache alone."""
    folder = Path(place)
    if not folder.is_dir():
        folder = _fetched(os.fspath(place), revision, local_files_only)
    missing = [name for name in (WEIGHTS, CONFIG) if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            expected=f"{WEIGHTS} and {CONFIG} in {folder}", got=f"no {' and no '.join(missing)}",
            remedy="write the folder with save_pretrained",
        )  # fmt: skip
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{folder / CONFIG} is not JSON", expected="an object", got=str(error)) from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{folder / CONFIG} is no configuration", expected="an object", got=type(config).__name__)
    _check_same(checked(config, folder / CONFIG), checkpoint.load(folder / WEIGHTS)[1], folder)
    return from_checkpoint(folder / WEIGHTS)


def card_of(model: nn.Module, record: dict[str, Any]) -> str:
    """README.md: what the hub wants to know on top, what people want to know below."""
    about, recipe = record["about"], record["recipe"]
    name, kind = record.get("name") or recipe["model"]["kind"], type(model).__name__
    numbers = sum(parameter.numel() for parameter in model.parameters())
    axes = " × ".join(str(axis["nodes"]) for axis in record["grid"]["axes"])
    if recipe["model"]["kind"] == "conditioned":
        reads = f"any number of pairs, on any grid with {len(record['grid']['axes'])} axes"
    else:
        reads = f"{recipe['context']} pairs, on a grid of {axes} nodes"
    calibration = record.get("calibration")
    bands = f"from {calibration['systems']} systems of archive {calibration['archive'][:16]}" if calibration else "none"
    lines = [
        "---",
        "library_name: nipde",
        f"license: {about['license']}",
        "tags:\n- pde\n- inverse-problems\n- operator-learning",
        "---",
        f"\n# {name}\n",
        about["about"] or "No description was given.",
        "\n## What it is\n",
        "| | |\n|---|---|",
        f"| network | {kind}, {numbers:,} weights in {recipe['precision']} |",
        f"| reads | {reads} |",
        f"| components | {record['components']} per load, {record['response_components']} per response |",
        f"| calibration | {bands} |",
        f"| written by | nipde {record['nipde']} |",
        "\n## Limits\n",
        about["limits"] or "None were stated, which does not mean that there are none.",
        "\n## Use\n",
        "```python\nimport nipde\n\nmodel = nipde.from_pretrained(\".\")  # or the name of this repository",
        "kernel = model(pairs)  # nipde.Pairs: measured loads and responses",
        "response = kernel @ load\n```",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _check_same(config: dict[str, Any], record: dict[str, Any], folder: Path) -> None:
    # The record is what counts; a config that says something else belongs to other weights, or was edited.
    names = sorted(key for key in config.keys() | record.keys() if config.get(key) != record.get(key))
    if names:
        raise CheckpointError(
            f"{folder / CONFIG} does not belong to {WEIGHTS}",
            expected=f"{names[0]} = {_short(record.get(names[0]))}",
            got=_short(config.get(names[0])),
            remedy="take both files from one place",
        )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 200 else f"{text[:197]}…"


def _fetched(name: str, revision: str | None, local_files_only: bool) -> Path:
    hub, errors = (needed(library, extra="hub") for library in ("huggingface_hub", "huggingface_hub.errors"))
    try:
        found = hub.snapshot_download(
            name, revision=revision, local_files_only=local_files_only, allow_patterns=list(FILES)
        )
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError, ValueError) as error:
        raise CheckpointError(
            expected="a folder, or a repository on the hub", got=f"{name!r} ({str(error).splitlines()[0]})",
            remedy="check the name, or give the folder that save_pretrained wrote",
        ) from error  # fmt: skip
    return Path(found)
