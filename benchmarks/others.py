"""What users would take instead: pyEIT on the tank, SimPEG and pyGIMLi on an aquifer, torch-fem on a plate.

The same data, the same machine, one run; errors and processor time, one thread. Every package has an environment of its
own in the folder `environments`, made by pip if it is not there; a package that does not install is shown with what pip
said. Settings of the others are chosen on a validation system, on the tank on the training phantoms; nipde has those it
comes with. Every result leaves a file until the run has ended: an interrupted one goes on.
"""

import json
import shutil
from collections.abc import Callable
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
Finished = Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]]


def measure(
    *, data: Path | None = None, environments: Path = Path("runs/environments"), quick: bool = False
) -> dict[str, Any]:
    """All cases; with `quick` one system of each, and the training phantoms of the tank. No tank without `data`."""
    torch.set_num_threads(1)
    folder = environments / f"finished{'-quick' if quick else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    places = {package: environment(environments, package) for package in PACKAGES}

    def finished(name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        path = folder / f"{name.replace(' ', '-')}.json"
        if not path.exists():
            write_bytes(path, json.dumps({"time": record.now(), **work()}).encode())
        return dict(json.loads(path.read_bytes()))

    measured = {
        "packages": {package: {"installed": place.python is not None, "pip": place.message}
                     for package, place in places.items()},
        "aquifer": of_aquifer(places, finished, systems=1 if quick else SYSTEMS),
        "plate": of_plate(places["torch-fem"], finished, specimens=1 if quick else SPECIMENS),
        "tank": None if data is None else tank.compared(places["pyeit"], finished, data=data, quick=quick),
    }  # fmt: skip
    shutil.rmtree(folder)
    return measured


def of_aquifer(places: dict[str, Environment], finished: Finished, *, systems: int) -> dict[str, Any]:
    """Rows by material, package and penalty, and how settings did on the validation systems."""
    tried, chosen = [], {}
    for package, kinds in aquifer.TRIED.items():
        place = places[package]
        for kind, settings in kinds.items() if place.python else ():
            scores = []
            for number, setting in enumerate(settings):
                each = [
                    finished(f"aquifer {package} {kind} {number} {material} validation",
                             lambda p=package, s=setting, m=material, at=place: aquifer.by_package(
                                 p, at, s, m, aquifer.VALIDATION))
                    for material in aquifer.MATERIALS
                ]  # fmt: skip
                scores.append(float(np.mean([one["log_mean"] for one in each])))
                tried.append({"package": package, "penalty": kind, "setting": setting, "log_mean": scores[-1]})
            chosen[package, kind] = settings[int(np.argmin(scores))]
    rows = []
    for material in aquifer.MATERIALS:
        each: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for number in range(systems):
            for (package, kind), setting in [(("nipde", "chosen"), None), *chosen.items()]:
                work = (lambda m=material, n=number: aquifer.by_nipde(m, n)) if setting is None else (
                    lambda p=package, s=setting, m=material, n=number: aquifer.by_package(p, places[p], s, m, n)
                )  # fmt: skip
                one = finished(f"aquifer {package} {kind} {material} {number}", work)
                each.setdefault((package, kind), []).append(one)
        rows += [{"material": material, "package": package, "penalty": kind, "setting": chosen.get((package, kind)),
                  **summary(found)} for (package, kind), found in each.items()]  # fmt: skip
    return {"rows": rows, "tried": tried}


def of_plate(place: Environment, finished: Finished, *, specimens: int) -> dict[str, Any]:
    """Rows by material and penalty, and how weights did on the validation specimen."""
    tried, rows = [], []
    for material in plate.MATERIALS:
        chosen: dict[str, dict[str, Any] | None] = {"chosen": None}
        for kind, settings in plate.TRIED.items() if place.python else ():
            scores = []
            for number, setting in enumerate(settings):
                one = finished(
                    f"plate torch-fem {kind} {number} {material} validation",
                    lambda s=setting, m=material: plate.by_package(place, s, m, plate.VALIDATION),
                )
                scores.append(one["log_mean"])
                tried.append({"material": material, "penalty": kind, "setting": setting, **one})
            chosen[kind] = settings[int(np.argmin(scores))]
        for kind, setting in chosen.items():
            package = "nipde" if setting is None else "torch-fem"
            found = [
                finished(f"plate {package} {kind} {material} {number}",
                         lambda s=setting, m=material, n=number: plate.by_nipde(m, n) if s is None
                         else plate.by_package(place, s, m, n))
                for number in range(specimens)
            ]  # fmt: skip
            rows.append({"material": material, "package": package, "penalty": kind, "setting": setting,
                         **summary(found)})  # fmt: skip
    return {"rows": rows, "tried": tried}


def summary(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over systems, the worst, and all of them."""
    means = ("log_mean", "held_out", "seconds", "chi_square")
    return {
        "systems": len(each), "log_worst": max(one["log_mean"] for one in each), "version": each[0].get("version"),
        **{name: float(np.mean([one[name] for one in each])) for name in means if name in each[0]}, "each": each,
    }  # fmt: skip
