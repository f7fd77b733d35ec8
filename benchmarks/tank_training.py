"""`python -m benchmarks.tank_training --data FOLDER`: simulate tanks, train the networks of `tank-learned`, keep them.

Of the challenge it reads what an experimenter has without any phantom: injections, readings, the empty tank, and which
readings the levels lack. Whatever was interrupted goes on with the same command.
"""

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
from jsonargparse import ArgumentParser

from benchmarks.record import commit, machine
from benchmarks.tank import training
from benchmarks.tank_simulations import TOGETHER, simulated, turned
from nipde.context.electrode_tests import ElectrodeTests
from nipde.training.electrode_training import SegmentationTraining
from nipde.weights import segmentation

#: Files of phantoms to train on, and those that follow them to choose by.
FILES, HELD_OUT = 28, 2
SEEDS = (1, 2, 3)
STEPS = 4000
#: Of the water, by the empty tank on a mesh of the simulations.
CONDUCTIVITY = 0.745
WEIGHTS = Path(__file__).parent / "weights"


def train(data: Path, work: Path, *, seed: int, steps: int = STEPS, files: int = FILES, out: Path = WEIGHTS) -> Path:
    """One network, to OUT/tank-SEED.safetensors."""
    torch.set_num_threads(1)
    start = time.process_time()
    phantoms = simulated(work, range(files), progress=_say)
    trained = SegmentationTraining(steps=steps)
    network = trained(
        levels(data), phantoms, seed=seed, view=turned, folder=work / "networks",
        progress=lambda step, loss: _say(f"seed {seed}: {step} of {steps} steps, loss {loss:.4f}"),
    )  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"tank-{seed}.safetensors"
    about = {
        "for": "the tank of the Kuopio Tomography Challenge 2023, radius 1, 32 electrodes, with the gaps of its levels",
        "seed": seed, "phantoms": files * TOGETHER, "training": asdict(trained), "commit": commit(),
        "machine": machine(), "processor_seconds": round(time.process_time() - start),
    }  # fmt: skip
    segmentation.save(network, path, about=about)
    return path


def levels(data: Path) -> list[ElectrodeTests]:
    """Injections, readings and gaps of every level, for water of conductivity 1."""
    firsts = {level: tests for level, _, tests, _ in reversed(training(data))}
    return [
        replace(tests, reference=CONDUCTIVITY * tests.reference, noise=CONDUCTIVITY * tests.noise)
        for _, tests in sorted(firsts.items())
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    options = ArgumentParser(prog="python -m benchmarks.tank_training", description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="folder of the challenge, as for `tank`")
    options.add_argument("--work", type=Path, default=Path("runs/tank"), help="folder of simulations and runs")
    options.add_argument("--seeds", type=list[int], default=list(SEEDS), help="of the networks, e.g. [1]")
    chosen = options.parse_args()
    for number in chosen.seeds:
        _say(f"written: {train(chosen.data, chosen.work, seed=number)}")
