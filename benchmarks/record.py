"""A measurement on file: what was run, with which seed, from which commit, where, when, and what came out."""

import hashlib
import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nipde.atomic import write_bytes
from nipde.errors import NipdeError

#: Whose versions a number may depend on.
PACKAGES = ("nipde", "torch", "numpy", "scipy", "zarr", "distributed")


def write_record(
    name: str, measured: dict[str, Any], *, results: Path, command: str, seed: int, seconds: float
) -> Path:
    """Write results/NAME.json."""
    record = {
        "name": name,
        "command": command,
        "seed": seed,
        "commit": commit(),
        "machine": machine(),
        "versions": {package: version(package) for package in PACKAGES},
        "time": now(),
        "seconds": round(seconds, 1),
        "measured": measured,
    }
    results.mkdir(parents=True, exist_ok=True)
    path = results / f"{name}.json"
    write_bytes(path, (json.dumps({**record, "sha256": digest(record)}, indent=1) + "\n").encode())
    return path


def digest(record: dict[str, Any]) -> str:
    """SHA-256 of what a record says: a number that was changed by hand, or by a disk, shows."""
    kept = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def read_record(results: Path, name: str) -> dict[str, Any]:
    """The record of a measurement; raises unless it is one."""
    path = results / f"{name}.json"
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise NipdeError(f"{path} cannot be read", expected="a record", got=str(error)[:200]) from error
    if not isinstance(record, dict) or not isinstance(record.get("measured"), dict):
        raise NipdeError(f"{path} is no record", expected="an object with the key measured", got=str(record)[:200])
    if record.get("sha256") != digest(record):
        remedy = f"run it again: {record.get('command')}"
        raise NipdeError(
            f"{path} is not as it was written", expected=digest(record), got=record.get("sha256"), remedy=remedy
        )
    return record


def machine() -> dict[str, Any]:
    """Processor, cores, memory and system; enough to judge a time by."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "memory_gib": round(memory),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def now() -> str:
    """Date and time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def commit() -> str:
    """Commit of the checkout, marked if package or benchmarks hold changes; `unknown` where there is no history."""
    folder = Path(__file__).parents[1]

    def git(*words: str) -> str:
        run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
        return run.stdout.strip() if run.returncode == 0 else ""

    head = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--", "src", "benchmarks")
    return f"{head}{' with changes' if changed else ''}" if head else "unknown"
