"""A measured water tank: the Kuopio Tomography Challenge 2023, 32 electrodes, 21 phantoms in 7 levels.

The data are published (Zenodo 8252370) and are not part of this project: `--data` names the folder that holds
TrainingData, GroundTruths, Evaluation and EvaluationGroundTruths. Settings were chosen on the four training phantoms,
masked to all levels. The score of a phantom is that of the challenge: the mean structural similarity of its conductive
and of its resistive pixels, 21 in all at best; the winner has 15.24 (published).
"""

import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.parts import Specimen, Terminal
from nipde.errors import NipdeError
from nipde.estimators.inverse.electrode_inversion import ElectrodeInversion, ElectrodeLaw
from nipde.measurements.electrode_voltages import ElectrodeVoltages
from nipde.measurements.parse import parse
from nipde.shape import Shape

SEED = 0
#: Electrodes cover half of the rim; the image has so many pixels along the diameter.
ELECTRODES, PIXELS = 32, 256
#: Contact impedance, as a share of the radius: none to speak of. Noise of a difference of voltages, in V.
IMPEDANCE, NOISE = 1e-6, 2.8e-3
LEVELS, PHANTOMS = range(1, 8), range(1, 4)
#: Labels of the challenge.
RESISTIVE, CONDUCTIVE = 1, 2
#: Of the score: width of the window and where it is cut, in pixels, and its constants.
WIDTH, CUT, FIRST, SECOND = 80.0, 160, 1e-4, 9e-4
#: A pixel is certain of its phase if this share of its posterior is.
CERTAIN = 0.95


def measure(*, data: Path | None = None, quick: bool = False) -> dict[str, Any]:
    """Every phantom of every level, once; with `quick` the training phantoms, masked to all levels."""
    folder = folder_of(data)
    found = [judged(*one) for one in (training(folder) if quick else evaluation(folder))]
    levels = sorted({one["level"] for one in found})
    return {
        "phantoms": found, "total": float(sum(one["score"] for one in found)),
        "levels": {str(level): float(sum(one["score"] for one in found if one["level"] == level)) for level in levels},
        "training": quick,
    }  # fmt: skip


def folder_of(data: Path | None) -> Path:
    """Of the challenge; raises where there is none."""
    folder = None if data is None else Path(data)
    if folder is None or not (folder / "TrainingData" / "ref.mat").is_file():
        raise NipdeError(
            expected="--data with a folder that holds TrainingData, GroundTruths, Evaluation, EvaluationGroundTruths",
            got=str(data), remedy="download the Kuopio Tomography Challenge 2023 from Zenodo, record 8252370",
        )  # fmt: skip
    return folder


def tank() -> Specimen:
    """Of radius 1; electrode 1 at the top, the others follow anticlockwise."""
    shape, half = Shape.disc((0.0, 0.0), 1.0), 0.25 / ELECTRODES
    names = [f"electrode {number + 1}" for number in range(ELECTRODES)]
    for number, name in enumerate(names):
        middle = 0.25 + number / ELECTRODES
        shape = shape.with_arc(name, (middle - half) % 1, (middle - half) % 1 + 2 * half)
    return Specimen(shape, {name: Terminal(IMPEDANCE) for name in names})


def truth(path: Path) -> np.ndarray:
    """Labels of the pixels."""
    return np.asarray(parse(path).arrays["truth"]).astype(int)


def evaluation(folder: Path) -> list[tuple[int, str, ElectrodeTests, np.ndarray]]:
    """Level, name, what was measured, what is true."""
    specimen, found = tank(), []
    for level in LEVELS:
        place = folder / "Evaluation" / f"level{level}"
        reference = ElectrodeVoltages.read(place / "ref.mat")
        for phantom in PHANTOMS:
            tests = ElectrodeVoltages.read(place / f"data{phantom}.mat").tests(specimen, reference, noise=NOISE)
            known = truth(folder / "EvaluationGroundTruths" / f"level_{level}" / f"{phantom}_true.mat")
            found.append((level, f"{level}-{phantom}", tests, known))
    return found


