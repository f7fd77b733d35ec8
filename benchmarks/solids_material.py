"""Materials identified in test specimens: a map of moduli and the digit it shows, fibres and the line between them.

Where there is noise, bodies fitted to displacements have bands: the share of cells whose true value is
within them stands beside.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from benchmarks.digits import digit_classifier, digits_in
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.mechanics import MechanicalMnistRecipe
from nipde.discovery.fibres import angle_between, two_segments
from nipde.discovery.material import NORMAL
from nipde.estimators.inverse.elastic_adjoint import ElasticGaussNewton
from nipde.estimators.inverse.elastic_balance import ElasticBalance
from nipde.physics.bodies import CellwiseBody
from nipde.physics.quadrilaterals import cells_of

#: A classifier sees all bitmaps this often; only trials ask about fewer specimens than `FEW`.
EPOCHS, FEW = 12, 10
#: Of bands.
LEVEL = 0.9
BALANCE, LINEAR, DISPLACEMENTS = "equilibrium gap", "linear elasticity", "displacements of a body"


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
    result = []
    for number in range(len(read.loads)):
        pairs = Pairs.from_arrays(read.loads[number], read.responses[number], grid=archive.grid).to(dtype=torch.float64)
        result.append(with_white_noise(pairs, share=look.noise, seed=number) if look.noise else pairs)
    return result


def digits_inside(archive: Archive, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Errors of the moduli, and how many digits a classifier recognises in them, by method."""
    every = archive.read(archive.indices("test"), pairs=[0]).parameters["image"].astype(int)
    trial = max(look.specimens for look in looks) < FEW
    network = digit_classifier(np.unique(every), epochs=1 if trial else EPOCHS)
    recipe = archive.plan.recipe
    assert isinstance(recipe, MechanicalMnistRecipe)
    soft, stiff = recipe.moduli
    result = []
    for look in looks:
        read = archive.read(archive.indices("test")[: look.specimens], pairs=[0])
        truth = np.stack([cells_of(hidden[0]) for hidden in read.hidden])
        given, row = contexts(archive, look), asdict(look)
        maps = {"true map": truth, BALANCE: _moduli(given, ElasticBalance()),
                LINEAR: _moduli(given, ElasticBalance(finite=False))}  # fmt: skip
        within: dict[str, float] = {}
        if look.noise:
            bodies = [ElasticGaussNewton().posterior(pairs) for pairs in given]
            maps[DISPLACEMENTS] = np.stack([one.body.young for one in bodies])
            bands = np.stack([one.modulus_band(LEVEL) for one in bodies], 1)
            within[DISPLACEMENTS] = float(np.mean((bands[0] < truth) & (truth < bands[1])))
        for name, moduli in maps.items():
            error = modulus_errors(moduli, truth)
            answers = np.array(digits_in(network, moduli, soft=soft, stiff=stiff))
            row[name] = {"modulus_error": float(error.mean()), "worst": float(error.max()),
                         "correct": int(np.sum(answers == read.parameters["digit"])),
                         "within": within.get(name)}  # fmt: skip
        result.append(row)
    return result


def modulus_errors(moduli: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Relative, in the mean square over cells, of every specimen."""
    size = np.linalg.norm(truth.reshape(len(truth), -1), axis=1)
    return np.asarray(np.linalg.norm((moduli - truth).reshape(len(truth), -1), axis=1) / size)


def _moduli(given: Sequence[Pairs], method: ElasticBalance) -> np.ndarray:
    return np.stack([method.body(pairs).young for pairs in given])


def fibres_inside(archive: Archive, looks: Sequence[Look]) -> list[dict[str, Any]]:
    """Degrees by which fibres and the line between them are missed, by method."""
    result = []
    for look in looks:
        truth = archive.read(archive.indices("test")[: look.specimens], pairs=[0]).parameters
        specimens = [TrueFibres(*(float(truth[name][number]) for name in ("angle_1", "angle_2", "line_angle")))
                     for number in range(len(truth["line_angle"]))]  # fmt: skip
        given, row = contexts(archive, look), asdict(look)
        row[BALANCE] = _missed([ElasticBalance().body(pairs) for pairs in given], specimens)
        if look.noise:
            bodies = [ElasticGaussNewton().posterior(pairs) for pairs in given]
            row[DISPLACEMENTS] = _missed([one.body for one in bodies], specimens)
            apart, wide = (np.concatenate(values) for values in (
                [apart_in_cells(one.body, true) for one, true in zip(bodies, specimens, strict=True)],
                [NORMAL[LEVEL] * one.angle_deviation().reshape(-1) for one in bodies],
            ))  # fmt: skip
            says = wide < np.pi / 2  # a band of all directions holds any
            row[DISPLACEMENTS] |= {
                "within": float(np.mean((apart < wide)[says])),
                "undetermined": float(np.mean(~says)),
            }
        result.append(row)
    return result


@dataclass(frozen=True)
class TrueFibres:
    """What a specimen was made with, radians."""

    first: float
    second: float
    line: float


def _missed(bodies: Sequence[CellwiseBody], specimens: Sequence[TrueFibres]) -> dict[str, Any]:
    rows = [
        {**segment_errors(body, true), "between": np.degrees(angle_between(true.first, true.second))}
        for body, true in zip(bodies, specimens, strict=True)
    ]
    angles, lines = [value for row in rows for value in row["angles"]], [row["line"] for row in rows]
    return {
        "angle_median": float(np.median(angles)), "angle_worst_decile": float(np.quantile(angles, 0.9)),
        "line_median": float(np.median(lines)), "line_worst_decile": float(np.quantile(lines, 0.9)),
        "cell_median": float(np.median([row["cells"] for row in rows])), "within": None, "rows": rows,
    }  # fmt: skip


def segment_errors(body: CellwiseBody, true: TrueFibres) -> dict[str, Any]:
    """Degrees: of both directions, of the line, and the median over cells."""
    result = two_segments(body)
    angles = result.angles
    if np.cos(result.line - true.line) < 0:  # the same line, run through the other way
        angles = angles[::-1]
    both = zip(angles, (true.first, true.second), strict=True)
    return {
        "angles": [float(np.degrees(angle_between(*one))) for one in both],
        "line": float(np.degrees(angle_between(result.line, true.line))),
        "cells": float(np.degrees(np.median(apart_in_cells(body, true)))),
    }


def apart_in_cells(body: CellwiseBody, true: TrueFibres) -> Float[np.ndarray, " cell"]:
    """Between the fibres of a body and the true ones at the middle of every cell, radians."""
    points = body.mesh.points.mean(1)
    x, y = (points[:, axis] - body.grid.axes[axis].length / 2 for axis in (0, 1))
    first = -np.sin(true.line) * x + np.cos(true.line) * y >= 0
    local = np.angle(body.fibre_moment.reshape(-1)) / 2
    return np.abs((local - np.where(first, true.first, true.second) + np.pi / 2) % np.pi - np.pi / 2)
