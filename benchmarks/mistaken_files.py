"""Mistakes people make with files: each spoils a good measurement in one way, drawn at random within it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Measurement
from nipde.measurements.read import read
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

UNITS = {"x": "mm", "load": "N/mm^2", "response": "mm"}
GRID = Grid((Axis(15, 6.3), Axis(11, 4.5)))
SQUARE = Grid.uniform(13, length=5.4)
Arrays = dict[str, Any]


@dataclass
class Case:
    """A good measurement to spoil: arrays of an npz or columns of a CSV file, and what the caller says."""

    rng: np.random.Generator
    arrays: Arrays
    units: dict[str, str] = field(default_factory=lambda: dict(UNITS))
    #: Keys of a TOML file; without any, the file is read directly.
    keys: dict[str, Any] = field(default_factory=dict)
    name: str = "measured.npz"
    #: A table instead of arrays.
    text: str | None = None
    #: Last touch on the bytes of the file.
    damage: Callable[[bytes], bytes] = lambda content: content
    #: Further files beside it.
    beside: dict[str, str] = field(default_factory=dict)

    def read(self, folder: Path) -> Measurement:
        """Write the files and read them."""
        path = folder / self.name
        if self.text is not None:
            path.write_text(self.text)
        else:
            scratch = folder / "scratch.npz"
            np.savez(scratch, **self.arrays)
            path.write_bytes(scratch.read_bytes())
        path.write_bytes(self.damage(path.read_bytes()))
        for name, text in self.beside.items():
            (folder / name).write_text(text)
        if not self.keys:
            return read(path, units=self.units)
        keys = {"files": [self.name], "units": self.units, **self.keys}
        (folder / "experiment.toml").write_text(_toml(keys))
        return read(folder / "experiment.toml")

    def table(self) -> list[list[str]]:
        """The same as rows of a long table, the names first."""
        x, y = (axis.ravel() for axis in np.meshgrid(self.arrays["x"], self.arrays["y"], indexing="ij"))
        rows = [["pair", "x", "y", "load", "response"]]
        for pair, (load, response) in enumerate(zip(self.arrays["loads"], self.arrays["responses"], strict=True)):
            columns = (x, y, load.ravel(), response.ravel())
            rows += [[str(pair + 1), *(repr(float(v)) for v in row)] for row in zip(*columns, strict=True)]
        return rows


#: Makes one mistake.
Spoil = Callable[[Case], object]


@dataclass(frozen=True)
class Mistake:
    """What went wrong, what has to happen, and a word that has to be in the sentence."""

    name: str
    outcome: Literal["error", "warning", "shown"]
    word: str
    spoil: Spoil


def good(rng: np.random.Generator, *, grid: Grid = GRID) -> Case:
    """Pressures on a membrane of two tensions, and its deflections."""
    unit = Grid(tuple(Axis(axis.nodes) for axis in grid.axes))
    tension = TwoPhase(12.0, 3.0)(GaussianField(4.0).sample(unit, rng=rng, count=1))[0]
    loads = GaussianField(1.0, rms=1.0).sample(unit, rng=rng, count=6)
    responses = Darcy(grid, tension).solve(loads)
    x, y = (axis.coordinates for axis in grid.axes)
    return Case(rng, {"x": x, "y": y, "loads": loads, "responses": responses})


def _toml(keys: dict[str, Any]) -> str:
    """Keys as TOML; tables and lists of tables last."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in keys.items() if not _tables(value)]
    for key, value in keys.items():
        if isinstance(value, dict):
            plain += [f"[{key}]", *(f'"{name}" = {json.dumps(word)}' for name, word in value.items())]
        elif _tables(value):
            for one in value:
                plain += [f"[[{key}]]", *(f"{name} = {json.dumps(word)}" for name, word in one.items())]
    return "\n".join(plain) + "\n"


