"""Command lines that must be refused: every option of every verb with values it cannot have, and crafted ones.

Names are those of `world`, a folder in which they are run.
"""

import json
import os
import shutil
from pathlib import Path

import nipde
from nipde.data.darcy import DarcyRecipe
from nipde.measurements.samples import sample

NUL = "no\0name"
COUNT = ["0", "-2", "x", "1.5", ""]
NATURAL = ["-1", "x", "2.5"]
NON_NEGATIVE = ["-1", "nan", "inf", ".nan", "x"]
LEVEL = ["0", "1", "-0.5", "1.5", "nan", "x"]
FILE = ["adir", "plain/x{}", "/proc/x{}", "x" * 300 + "{}", NUL + "{}", "", "/dev/null"]
FOLDER = ["plain", "plain/x", "/proc/x", "x" * 300, NUL, ""]
ARCHIVE = ["nowhere", "plain", "adir", "broken", "cut", "foo://x", NUL, "", "/dev/null"]
MEASURED = ["nowhere.npz", "adir", "plain", "cut.npz", "deep.toml", "latin.toml", "bigint.toml", NUL, "/dev/null"]
CHOICE = ["bogus", "", "3"]
TRUTH = ["maybe", "2"]
UNITS = ["x", "x=", "=m", "x=furlongz", "nothing=m"]
NODES = ["abc", "1", "-5", "3,3,3,3", "0", "1e3", "99999,99999"]
WEIGHTS = ["bogus", "plain", "adir", NUL, "cut.safetensors", "tissue-gated"]
STORAGE = ["nojson", "[1]", "{", "3"]

MEASUREMENT = {"--units": UNITS, "--response": ["nope", "head,,"], "--load": ["nope"], "--nodes": NODES,
               "--weights": WEIGHTS}  # fmt: skip
IDENTIFICATION = {**MEASUREMENT, "--phases": [*COUNT, "1000"], "--level": LEVEL, "--baselines": TRUTH,
                  "--piecewise-constant": TRUTH}  # fmt: skip

#: For every command that would work: bad values of its options; None stands for the first argument.
TABLE = {
    "generate darcy --out new --systems 2 --grid 5 --pairs 2 --workers 1": {
        "--out": [*FOLDER, "foo://x", "http://127.0.0.1:9/x", "adir"], "--systems": COUNT, "--seed": NATURAL,
        "--workers": COUNT, "--grid": ["1", "0", "-3", "x"], "--pairs": COUNT, "--shard-systems": NATURAL,
        "--shard": ["0/4", "5/4", "1/0", "-1/4", "1", "x", "1/x", "1.5/4", "/", NUL], "--merge": COUNT,
        "--split": ["1", "[0.5,0.6,0.7]", "[1,-1,1]", "[nan,0,1]", "x"], "--precision": CHOICE,
        "--storage-options": STORAGE, "--phases": ["[1,-3]", "[]", "x"], "--face-mean": CHOICE,
        "--config": ["nowhere.yaml", "good.npz", "adir", NUL, "/dev/zero", "deep.json"],
    },
    "info arch": {None: ARCHIVE, "--storage-options": STORAGE},
    "show arch --out new.png": {
        "--system": [*NATURAL, "999"], "--pair": [*NATURAL, "99"], "--dpi": COUNT,
        "--out": [*(one.format(".png") for one in FILE), "p.xyz"],
    },
    "verify arch": {None: ARCHIVE, "--rebuild": [*NATURAL, "-4"]},
    "estimate arch --estimator ridge --out new.png": {
        "--system": [*NATURAL, "999"], "--context": [*COUNT, "100000"], "--noise": NON_NEGATIVE, "--seed": NATURAL,
        "--estimator": ["bogus", "plain", "nips.safetensors"], "--out": [one.format(".svg") for one in FILE],
    },
    "evaluate ridge --data arch --part train --pairs 2 --json new.json": {
        None: ["bogus", "plain", "adir"], "--data": ARCHIVE, "--pairs": [*COUNT, "500"], "--noise": NON_NEGATIVE,
        "--load-noise": NON_NEGATIVE, "--systems": COUNT, "--seed": NATURAL, "--part": CHOICE, "--loads": CHOICE,
        "--json": [one.format(".json") for one in FILE],
    },
    "train nips-2 --data arch --out new --steps 2 --context 2 --no-tensorboard": {
        None: ["bogus", "adir", "bad.json", "latin.json", "deep.json", "typed.json"], "--data": ARCHIVE,
        "--out": FOLDER, "--steps": ["0", "-1", "x"], "--context": ["0", "500", "x", "[]"], "--batch": COUNT,
        "--learning-rate": NON_NEGATIVE, "--save-seconds": NON_NEGATIVE, "--log-every": COUNT, "--threads": NATURAL,
        "--devices": COUNT, "--modes": ["0", "-2", "x"], "--channels": COUNT, "--layers": COUNT,
        "--second-moment": ["2", "-1", "nan"], "--weight-decay": NON_NEGATIVE, "--warmup": NATURAL,
        "--validate-every": COUNT, "--clip": NON_NEGATIVE, "--kind": CHOICE, "--noise": ["-1", "nan", "inf"],
    },
    "discover good.npz --out new --baselines false": {None: MEASURED, "--out": FOLDER, **IDENTIFICATION},
    "design good.npz --out new.npz": {
        None: MEASURED, **MEASUREMENT, "--count": COUNT, "--by": CHOICE, "--noise": NON_NEGATIVE,
        "--candidates": ["nowhere.npz", "cut.npz", "plain"], "--out": [one.format(".npz") for one in FILE],
    },
    "check good.npz": {None: MEASURED, "--units": UNITS, "--response": ["nope"], "--nodes": NODES},
    "publish run --name mine --out new": {
        None: ["nowhere", "adir", "plain", "cut.safetensors"], "--out": FOLDER, "--calibrate": ARCHIVE,
        "--systems": COUNT,
    },
    "export the-well arch --out new.h5": {
        None: CHOICE, "--out": [*(one.format(".h5") for one in FILE), "x.txt"], "--part": CHOICE,
    },
}  # fmt: skip

