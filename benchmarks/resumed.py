"""Parts of a long measurement that are finished leave a file: an interrupted run of the same commit goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.record import commit
from nipde.atomic import write_bytes

#: Of finished parts.
FOLDER = Path("runs")


def resumed(name: str, part: str, measured: Callable[[], Any]) -> Any:
    """What a part of a measurement came to, in JSON; measured unless this commit did before."""
    state = commit()
    path = FOLDER / name / f"{state[:10]}-{part}.json"
    if path.exists() and "changes" not in state:
        return json.loads(path.read_bytes())
    found = json.loads(json.dumps(measured()))
    if "changes" not in state and state != "unknown":
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(found).encode())
    return found
