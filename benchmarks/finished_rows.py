"""Rows of a long benchmark: written when they are finished, and kept by its record when the folder of runs is gone."""

import json
import os
from pathlib import Path
from typing import Any

from benchmarks.record import commit, now, read_record
from nipde.weights import checkpoint

#: File of a row, in a folder of its name.
RESULT = "result.json"


def earlier(record: Path) -> dict[str, dict[str, Any]]:
    """Rows of a campaign's record by name, if there is one: what was measured is not lost with the folder it ran in."""
    if not record.exists():
        return {}
    measured = read_record(record.parent, record.stem)["measured"]
    rows = [row for value in measured.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    return {row["name"]: row for row in rows if "name" in row}


def finished(folder: Path, before: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows by name: of runs in `folder` and from before, the later one."""
    files = {path.parent.name: path for path in sorted(folder.glob(f"*/{RESULT}"))}
    here = {name: {"name": name, **json.loads(path.read_text())} for name, path in files.items()}
    return {**here, **{name: row for name, row in before.items() if row["time"] > here.get(name, {}).get("time", "")}}


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """A finished row, with the commit and time of its making."""
    made = {"commit": commit(), "time": now(), "threads": os.environ.get("OMP_NUM_THREADS", "1")}
    folder.mkdir(parents=True, exist_ok=True)
    row = {"name": folder.name, **result, **made}
    checkpoint.write(folder / RESULT, (json.dumps(row, indent=1) + "\n").encode())
