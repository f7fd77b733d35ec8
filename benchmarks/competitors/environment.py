"""An environment of its own for every other package: none of them is a dependency, and some exclude each other."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

#: Where pip's last words are kept, beside the environment.
MESSAGE = "pip.txt"
#: torch stays the CPU's, as constraints.txt pins it for this project.
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


@dataclass(frozen=True)
class Environment:
    """A Python that has a package, or none if it did not install; and what pip said."""

    python: Path | None
    message: str


def environment(folder: Path, package: str) -> Environment:
    """That of FOLDER/PACKAGE, made by venv and pip if there is none."""
    place = folder / package
    python, said = place / "bin" / "python", place / MESSAGE
    if not python.exists():
        _run([sys.executable, "-m", "venv", str(place)])
    if not said.exists():
        pinned = ["-c", str(CONSTRAINTS)] if package == "torch-fem" else []
        code, text = _run([str(python), "-m", "pip", "install", *pinned, package])
        said.write_text(f"{code}\n{last_line(text)}")
    ended, message = said.read_text().split("\n", 1)
    return Environment(python.absolute() if ended == "0" else None, message)


def last_line(text: str) -> str:
    """What pip ends with: what it installed, or why not."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("Successfully", "ERROR", "error"))]
    return (told or lines or ["nothing"])[-1]


def _run(words: list[str]) -> tuple[int, str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
