"""The measured water tank with networks that were trained on simulations, beside the inversion: see `tank`.

Three trainings: alone, averaged with the inversion, and with the inversion around them. Weights are those of
`python -m benchmarks.tank_training`; how they are combined was chosen on the training phantoms and simulations. A
phantom that was judged is on file, for these weights and settings: an interrupted measurement goes on.
"""

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tank import CERTAIN, CONDUCTIVE, PIXELS, RESISTIVE, evaluation, folder_of, score, segmented, training
from benchmarks.tank_training import SEEDS, WEIGHTS
from nipde.atomic import write_bytes
from nipde.context.electrode_tests import ElectrodeTests
from nipde.estimators.inverse.electrode_inversion import ElectrodeInversion
from nipde.estimators.inverse.linearised_images import LinearisedImages
from nipde.estimators.segmentation.electrode_segmentation import ElectrodeSegmentation, PhaseProbabilities
from nipde.estimators.segmentation.network import SegmentationNetwork
from nipde.weights import segmentation

SEED = 0
#: Labels of the challenge in the order of the phases.
LABELS = np.array([RESISTIVE, 0, CONDUCTIVE])
#: Where judged phantoms are kept.
WORK = Path("runs/tank/judged")
SETTINGS = ("weight", "threshold", "width")
#: Of the inversion around a network, which was judged first.
HEIGHT, WEIGHT = 1.6, 0.15
Networks = tuple[SegmentationNetwork, ...]
Judged = dict[str, Any]
#: Labels, and which are certain.
Picture = tuple[np.ndarray, np.ndarray]


def measure(*, data: Path | None = None, quick: bool = False) -> dict[str, Any]:
    """Every phantom of every level, once; with `quick` the training phantoms, masked to all levels."""
    folder = folder_of(data)
    paths = {seed: WEIGHTS / f"tank-{seed}.safetensors" for seed in SEEDS}
    networks = tuple(segmentation.load(path) for path in paths.values())
    files = WORK / weights_digest(paths.values())
    found = [on_file(files, networks, *one) for one in (training(folder) if quick else evaluation(folder))]
    methods = found[0]["methods"]
    totals = {name: float(sum(one["methods"][name]["score"] for one in found)) for name in methods}
    return {
        "phantoms": found, "totals": totals, "training": quick,
        "trained": {str(seed): segmentation.card(path) for seed, path in paths.items()},
        "settings": {name: getattr(ElectrodeSegmentation(networks), name) for name in SETTINGS}
        | {"around": {"height": HEIGHT, "weight": WEIGHT}},
    }  # fmt: skip


def weights_digest(paths: Iterable[Path]) -> str:
    """Of the weights and of how they are combined."""
    digest = hashlib.sha256(repr(ElectrodeSegmentation(())).encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def on_file(files: Path, networks: Networks, level: int, name: str, tests: ElectrodeTests, known: np.ndarray) -> Judged:
    """Read, or judged and written."""
    path = files / f"{hashlib.sha256(np.nan_to_num(tests.voltages).tobytes()).hexdigest()[:16]}.json"
    if not path.is_file():
        files.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(judged(networks, level, name, tests, known)).encode())
    return dict(json.loads(path.read_bytes()))


def judged(networks: Networks, level: int, name: str, tests: ElectrodeTests, known: np.ndarray) -> Judged:
    """One phantom by every network alone, averaged with the inversion, and with the inversion around it."""
    start = time.process_time()
    linear = LinearisedImages.of(tests)
    law = ElectrodeInversion()(tests)
    before = time.process_time() - start
    pictures, seconds = {"inversion": segmented(law)}, list[float]()
    for seed, network in zip(SEEDS, networks, strict=True):
        start = time.process_time()
        alone = ElectrodeSegmentation((network,), inversion=None)(tests, linear=linear)
        pictures[f"mean {seed}"] = labelled(replace(alone, law=law))
        seconds.append(before + time.process_time() - start)
        pictures[f"network {seed}"] = labelled(alone)
        around = ElectrodeSegmentation((network,), height=HEIGHT, weight=WEIGHT)(tests, linear=linear)
        pictures[f"around {seed}"] = labelled(around)
    return {
        "name": name, "level": level, "seconds": round(float(np.mean(seconds)), 2),
        "methods": {key: judgement(known, *each) for key, each in pictures.items()},
        "sha256": hashlib.sha256(np.nan_to_num(tests.voltages).tobytes()).hexdigest(),
    }  # fmt: skip


def judgement(known: np.ndarray, labels: np.ndarray, certain: np.ndarray) -> dict[str, float]:
    """Score, and how often pixels that are called certain are right."""
    right = (labels == known)[certain]
    return {"score": score(known, labels), "certain": float(certain.mean()), "certain_right": float(right.mean())}


def labelled(found: PhaseProbabilities) -> Picture:
    """Labels of the pixels, and which of those inside are certain."""
    line = (np.arange(PIXELS) + 0.5) * 2 / PIXELS - 1
    x, y = np.meshgrid(line, -line)  # rows from the top
    inside = np.hypot(x, y) < 1
    shares = found.at(np.stack([x[inside], y[inside]], axis=-1))
    labels, certain = np.zeros((PIXELS, PIXELS), dtype=int), np.zeros((PIXELS, PIXELS), dtype=bool)
    labels[inside], certain[inside] = LABELS[shares.argmax(axis=0)], shares.max(axis=0) >= CERTAIN
    return labels, certain
