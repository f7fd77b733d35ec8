"""Can stored bytes go wrong unnoticed? Bits flipped, files cut and deleted, over every file of a small archive."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nipde.data.archive import BY_SYSTEM
from nipde.data.archive import open as open_archive
from nipde.data.generate import generate
from nipde.data.layout import stored
from nipde.data.plan import Plan
from nipde.data.problems import DarcyRecipe
from nipde.errors import ArchiveError

SEED = 11


def measure(*, quick: bool) -> dict[str, Any]:
    """Trials per kind of damage, and how each way of reading took it."""
    trials = 30 if quick else 300
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "archive"
        for shared in (False, True):
            recipe = DarcyRecipe(nodes=11, pairs=4, shared_loads=shared)
            generate(Plan(recipe, systems=10, seed=SEED, shard_systems=4), path / str(shared), workers=1)
        archives = [path / str(shared) for shared in (False, True)]
        truth = {archive: _everything(archive) for archive in archives}
        files = [(archive, file) for archive in archives for file in sorted(archive.rglob("*")) if file.is_file()]
        rng = np.random.default_rng(SEED)
        kinds = {"flipped_bit": _flip, "truncated_file": _truncate, "deleted_file": _delete}
        return {
            "files": len(files),
            "trials_per_kind": trials,
            **{kind: _trials(files, truth, damage, trials, rng) for kind, damage in kinds.items()},
        }


def _trials(
    files: list[tuple[Path, Path]],
    truth: dict[Path, list[np.ndarray]],
    damage: Any,
    trials: int,
    rng: np.random.Generator,
) -> dict[str, int]:
    """Every file in turn, at random places."""
    counts = {"verify_raised_naming_file": 0, "verify_silent": 0, "read_raised": 0, "read_equal": 0, "read_silent": 0}
    for trial in range(trials):
        archive, file = files[trial % len(files)]
        content = file.read_bytes()
        damage(file, content, rng)
        try:
            counts[_verified(archive, file)] += 1
            counts[_read(archive, truth[archive])] += 1
        finally:
            file.write_bytes(content)
    return counts


def _verified(archive: Path, file: Path) -> str:
    try:
        open_archive(archive, verify=True)
    except ArchiveError as error:
        name = file.relative_to(archive).as_posix()
        named = name in str(error) and any(word in str(error) for word in ("chunk", "file", "finished"))
        return "verify_raised_naming_file" if named else "verify_silent"
    return "verify_silent"


def _read(archive: Path, truth: list[np.ndarray]) -> str:
    """An ordinary read of everything, without verification: an error or the right numbers, never others."""
    try:
        found = _everything(archive)
    except ArchiveError:
        return "read_raised"
    return "read_equal" if all(map(np.array_equal, found, truth)) else "read_silent"


def _everything(archive: Path) -> list[np.ndarray]:
    system = open_archive(archive)[:]
    return [stored(name, system) for name in BY_SYSTEM]


def _flip(file: Path, content: bytes, rng: np.random.Generator) -> None:
    damaged = bytearray(content)
    damaged[rng.integers(len(damaged))] ^= 1 << int(rng.integers(8))
    file.write_bytes(damaged)


def _truncate(file: Path, content: bytes, rng: np.random.Generator) -> None:
    file.write_bytes(content[: rng.integers(len(content))])


def _delete(file: Path, content: bytes, rng: np.random.Generator) -> None:
    file.unlink()