def training(folder: Path) -> list[tuple[int, str, ElectrodeTests, np.ndarray]]:
    """The four training phantoms with the gaps of every level."""
    specimen, found = tank(), []
    reference = ElectrodeVoltages.read(folder / "TrainingData" / "ref.mat")
    for level in LEVELS:
        gaps = np.isnan(ElectrodeVoltages.read(folder / "Evaluation" / f"level{level}" / "data1.mat").voltages)
        for number in range(1, 5):
            body = ElectrodeVoltages.read(folder / "TrainingData" / f"data{number}.mat")
            tests = body.tests(specimen, reference, noise=NOISE)
            tests = replace(tests, voltages=np.where(gaps, np.nan, tests.voltages))
            found.append((level, f"{level}-{number}", tests, truth(folder / "GroundTruths" / f"true{number}.mat")))
    return found


def judged(level: int, name: str, tests: ElectrodeTests, known: np.ndarray) -> dict[str, Any]:
    """One phantom: its score, and how often pixels that are called certain are right."""
    start = time.process_time()
    law = ElectrodeInversion()(tests)
    labels, certain = segmented(law)
    seconds = time.process_time() - start
    right = (labels == known)[certain]
    return {
        "name": name, "level": level, "score": score(known, labels), "seconds": round(seconds, 2),
        "chi_square": law.chi_square, "certain": float(certain.mean()), "certain_right": float(right.mean()),
        "sha256": hashlib.sha256(np.nan_to_num(tests.voltages).tobytes()).hexdigest(),
    }  # fmt: skip


def segmented(law: ElectrodeLaw, *, threshold: float = 0.67) -> tuple[np.ndarray, np.ndarray]:
    """Labels of the pixels, and which of those inside are certain."""
    line = (np.arange(PIXELS) + 0.5) * 2 / PIXELS - 1
    x, y = np.meshgrid(line, -line)  # rows from the top
    inside = np.hypot(x, y) < 1
    points = np.stack([x[inside], y[inside]], axis=-1)
    field, deviation = law.field_at(points), law.deviation_at(points)
    labels = np.zeros((PIXELS, PIXELS), dtype=int)
    labels[inside] = np.where(field > threshold, CONDUCTIVE, np.where(field < -threshold, RESISTIVE, 0))
    above, below = norm.sf((threshold - field) / deviation), norm.cdf((-threshold - field) / deviation)
    certain = np.zeros((PIXELS, PIXELS), dtype=bool)
    certain[inside] = np.max([above, below, 1 - above - below], axis=0) >= CERTAIN
    return labels, certain


def score(known: np.ndarray, labels: np.ndarray) -> float:
    """Of the challenge."""
    return float(np.mean([similarity(known == label, labels == label) for label in (CONDUCTIVE, RESISTIVE)]))


def similarity(known: np.ndarray, found: np.ndarray) -> float:
    """Structural similarity of two binary images in a Gaussian window, corrected at the border."""
    apart = np.abs(np.subtract.outer(np.arange(PIXELS), np.arange(PIXELS)))
    window = np.where(apart <= CUT, np.exp(-0.5 * (apart / WIDTH) ** 2), 0.0)
    total = window @ np.ones((PIXELS, PIXELS)) @ window.T

    def mean(image: np.ndarray) -> np.ndarray:
        return np.asarray(window @ image @ window.T / total)

    first, second = (mean(image.astype(float)) for image in (known, found))
    both = mean((known & found).astype(float)) - first * second
    spread = first - first**2 + second - second**2  # the square of a binary image is itself
    return float(np.mean(
        (2 * first * second + FIRST) * (2 * both + SECOND) / ((first**2 + second**2 + FIRST) * (spread + SECOND))
    ))  # fmt: skip