def _tables(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def change(name: str, how: Callable[[np.ndarray, np.random.Generator], Any]) -> Spoil:
    """Another array of this name."""

    def spoil(case: Case) -> None:
        case.arrays[name] = how(case.arrays[name], case.rng)

    return spoil


def drop(name: str) -> Spoil:
    """Leave an array out."""
    return lambda case: case.arrays.pop(name)


def misspell(name: str) -> Spoil:
    """An array whose name lacks a letter."""

    def spoil(case: Case) -> None:
        case.arrays[typo(name, case.rng)] = case.arrays.pop(name)

    return spoil


def add(name: str, of: Callable[[tuple[int, ...], np.random.Generator], Any]) -> Spoil:
    """One more array, by the shape of the loads."""

    def spoil(case: Case) -> None:
        case.arrays[name] = of(case.arrays["loads"].shape, case.rng)

    return spoil


def say(key: str, *values: Any) -> Spoil:
    """One of these values for a key of the TOML file."""

    def spoil(case: Case) -> None:
        case.keys[key] = values[int(case.rng.integers(len(values)))]

    return spoil


def unit(role: str, *words: str) -> Spoil:
    """One of these words as a unit, or none."""

    def spoil(case: Case) -> None:
        if words:
            case.units[role] = str(case.rng.choice(words))
        else:
            case.units.pop(role)

    return spoil


def both(first: Spoil, second: Spoil) -> Spoil:
    """One after the other."""

    def spoil(case: Case) -> None:
        first(case)
        second(case)

    return spoil


def as_table(how: Callable[[list[list[str]], np.random.Generator], Any], *, separator: str = ",") -> Spoil:
    """The measurement as a long table, its cells changed."""

    def spoil(case: Case) -> None:
        rows = how(case.table(), case.rng)
        case.name, case.text = "measured.csv", "\n".join(separator.join(row) for row in rows) + "\n"

    return spoil


def named(name: str) -> Spoil:
    """Another name of the file."""

    def spoil(case: Case) -> None:
        case.name = name

    return spoil


def damaged(how: Callable[[bytes, np.random.Generator], bytes]) -> Spoil:
    """Other bytes in the file."""

    def spoil(case: Case) -> None:
        case.damage = lambda content: how(content, case.rng)

    return spoil


def described(*loads: dict[str, Any]) -> Spoil:
    """Loads of the TOML file, and as many responses."""

    def spoil(case: Case) -> None:
        case.arrays.pop("loads")
        case.arrays["responses"] = case.arrays["responses"][: len(loads)]
        case.keys["loads"] = list(loads)

    return spoil


def amounts(table: str) -> Spoil:
    """A table of amounts for one response and one described load."""

    def spoil(case: Case) -> None:
        described({"kind": "constant", "amount": "rate_1"})(case)
        case.keys["amounts"] = "amounts.csv"
        case.beside["amounts.csv"] = table

    return spoil


def second_file(last: str) -> Spoil:
    """Two tables that state their units, the second one with another last column."""

    def spoil(case: Case) -> None:
        head, rows = ["pair", "x [mm]", "y [mm]", "load [N/mm^2]", "response [mm]"], case.table()[1:]
        as_table(lambda table, rng: [head, *table[1:]])(case)
        case.beside["second.csv"] = "\n".join(",".join(row) for row in [[*head[:-1], last], *rows]) + "\n"
        case.keys["files"] = [case.name, "second.csv"]
        case.units.clear()

    return spoil


def square_with_axes_swapped(case: Case) -> None:
    """As many nodes along x as along y, rows taken for columns."""
    case.arrays = good(case.rng, grid=SQUARE).arrays
    case.arrays["responses"] = case.arrays["responses"].swapaxes(1, 2)


def pixels(case: Case) -> None:
    """Positions as a camera counts them, said to be millimetres."""
    step = int(case.rng.integers(4, 20))
    for name in "xy":
        case.arrays[name] = np.arange(len(case.arrays[name])) * step + int(case.rng.integers(50))


def scattered(case: Case) -> None:
    """Points anywhere."""
    places = case.rng.uniform(0, 4, (60, 2))
    load, response = case.rng.standard_normal((2, 60))
    case.arrays = {"x": places[:, 0], "y": places[:, 1], "load": load, "response": response}


def on_a_line(case: Case) -> None:
    """Points that span no area."""
    scattered(case)
    case.arrays["y"] = 2 * case.arrays["x"]
    case.keys["nodes"] = [9, 9]


def one_pair(case: Case) -> None:
    """Only the first."""
    for name in ("loads", "responses"):
        case.arrays[name] = case.arrays[name][:1]


def pair_repeated(case: Case) -> None:
    """One copied over another."""
    source, target = case.rng.choice(len(case.arrays["loads"]), size=2, replace=False)
    for name in ("loads", "responses"):
        case.arrays[name][target] = case.arrays[name][source]


def swapped(case: Case) -> None:
    """Loads for responses."""
    case.arrays |= {"loads": case.arrays["responses"], "responses": case.arrays["loads"]}


def components_swapped(case: Case) -> None:
    """u and v of a camera in the wrong order."""
    responses = case.arrays.pop("responses")
    case.arrays |= {"v": responses, "u": 0.5 * responses[:, ::-1]}
    case.keys["response"] = ["v", "u"]


def typo(word: str, rng: np.random.Generator) -> str:
    """The word without one of its inner letters."""
    place = int(rng.integers(1, len(word) - 1))
    return word[:place] + word[place + 1 :]


def with_value(array: np.ndarray, rng: np.random.Generator, value: float, *, count: int = 1) -> np.ndarray:
    """The array with a value at some places."""
    changed = array.astype(float)
    changed.ravel()[rng.choice(array.size, size=count, replace=False)] = value
    return changed


def with_cell(rows: list[list[str]], rng: np.random.Generator, column: int, cell: str) -> list[list[str]]:
    """The table with a cell in some row."""
    row = int(rng.integers(1, len(rows)))
    rows[row] = [*rows[row][:column], cell, *rows[row][column + 1 :]]
    return rows
