"""A description in TOML, as JSON in the attribute `table`; read where hostile text can only hang a child."""

import json
import tomllib
from pathlib import Path
from typing import Any

from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents

#: Tables and lists within each other; a description has at most three.
DEEPEST = 8


def parse(path: Path, *, values: int) -> Contents:
    """The whole table; dates become text."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise MeasurementError(
            "file not understood", expected="key = value lines of TOML", got=str(error)[:200],
            remedy='texts stand in quotes: x = "mm"',
        ) from error  # fmt: skip
    if not _shallow(table, DEEPEST):
        raise MeasurementError(expected=f"at most {DEEPEST} tables and lists within each other", got="more")
    return Contents(values, attributes={"table": json.dumps(table, default=str)})


def _shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_shallow(one, levels - 1) for one in inner)