CRAFTED = [
    "frobnicate", "--frobnicate", "bench", "Generate", "generate moon", "generate darcy", "info", "show", "verify",
    "discover", "discover good.npz", "design", "train nips-2", "train", "evaluate", "evaluate ridge", "export",
    "export the-well", "publish", "publish adir", "check", "check good.npz more", "info arch --bogus",
    "info arch extra", "estimate", "estimate arch --system", "discover good.npz --out new --weights", "show arch --out",
    "train nips-2 --data arch --out new --steps 2 --minutes 1 --context 2", "verify arch --rebuild=-4",
    "generate darcy --out s3:// --systems 2 --workers 1",
]  # fmt: skip


def command_lines() -> list[list[str]]:
    """All of them, as words."""
    lines = [line.split() for line in CRAFTED]
    for command, options in TABLE.items():
        words = command.split()
        for option, values in options.items():
            for value in values:
                if option is None:
                    line = [words[0], value, *words[2:]]
                elif option in words:
                    place = words.index(option)
                    line = [*words[: place + 1], value, *words[place + 2 :]]
                else:
                    line = [*words, option, value]
                lines.append(line)
    return lines


def world(folder: Path) -> Path:
    """A folder with good and bad files of every kind."""
    good = sample().read_bytes()
    (folder / "good.npz").write_bytes(good)
    (folder / "cut.npz").write_bytes(good[: len(good) // 2])
    (folder / "plain").write_text("x")
    (folder / "adir").mkdir()
    (folder / "adir" / "note").write_text("y")
    nipde.generate(nipde.Plan(DarcyRecipe(nodes=5, pairs=5), systems=12), folder / "arch", workers=1)
    for name, data in (("broken", b"{}"), ("cut", b"")):
        shutil.copytree(folder / "arch", folder / name)
        (folder / name / "manifest.json").write_bytes(data)
    model = nipde.NIPS(nipde.Grid.uniform(9, dimension=2), pairs=5, layers=1, channels=4)
    nipde.weights.save(model, folder / "nips.safetensors")
    (folder / "cut.safetensors").write_bytes((folder / "nips.safetensors").read_bytes()[:-9])
    recipe = nipde.TrainingRecipe(nipde.training.recipe.ModelRecipe(channels=4, layers=1), context=2, steps=1)
    nipde.fit(recipe, folder / "arch", folder / "run")
    (folder / "bad.json").write_text('{"recipe": {"model": 3}}')
    (folder / "typed.json").write_text(json.dumps({"recipe": {"steps": "a", "model": {"kind": "nips"}}}))
    (folder / "latin.json").write_bytes(b"\xff\xfe")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "deep.toml").write_text("a = " + "[" * 100_000)
    (folder / "latin.toml").write_bytes(b'units = "\xff\xfe"')
    (folder / "bigint.toml").write_text("a = " + "9" * 5000)
    return folder


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder, with size and time of change."""
    found = {}
    for path in folder.rglob("*"):
        status = os.lstat(path)
        found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found
