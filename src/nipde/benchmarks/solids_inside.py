"""What is found inside test specimens: a map of moduli and the digit it shows, fibres and the line between them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from nipde.benchmarks.digits import digit_classifier, digits_in
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.cells import cells_of
from nipde.data.mechanics import MechanicalMnistRecipe
from nipde.discovery.fibres import angle_between, two_segments
from nipde.estimators.elastic_adjoint import ElasticGaussNewton
from nipde.estimators.elastic_balance import ElasticBalance
from nipde.physics.cellwise import CellwiseBody

#: A classifier sees all bitmaps this often; only trials ask about fewer specimens than `FEW`.
EPOCHS, FEW = 12, 10


@dataclass(frozen=True)
class Look:
    """How many specimens are looked into, with how many pairs, under how much noise."""

    specimens: int
    pairs: int
    noise: float = 0.0


def contexts(archive: Archive, look: Look) -> list[Pairs]:
    """The first training loads of the first test specimens, with noise."""
    loads = archive.load_indices("train")[: look.pairs].tolist()
    read = archive.read(archive.indices("test")[: look.specimens], pairs=loads)
    found = []
    for number in range(len(read.loads)):
        pairs = Pairs.from_arrays(read.loads[number], read.responses[number], grid=archive.grid).to(dtype=torch.float64)
        found.append(with_white_noise(pairs, share=look.noise, seed=number) if look.noise else pairs)
    return found


def digits_inside(archive: Archive, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Errors of the moduli, and how many digits a classifier recognises in them, by method."""
    every = archive.read(archive.indices("test"), pairs=[0]).parameters["image"].astype(int)
    trial = max(look.specimens for look in looks) < FEW
    network = digit_classifier(np.unique(every), epochs=1 if trial else EPOCHS)
    recipe = archive.plan.recipe
    assert isinstance(recipe, MechanicalMnistRecipe)
    soft, stiff = recipe.moduli
    found = []
    for look in looks:
        read = archive.read(archive.indices("test")[: look.specimens], pairs=[0])
        truth = np.stack([cells_of(hidden[0]) for hidden in read.hidden])
        maps = {"true map": truth, **_maps(contexts(archive, look), noisy=look.noise > 0)}
        row: dict[str, Any] = asdict(look)
        for name, moduli in maps.items():
            error = modulus_errors(moduli, truth)
            answers = np.array(digits_in(network, moduli, soft=soft, stiff=stiff))
            row[name] = {"modulus_error": float(error.mean()), "worst": float(error.max()),
                         "correct": int(np.sum(answers == read.parameters["digit"]))}  # fmt: skip
        found.append(row)
    return found


def modulus_errors(moduli: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Relative, in the mean square over cells, of every specimen."""
    size = np.linalg.norm(truth.reshape(len(truth), -1), axis=1)
    return np.asarray(np.linalg.norm((moduli - truth).reshape(len(truth), -1), axis=1) / size)


def _maps(given: Sequence[Pairs], *, noisy: bool) -> dict[str, np.ndarray]:
    """Of Young's modulus, by the method that found them."""
    methods: dict[str, ElasticBalance | ElasticGaussNewton] = {
        "balance of forces": ElasticBalance(),
        "linear elasticity": ElasticBalance(finite=False),
    }
    if noisy:
        methods["displacements of a body"] = ElasticGaussNewton()
    return {name: np.stack([method.body(pairs).young for pairs in given]) for name, method in methods.items()}


def fibres_inside(archive: Archive, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Degrees by which fibres and the line between them are missed."""
    found = []
    for look in looks:
        truth = archive.read(archive.indices("test")[: look.specimens], pairs=[0]).parameters
        rows = []
        for number, pairs in enumerate(contexts(archive, look)):
            first, second, line = (float(truth[name][number]) for name in ("angle_1", "angle_2", "line_angle"))
            missed = segment_errors(ElasticBalance().body(pairs), (first, second), line)
            rows.append({**missed, "between": np.degrees(angle_between(first, second))})
        angles, lines = [value for row in rows for value in row["angles"]], [row["line"] for row in rows]
        found.append({
            **asdict(look),
            "angle_median": float(np.median(angles)), "angle_worst_decile": float(np.quantile(angles, 0.9)),
            "line_median": float(np.median(lines)), "line_worst_decile": float(np.quantile(lines, 0.9)),
            "cell_median": float(np.median([row["cells"] for row in rows])),
            "rows": rows,
        })  # fmt: skip
    return found


def segment_errors(body: CellwiseBody, truth: tuple[float, float], line: float) -> dict[str, Any]:
    """Degrees: of both directions, of the line, and the median over cells."""
    found = two_segments(body)
    points = body.mesh.points.mean(1)
    x, y = (points[:, axis] - body.grid.axes[axis].length / 2 for axis in (0, 1))
    first = -np.sin(line) * x + np.cos(line) * y >= 0
    local = np.angle(body.fibre_moment.reshape(-1)) / 2
    apart = np.abs((local - np.where(first, *truth) + np.pi / 2) % np.pi - np.pi / 2)
    angles = found.angles
    if np.cos(found.line - line) < 0:  # the same line, run through the other way
        angles = angles[::-1]
    return {
        "angles": [float(np.degrees(angle_between(one, other))) for one, other in zip(angles, truth, strict=True)],
        "line": float(np.degrees(angle_between(found.line, line))),
        "cells": float(np.degrees(np.median(apart))),
    }
