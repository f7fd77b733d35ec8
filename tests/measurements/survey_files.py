"""Files in the unified data format, written by its description (resistivity.net), not by the package."""

from pathlib import Path

import numpy as np


def unified(positions, data, *, axes="x z", columns="a b m n r err", end="0") -> str:
    """Electrodes count from 1 in `data`."""
    lines = [f"{len(positions)}# Number of electrodes", f"# {axes}"]
    lines += [" ".join(f"{value:.9g}" for value in place) for place in positions]
    lines += [f"{len(data)}# Number of data", f"# {columns}"]
    lines += [" ".join(f"{value:.9g}" for value in row) for row in data]
    return "\n".join([*lines, end, ""])


def ring_positions(count: int, radius: float) -> np.ndarray:
    angles = 2 * np.pi * np.arange(count) / count
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def dipole_dipole(count: int) -> np.ndarray:
    """a b m n around a ring: neighbours inject, neighbours that do not touch them are read."""
    rows = []
    for a in range(count):
        b = (a + 1) % count
        for m in range(count):
            n = (m + 1) % count
            if not {a, b} & {m, n}:
                rows.append((a + 1, b + 1, m + 1, n + 1))
    return np.array(rows)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
