"""What users would take instead: pyEIT on the tank, SimPEG and pyGIMLi on an aquifer, torch-fem on a plate.

The same data, the same machine, one run; errors and processor time, one thread. Every package has an environment of its
own in the folder `environments`, made by pip if it is not there; a package that does not install is shown with what pip
said. Settings of the others are chosen on a validation system, on the tank on the training phantoms; nipde has those it
comes with. Every result leaves a file until the run has ended: an interrupted one goes on.
"""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import record
from benchmarks.competitors import aquifer, plate, tank
from benchmarks.competitors.environment import Environment, environment
from nipde.atomic import write_bytes

SEED = 4057
PACKAGES = ("pyeit", "simpeg", "pygimli", "torch-fem")
#: Systems of every material of the aquifer, and of the plate.
SYSTEMS, SPECIMENS = 5, 3
#: A result by its name, by work if it is not on file; None if none is to be started.
Finished = Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any] | None]


def measure(
    *, data: Path | None = None, environments: Path = Path("runs/environments"), quick: bool = False,
    finished: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """All cases; with `quick` one system of each and the first setting of all; with `finished` what is on file only.

    No tank without `data`.
    """
    torch.set_num_threads(1)
    folder = environments / "finished"
    folder.mkdir(parents=True, exist_ok=True)
    places = {package: environment(environments, package) for package in PACKAGES}
    pending: list[str] = []

    def result(name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        path = folder / f"{name.replace(' ', '-')}.json"
        if not path.exists():
            if finished:
                pending.append(name)
                return None
            write_bytes(path, json.dumps({"time": record.now(), **work()}).encode())
        return dict(json.loads(path.read_bytes()))

    measured = {
        "packages": {package: {"installed": place.python is not None, "pip": place.message}
                     for package, place in places.items()},
        "aquifer": of_aquifer(places, result, systems=1 if quick else SYSTEMS, choose=not quick),
        "plate": of_plate(places["torch-fem"], result, specimens=1 if quick else SPECIMENS, choose=not quick),
        "tank": None if data is None else tank.compared(places["pyeit"], result, data=data, quick=quick),
        "quick": quick, "pending": pending,
    }  # fmt: skip
    if not pending:
        shutil.rmtree(folder)
    return measured


def of_aquifer(
    places: dict[str, Environment], result: Finished, *, systems: int, choose: bool = True
) -> dict[str, Any]:
    """Rows by material, package and penalty, and how settings did on the validation systems."""

    def by_package(package: str, kind: str, setting: int, material: str, number: int) -> dict[str, Any] | None:
        used = aquifer.TRIED[package, kind][setting]
        return result(
            f"aquifer {package} {kind} {setting} {material} {number}",
            lambda: aquifer.by_package(package, places[package], used, material, number),
        )

    chosen: dict[tuple[str, str], int] = {}
    tried = []
    for (package, kind), settings in aquifer.TRIED.items():
        if places[package].python is None:
            continue
        scores = [
            mean_error([by_package(package, kind, number, material, aquifer.VALIDATION)
                        for material in aquifer.MATERIALS])
            for number in range(len(settings) if choose else 0)
        ]  # fmt: skip
        chosen[package, kind] = int(np.argmin(scores)) if scores else 0
        tried += [{"package": package, "penalty": kind, "setting": setting, "log_mean": score}
                  for setting, score in zip(settings, scores, strict=False) if np.isfinite(score)]  # fmt: skip
    rows = []
    for material in aquifer.MATERIALS:
        own = [
            result(f"aquifer nipde {material} {number}", partial(aquifer.by_nipde, material, number))
            for number in range(systems)
        ]
        rows += summary(own, material=material, package="nipde", penalty="", setting=None)
        for (package, kind), setting in chosen.items():
            each = [by_package(package, kind, setting, material, number) for number in range(systems)]
            used = aquifer.TRIED[package, kind][setting]
            rows += summary(each, material=material, package=package, penalty=kind, setting=used)
    return {"rows": rows, "tried": tried}


def of_plate(place: Environment, result: Finished, *, specimens: int, choose: bool = True) -> dict[str, Any]:
    """Rows by penalty, and how weights did on the validation specimen."""

    def by_package(kind: str, setting: int, number: int) -> dict[str, Any] | None:
        used = plate.TRIED[kind][setting]
        return result(f"plate torch-fem {kind} {setting} {number}", lambda: plate.by_package(place, used, number))

    own = [result(f"plate nipde {number}", partial(plate.by_nipde, number)) for number in range(specimens)]
    rows = summary(own, package="nipde", penalty="", setting=None)
    tried = []
    for kind, settings in plate.TRIED.items() if place.python else ():
        scores = [mean_error([by_package(kind, number, plate.VALIDATION)])
                  for number in range(len(settings) if choose else 0)]  # fmt: skip
        tried += [{"penalty": kind, "setting": setting, "log_mean": score}
                  for setting, score in zip(settings, scores, strict=False) if np.isfinite(score)]  # fmt: skip
        best = int(np.argmin(scores)) if scores else 0
        each = [by_package(kind, best, number) for number in range(specimens)]
        rows += summary(each, package="torch-fem", penalty=kind, setting=settings[best])
    return {"rows": rows, "tried": tried}


def mean_error(each: list[dict[str, Any] | None]) -> float:
    """Of log b or log E; infinite if one is not there: it cannot be chosen."""
    return float(np.mean([np.inf if one is None else one["log_mean"] for one in each]))


def summary(each: list[dict[str, Any] | None], **said: Any) -> list[dict[str, Any]]:
    """One row: means over the systems that are there, the worst, and all of them; none if there are none."""
    known = [one for one in each if one is not None]
    means = ("log_mean", "held_out", "seconds", "chi_square")
    return [{
        **said, "systems": len(known), "log_worst": max(one["log_mean"] for one in known),
        "version": known[0].get("version"), "each": known,
        **{name: float(np.mean([one[name] for one in known])) for name in means if name in known[0]},
    }] if known else []  # fmt: skip
