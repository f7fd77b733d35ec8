"""Simulated water tanks to train on, in files of a hundred phantoms; each follows from its number alone."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float

from benchmarks.tank import ELECTRODES
from nipde.discretisation.parts import Specimen, Terminal
from nipde.estimators.inverse.linearised_images import NODES
from nipde.shape import Shape
from nipde.training.electrode_phantoms import Phantoms, phantoms

#: Phantoms of one file: they share their electrodes.
TOGETHER = 100
#: Deviations of electrodes' places and widths, as shares of their distance; log10 of their contact impedances.
PLACE, WIDTH, IMPEDANCES = 0.03, 0.03, (-6.0, -2.5)
#: Of the numbers below.
SEED = 27


def simulated(folder: Path, numbers: range, *, progress: Callable[[str], None] = lambda text: None) -> Phantoms:
    """The files of these numbers, made where they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number in numbers:
        path = folder / f"phantoms-{number:03d}.npz"
        if not path.is_file():
            one = phantoms(TOGETHER, drawn_tank, points=subnodes(), rng=np.random.default_rng([SEED, number]))
            part = path.with_suffix(".part.npz")
            np.savez(part, resistances=one.resistances.astype(np.float32), empty=one.empty.astype(np.float32),
                     phases=one.phases)  # fmt: skip
            part.rename(path)
            progress(path.name)
        with np.load(path) as file:
            found.append([file[name] for name in ("resistances", "empty", "phases")])
    return Phantoms(*(np.concatenate(each) for each in zip(*found, strict=True)))


def drawn_tank(rng: np.random.Generator) -> Specimen:
    """The tank with electrodes that are a little displaced, wider or narrower, and have some contact impedance."""
    shape, conditions = Shape.disc((0.0, 0.0), 1.0), {}
    typical = rng.uniform(*IMPEDANCES)
    for number in range(ELECTRODES):
        middle = (0.25 + (number + rng.normal(0, PLACE)) / ELECTRODES) % 1
        half = 0.25 / ELECTRODES * (1 + rng.normal(0, WIDTH))
        name = f"electrode {number + 1}"
        shape = shape.with_arc(name, (middle - half) % 1, (middle - half) % 1 + 2 * half)
        conditions[name] = Terminal(10 ** (typical + rng.normal(0, 0.15)))
    return Specimen(shape, conditions)


def subnodes() -> Float[np.ndarray, "x y 2"]:
    """Two along every axis around each node of the image: their mean is the share of a phase."""
    nodes = np.linspace(-1, 1, NODES)
    apart = nodes[1] - nodes[0]
    line = (nodes[:, None] + np.array([-0.25, 0.25]) * apart).ravel()
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)


def turned(shown: Phantoms, rng: np.random.Generator) -> Phantoms:
    """One of the eight views of the tank: mirrored or not, by quarter turns anticlockwise."""
    quarters, mirrored = int(rng.integers(4)), bool(rng.integers(2))
    order, phases = np.arange(ELECTRODES), shown.phases
    if mirrored:  # left and right: electrode 1 is at the top
        order, phases = -order % ELECTRODES, phases[:, ::-1]
    order = np.roll(order, quarters * ELECTRODES // 4)
    body, empty = (each[:, order][:, :, order] for each in (shown.resistances, shown.empty))
    return Phantoms(body, empty, np.rot90(phases, quarters, axes=(1, 2)))
