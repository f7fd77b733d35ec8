"""Arrays to a script that another Python runs, and arrays back: two .npz files."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nipde.errors import NipdeError

SCRIPTS = Path(__file__).parent


def found_by(python: Path, script: str, given: dict[str, Any], *, setting: Any = None) -> dict[str, np.ndarray]:
    """What `script` makes of `given` and of a setting, which goes as JSON; one thread."""
    if setting is not None:
        given = {**given, "setting": json.dumps(setting)}
    with tempfile.TemporaryDirectory() as folder:
        before, after = (Path(folder) / name for name in ("given.npz", "found.npz"))
        np.savez(before, **given)
        done = subprocess.run(
            [str(python), str(SCRIPTS / script), str(before), str(after)], capture_output=True, text=True, check=False,
            cwd=folder, env={**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                             "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        if done.returncode or not after.exists():
            raise NipdeError(
                f"{script} failed", expected="found.npz", got=done.stderr.strip()[-500:], remedy=f"try it with {python}"
            )
        with np.load(after) as arrays:
            return dict(arrays)
