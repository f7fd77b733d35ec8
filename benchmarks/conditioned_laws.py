"""Conditioned NIPS beyond two phases: the general weights over their range, and advection-diffusion.

As in `conditioned`: test systems and loads are in no training, every row is one call of `nipde evaluate`.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import conditioned
from benchmarks.conditioned import archive_of, recorded, row
from nipde.data.darcy import DarcyRecipe, MixedDarcyRecipe
from nipde.data.problems import AdvectionRecipe

SEED = conditioned.SEED
PAIRS, NOISE = (100, 50, 20, 10, 5, 3), (0.0, 0.01, 0.05)
CONTRASTS = (1.5, 4.0, 10.0, 30.0)


def measure(*, quick: bool) -> dict[str, Any]:
    """All rows; `quick` sees 2 systems each."""
    with TemporaryDirectory() as folder:
        return recorded([*_general(Path(folder), quick=quick), *_stirred(Path(folder), quick=quick)])


def _general(folder: Path, *, quick: bool) -> Iterator[dict[str, Any]]:
    """By pairs and noise, by grid, by contrast of two phases."""
    nodes = (21,) if quick else (15, 21, 41)
    mixed = {count: archive_of(MixedDarcyRecipe(nodes=count, pairs=120), folder, quick=quick) for count in nodes}
    for context in PAIRS:
        for noise in NOISE:
            yield row("darcy", mixed[21], "mixed", quick=quick, context=context, noise=noise, inversion=False)
    for count, archive in mixed.items():
        if count != 21:
            yield row("darcy", archive, "mixed", quick=quick, context=50, inversion=False)
    for contrast in CONTRASTS:
        phases = (6 * contrast**0.5, 6 / contrast**0.5)
        archive = archive_of(DarcyRecipe(nodes=21, pairs=100, phases=phases), folder, quick=quick)
        yield row("darcy", archive, f"contrast {contrast:g}", quick=quick, context=50, noise=0.01)


def _stirred(folder: Path, *, quick: bool) -> Iterator[dict[str, Any]]:
    """Trained on both, asked about each."""
    stirred = archive_of(AdvectionRecipe(nodes=21, pairs=100), folder, quick=quick)
    rock = archive_of(DarcyRecipe(nodes=21, pairs=100), folder, quick=quick)
    for weights in ("advection", "advection-gated"):
        for archive, what in ((stirred, "advection"), (rock, "literal")):
            for context, noise in ((50, 0.0), (10, 0.0), (50, 0.01)):
                yield row(weights, archive, what, quick=quick, context=context, noise=noise, inversion=False)
