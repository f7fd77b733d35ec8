"""A model as a folder to share: model.safetensors, config.json and a card, as the Hugging Face hub wants them.

config.json is a copy of the record in the weights, for people and for the hub. A folder works as it is, without a
network.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nipde.atomic import atomic_folder
from nipde.errors import CheckpointError, needing
from nipde.estimators.base import Model
from nipde.weights.models import CONFIG, WEIGHTS, save

CARD = "README.md"


def publish(
    model: Model,
    folder: str | os.PathLike[str],
    *,
    about: str = "",
    limits: str = "",
    license: str = "apache-2.0",
    history: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Write the three files, all or none; a reader of the card must know `about` and `limits`. Returns the folder.

    `history` is kept in the record: `training` and `curve` of a run. Files of earlier weights are replaced.
    """
    place = Path(folder)
    foreign = sorted({path.name for path in place.iterdir()} - {WEIGHTS, CONFIG, CARD}) if place.is_dir() else []
    if foreign:
        raise CheckpointError(
            expected="a new folder, or one of published weights",
            got=f"{foreign[0]} in {place}",
            remedy="choose another",
        )
    notes = {"about": about, "limits": limits, "license": license, **history}
    try:
        with atomic_folder(place) as partial:
            record = save(model, partial / WEIGHTS, about=notes)
            (partial / CONFIG).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            (partial / CARD).write_text(_readme(model, record), encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise CheckpointError(
            f"{place} could not be written", got=error, remedy="make room, or choose another"
        ) from error
    return place


def fetch(repository: str, *, revision: str | None = None, local_files_only: bool = False) -> Path:
    """The folder of a repository `owner/name` on the hub, for `nipde.load`; or of the hub's cache alone."""
    with needing("huggingface_hub", extra="hub"):
        from huggingface_hub import errors, snapshot_download
    try:
        folder = snapshot_download(
            repository, revision=revision, local_files_only=local_files_only, allow_patterns=[WEIGHTS, CONFIG, CARD]
        )
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError, ValueError) as error:
        raise CheckpointError(
            expected="a repository on the hub", got=f"{repository!r} ({str(error).splitlines()[0]})",
            remedy="check the name; nipde.load opens folders and files",
        ) from error  # fmt: skip
    return Path(folder)


def _readme(model: Model, record: dict[str, Any]) -> str:
    """For the hub on top, for people below."""
    config, calibration = record["model"], record.get("calibration")
    size = sum(parameter.numel() for parameter in model.parameters())
    if "grid" in config:
        nodes = " × ".join(str(axis["nodes"]) for axis in config["grid"]["axes"])
        reads = f"{config['pairs']} pairs, on a grid of {nodes} nodes"
    else:
        reads = f"any number of pairs, on any grid with {config['dimension']} axes"
    bands = f"from {calibration['systems']} systems of archive {calibration['archive'][:16]}" if calibration else "none"
    lines = [
        "---",
        "library_name: nipde",
        f"license: {record['license']}",
        "tags:\n- pde\n- inverse-problems\n- operator-learning",
        "---",
        f"\n# {record.get('name') or config['kind']}\n",
        record["about"] or "No description was given.",
        "\n## Model\n",
        "| | |\n|---|---|",
        f"| network | {type(model).__name__}, {size:,} weights in {record['precision']} |",
        f"| context | {reads} |",
        f"| components | {config['components']} |",
        f"| calibration | {bands} |",
        f"| written by | nipde {record['nipde']} |",
        "\n## Limits\n",
        record["limits"] or "None were stated, which does not mean that there are none.",
        "\n## Use\n",
        "```python\nimport nipde\n\nmodel = nipde.load(\".\")  # or nipde.load(nipde.weights.fetch(\"owner/name\"))",
        "kernel = model(pairs)  # nipde.Pairs: measured loads and responses",
        "response = kernel @ load\n```",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
