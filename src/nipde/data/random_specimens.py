"""Random specimens in the unit square: outlines, supports, and loads on the outline."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from nipde.discretisation.load_case import Function, LoadCase
from nipde.discretisation.parts import DirichletPart, NeumannPart, Specimen
from nipde.shape import Shape


def square(rng: Generator, *, half: bool) -> Specimen:
    """Dirichlet on all sides, or on two of them."""
    sides = ("left", "right") if half else ("left", "right", "bottom", "top")
    return Specimen(Shape.rectangle(0.9, 0.9, origin=(0.05, 0.05)), dict.fromkeys(sides, DirichletPart()))


def disc(rng: Generator, *, half: bool) -> Specimen:
    """A Dirichlet rim, or one half of it."""
    shape = Shape.disc((0.5, 0.5), 0.45)
    if half:
        shape = shape.with_arc("window", 0.0, 0.5)
    return Specimen(shape, {"rim": DirichletPart()})


def plate(rng: Generator, *, half: bool) -> Specimen:
    """With a hole: Dirichlet on the left, the rest Neumann."""
    hole = Shape.disc((rng.uniform(0.4, 0.6), rng.uniform(0.4, 0.6)), rng.uniform(0.1, 0.2), vertices=512).rings[0]
    corners = [(0.05, 0.05), (0.95, 0.05), (0.95, 0.95), (0.05, 0.95)]
    shape = Shape.polygon(corners, holes=[hole], sides=("bottom", "right", "top", "left"))
    return Specimen(shape, {"left": DirichletPart()})


def l_shape(rng: Generator, *, half: bool) -> Specimen:
    """Dirichlet at both ends, the rest Neumann."""
    corners = [(0.05, 0.05), (0.95, 0.05), (0.95, 0.5), (0.5, 0.5), (0.5, 0.95), (0.05, 0.95)]
    shape = Shape.polygon(corners, sides=("bottom", "right", "inner", "inner", "top", "left"))
    return Specimen(shape, {"right": DirichletPart(), "top": DirichletPart()})


def blob(rng: Generator, *, half: bool) -> Specimen:
    """A random smooth outline, two fifths of it Dirichlet, the rest Neumann."""
    angle = 2 * np.pi * np.arange(512) / 512
    waves = sum(rng.normal(0, 0.12 / k) * np.cos(k * angle + rng.uniform(0, 2 * np.pi)) for k in (2, 3, 4, 5))
    ring = np.exp(waves)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    low, high = ring.min(0), ring.max(0)
    shape = Shape.polygon(0.5 + 0.9 * (ring - (low + high) / 2) / (high - low).max())
    start = rng.uniform(0, 1)
    return Specimen(shape.with_arc("window", start, start + 0.4), {"window": DirichletPart()})


#: By kind; `half` leaves a part of every outline free for a flux.
SPECIMENS: dict[str, Callable[..., Specimen]] = {
    "square": square, "disc": disc, "plate with hole": plate, "L": l_shape, "blob": blob,
}  # fmt: skip


def on_random_arc(specimen: Specimen, rng: Generator) -> Specimen:
    """The same shape, Dirichlet on 30 to 70 % of its outer outline, from any place on, and Neumann on the rest."""
    start, share = rng.uniform(0, 1), rng.uniform(0.3, 0.7)
    return Specimen(specimen.shape.with_arc("support", start, start + share), {"support": DirichletPart()})


def outline_case(specimen: Specimen, rng: Generator) -> LoadCase:
    """Smooth values on Dirichlet parts, smooth fluxes on the others."""

    def wave(size: float) -> Function:
        k, phase, constant = rng.normal(0, 4.0, 2), rng.uniform(0, 2 * np.pi), rng.normal()
        return lambda x, y: size * (np.cos(k[0] * (x - 0.5) + k[1] * (y - 0.5) + phase) + constant)

    parts = {name: specimen.condition(name) for name in specimen.shape.parts}
    return LoadCase(
        values={name: wave(0.1) for name, one in parts.items() if isinstance(one, DirichletPart)},
        fluxes={name: wave(1.0) for name, one in parts.items() if isinstance(one, NeumannPart)},
    )
