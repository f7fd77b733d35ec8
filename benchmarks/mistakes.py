"""Are mistakes detected? 150 of them, drawn from kinds that people make with files, each read as a person would.

Each has to end in a typed error that names the file and says what was expected, what came and what to do; or in a
warning of the printed interpretation. What no program can know, such as a turned axis, has to show in that print.
"""

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import mistaken_files as make
from benchmarks.mistaken_files import Mistake, Spoil, change, say, unit
from nipde.errors import NipdeError

SEED = 31415
TRIALS = 150
#: Stands for the temporary folder that a mistake is made in.
FOLDER = "FOLDER"
#: An error says all of this.
COMPLETE = re.compile(r"expected .*got .*: .+", re.DOTALL)


def measure(*, quick: bool) -> dict[str, Any]:
    """What became of each mistake; `quick` makes every kind once, the full run 150 in all."""
    kinds = mistakes()
    trials = len(kinds) if quick else TRIALS
    # Every kind once, then again in another order.
    order = [*range(len(kinds)), *np.random.default_rng(SEED).permutation(len(kinds))]
    rows = []
    for trial in range(trials):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(_judged(kinds[order[trial]], Path(folder), np.random.default_rng([SEED, trial])))
    return {
        "kinds": len(kinds),
        "trials": trials,
        "detected": sum(row["detected"] for row in rows),
        **{outcome: sum(row["outcome"] == outcome for row in rows) for outcome in ("error", "warning", "shown")},
        "rows": rows,
    }


def _judged(mistake: Mistake, folder: Path, rng: np.random.Generator) -> dict[str, Any]:
    case = make.good(rng)
    # What is only shown has to differ from what a good measurement shows.
    untouched = case.read(folder).interpretation() if mistake.outcome == "shown" else ""
    mistake.spoil(case)
    try:
        result = case.read(folder)
    except NipdeError as error:
        # The record is the same wherever the folder was.
        said = str(error).replace(f"{folder}/", "").replace(str(folder), FOLDER)
        files = {case.name, *case.beside, "experiment.toml", *case.keys.get("files", ()), FOLDER}
        complete = bool(COMPLETE.search(said)) and any(name in said for name in files)
        return _row(mistake, "error", said, right=complete)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".replace(str(folder), FOLDER)
        return _row(mistake, "untyped error", said, right=False)
    kind = "warning" if mistake.outcome == "warning" else "reading"
    said = next((str(note) for note in result.notes if note.kind == kind and mistake.word in note.text), "")
    if mistake.outcome == "shown" and said in untouched:
        said = ""
    return _row(mistake, mistake.outcome if said and mistake.outcome != "error" else "silent", said, right=bool(said))


def _row(mistake: Mistake, outcome: str, said: str, *, right: bool) -> dict[str, Any]:
    result = right and outcome == mistake.outcome and mistake.word in said
    return {"mistake": mistake.name, "outcome": outcome, "detected": result, "message": said}


def mistakes() -> tuple[Mistake, ...]:
    """All kinds."""
    return (*_of_arrays(), *_of_files(), *_of_tables(), *_of_units(), *_of_descriptions(), *_of_loads(), *_visible())


Kinds = list[tuple[str, str, Spoil]]
POINT = {"kind": "point", "position": [2.0, 2.0]}


def _of_arrays() -> list[Mistake]:
    wrong: Kinds = [
        ("fewer responses than loads", "pair up", change("responses", lambda a, rng: a[: rng.integers(1, 5)])),
        ("responses on another grid", "responses", change("responses", lambda a, rng: a[:, : rng.integers(4, 14)])),
        ("loads on another grid", "loads", change("loads", lambda a, rng: a[:, :, : rng.integers(3, 10)])),
        ("loads with turned axes", "loads", change("loads", lambda a, rng: a.swapaxes(1, 2))),
        ("too many axes", "responses", change("responses", lambda a, rng: a[:, None, None, None])),
        ("pairs last", "responses", change("responses", lambda a, rng: np.moveaxis(a, 0, -1))),
        ("x too short", "x (", change("x", lambda a, rng: a[: rng.integers(4, 14)])),
        ("x of one value", "x", change("x", lambda a, rng: np.full_like(a, rng.uniform()))),
        ("NaN in a load", "loads", change("loads", lambda a, rng: make.with_value(a, rng, np.nan, count=3))),
        ("infinity in a load", "loads", change("loads", lambda a, rng: make.with_value(a, rng, np.inf))),
        ("responses all NaN", "responses", change("responses", lambda a, rng: np.full_like(a, np.nan))),
        ("no responses", "response", make.drop("responses")),
        ("no loads", "load", make.drop("loads")),
        ("no x", "x", make.drop("x")),
        ("misspelt array", "'responses'", make.misspell("responses")),
        ("complex numbers", "complex", change("responses", lambda a, rng: a + 1j * rng.standard_normal())),
        ("empty array", "responses", change("responses", lambda a, rng: a[:0])),
        ("mask all false", "mask", make.add("mask", lambda shape, rng: np.zeros(shape, dtype=bool))),
        ("mask of another shape", "mask", make.add("mask", lambda shape, rng: np.ones((rng.integers(3, 9), 4), bool))),
        ("mask of other numbers", "mask", make.add("mask", lambda shape, rng: rng.uniform(size=shape))),
        ("negative noise", "noise", make.add("noise", lambda shape, rng: -rng.uniform(0.001, 1))),
        ("texts instead of numbers", "loads", change("loads", lambda a, rng: a.astype(str))),
        ("points on one line", "line", make.on_a_line),
        ("scattered points, no nodes", "nodes=", make.scattered),
    ]
    return [Mistake(name, "error", word, spoil) for name, word, spoil in wrong]


def _of_files() -> list[Mistake]:
    table = make.as_table(lambda rows, rng: rows)
    wrong: Kinds = [
        ("arrays named as a table", "measured.csv", make.named("measured.csv")),
        ("arrays named as MATLAB", "measured.mat", make.named("measured.mat")),
        ("arrays named as HDF5", "measured.h5", make.named("measured.h5")),
        ("unknown ending", "measured.xyz", make.both(table, make.named("measured.xyz"))),
        ("table named as arrays", "measured.npz", make.both(table, make.named("measured.npz"))),
        ("empty file", "measured.npz", make.damaged(lambda content, rng: b"")),
        ("empty table", "measured.csv", make.both(table, make.damaged(lambda content, rng: b""))),
        ("cut file", "measured.npz", make.damaged(lambda content, rng: content[: rng.integers(30, len(content) - 30)])),
        (
            "damaged file",
            "measured.npz",
            make.damaged(lambda content, rng: content[:5000] + b"?" * 400 + content[5400:]),
        ),
        ("file not there", "absent", say("files", ["absent.csv"], ["absent.npz"])),
        ("folder instead of a file", "expected a file", say("files", ["."])),
        ("wrong format named", "format", say("format", "matlab", "numpy", "h5", "DIC")),
    ]
    return [Mistake(name, "error", word, spoil) for name, word, spoil in wrong]


def _of_tables() -> list[Mistake]:
    table, twice = make.as_table, ["pair", "x", "x", "load", "response"]
    wrong: Kinds = [
        ("bars between columns", "measured.csv", table(lambda rows, rng: rows, separator="|")),
        ("spaces between columns", "measured.csv", table(lambda rows, rng: rows, separator=" ")),
        ("text in a cell", "column", table(lambda rows, rng: make.with_cell(rows, rng, 4, "broken"))),
        ("two decimal points", "column", table(lambda rows, rng: make.with_cell(rows, rng, 3, "1.2.3"))),
        ("row with a cell too few", "row", table(lambda rows, rng: [*rows, rows[-1][:-1]])),
        ("row with a cell too many", "row", table(lambda rows, rng: [*rows, [*rows[-1], "1"]])),
        ("no names", "measured.csv", table(lambda rows, rng: rows[1:])),
        ("a name twice", "measured.csv", table(lambda rows, rng: [twice, *rows[1:]])),
        ("only names", "measured.csv", table(lambda rows, rng: rows[:1])),
        ("no column of loads", "load", table(lambda rows, rng: [[*row[:3], row[4]] for row in rows])),
        ("pairs not numbered", "pair", table(lambda rows, rng: [row[1:] for row in rows])),
        ("row twice", "once", table(lambda rows, rng: [*rows, rows[int(rng.integers(1, len(rows)))]])),
        ("row of a load left out", "load", table(lambda rows, rng: rows[: -int(rng.integers(1, 9))])),
        ("empty cell in a load", "load", table(lambda rows, rng: make.with_cell(rows, rng, 3, ""))),
        ("empty cell in the numbers of pairs", "pair", table(lambda rows, rng: make.with_cell(rows, rng, 0, ""))),
    ]
    return [Mistake(name, "error", word, spoil) for name, word, spoil in wrong]


def _of_units() -> list[Mistake]:
    in_pixels = unit("x", "px")
    wrong: Kinds = [
        ("no units at all", "units=", lambda case: case.units.clear()),
        ("no unit of x", "'x'", unit("x")),
        ("no unit of the load", "'loads'", unit("load")),
        ("misspelt unit of x", "unit", unit("x", "mmm", "mn^", "metre s")),
        ("misspelt unit of the load", "unit", unit("load", "N/mmm^2", "Newt", "N//mm", "kPaa", "N/mm2")),
        ("x in a unit of force", "length", unit("x", "N", "kg", "s", "MM")),
        ("degrees Celsius", "delta_degC", unit("response", "degC", "degF")),
        ("pixels without a scale", "scale", unit("x", "px", "pixel")),
        ("scale that is none", "scale", make.both(in_pixels, say("scale", "0.05 mm", "5", "px"))),
        ("scale below 0", "scale", make.both(in_pixels, say("scale", "-0.05 mm/px", "0 mm/px"))),
        ("unit of nothing", "did you mean", lambda case: case.units.update({make.typo("response", case.rng): "mm"})),
        ("unit is a number", "units", say("units", {"x": 1.0}, {"load": 2})),
        ("files in units that do not fit", "second.csv", make.second_file("response [kg]")),
    ]
    return [Mistake(name, "error", word, spoil) for name, word, spoil in wrong]


def _of_descriptions() -> list[Mistake]:
    wrong: Kinds = [
        (
            "unknown key",
            "did you mean",
            lambda case: say(make.typo("boundary", case.rng), 1)(case),
        ),
        ("text for a number", "nodes", say("nodes", "many", [9.5, 9.5])),
        ("too few nodes", "nodes", say("nodes", [2, 2], 1)),
        ("ends of the box turned", "box", say("box", [[6.3, 0.0], [0.0, 4.5]])),
        ("box elsewhere", "box", say("box", [[100.0, 106.3], [0.0, 4.5]])),
        ("box off the points", "nodes=", say("box", [[0.1, 6.3], [0.0, 4.5]])),
        ("unknown boundary", "boundary", say("boundary", ["dirichlet", "clamped"], "free")),
        ("order of axes that is none", "axes", say("axes", "xx", "row")),
        ("order of axes against sizes", "responses", say("axes", "yx")),
        ("axes do not agree", "axes", make.both(say("nodes", [9, 9, 9]), say("coordinates", ["x", "y"]))),
        ("noise in another unit", "noise", say("noise", "0.1 kg")),
        ("noise below 0", "noise", say("noise", -0.1, "-0.01 mm", "-1 %")),
        ("mask that is not there", "mask", say("mask", "good")),
        ("response that is not there", "response", say("response", ["w"], "deflection")),
    ]
    return [Mistake(name, "error", word, spoil) for name, word, spoil in wrong]


def _of_loads() -> list[Mistake]:
    free = say("boundary", "neumann")
    east, heavy = {"kind": "side", "side": "east"}, {"kind": "side", "side": "top", "total": "3 kg"}
    wrong: Kinds = [
        ("unknown kind of load", "did you mean", lambda case: make.described(_misnamed(case.rng))(case)),
        ("load without its width", "width", make.described({"kind": "gaussian", "centre": [2, 2]})),
        ("well outside the box", "position", make.described({**POINT, "position": [20.0, 2.0]})),
        ("well on a Dirichlet side", "neumann", make.described({**POINT, "position": [0.0, 2.0]})),
        ("force on a Dirichlet side", "neumann", make.described({"kind": "side", "side": "right", "total": 1.0})),
        ("force on a side without a name", "left", make.both(make.described(east), free)),
        ("force in another unit", "total", make.both(make.described(heavy), free)),
        ("fewer loads than responses", "pair up", make.both(make.drop("loads"), say("loads", [POINT]))),
        ("amounts without the column", "rate_1", make.amounts("rate\n1\n")),
        ("more amounts than responses", "pair up", make.amounts("rate_1\n1\n2\n3\n")),
    ]
    return [Mistake(name, "error", word, spoil) for name, word, spoil in wrong]


def _visible() -> list[Mistake]:
    """Nothing that is wrong for certain, but everything to be looked at."""
    marks = [-1.0, -999.0, 9999.0]
    odd: Kinds = [
        ("one pair", "One pair", make.one_pair),
        ("a pair twice", "same as pair", make.pair_repeated),
        ("pixels said to be mm", "pixels", make.pixels),
        (
            "deflections in pixels said to be mm",
            "pixels",
            change("responses", lambda a, rng: 300 * a / np.abs(a).max()),
        ),
        ("load and response swapped", "swapped", make.swapped),
        ("sign of the force turned", "against", change("loads", lambda a, rng: -a)),
        ("gaps as zeros", "exactly 0", change("responses", lambda a, rng: np.where(rng.random(a.shape) < 0.2, 0, a))),
        (
            "gaps as a number",
            "missing =",
            change("responses", lambda a, rng: _marked(a, rng, float(rng.choice(marks)))),
        ),
        ("all loads alike", "multiples", change("loads", lambda a, rng: np.multiply.outer(rng.uniform(1, 2, 6), a[0]))),
        ("response that does not move", "same at all", change("responses", lambda a, rng: np.full_like(a, 0.5))),
        ("half precision", "half precision", change("responses", lambda a, rng: a.astype(np.float16))),
        ("whole numbers", "whole numbers", change("responses", lambda a, rng: np.rint(1e3 * a).astype(np.int64))),
        ("specimen moved as a whole", "should be 0", change("responses", lambda a, rng: a + np.abs(a).max())),
        ("loads of 0", "are 0", change("loads", lambda a, rng: np.zeros_like(a))),
        ("prefix of a unit off", "check its unit", change("responses", lambda a, rng: 1e-14 * a)),
        ("pair without a response", "no measured", change("responses", lambda a, rng: _without(a, rng))),
        ("box that leaves points out", "outside the box", say("box", [[0.45, 6.3], [0.0, 4.5]])),
        ("another unit than the file's", "the file says", make.as_table(lambda rows, rng: [_HEAD, *rows[1:]])),
    ]
    hidden: Kinds = [
        ("x turned around", "Largest response", change("responses", lambda a, rng: a[:, ::-1])),
        ("y turned around", "Largest response", change("responses", lambda a, rng: a[:, :, ::-1])),
        ("axes of a square swapped", "sizes do not tell", make.square_with_axes_swapped),
        ("components swapped", "component 1", make.components_swapped),
    ]
    return [
        *(Mistake(name, "warning", word, spoil) for name, word, spoil in odd),
        *(Mistake(name, "shown", word, spoil) for name, word, spoil in hidden),
    ]


_HEAD = ["pair", "x [m]", "y [mm]", "load", "response"]


def _misnamed(rng: np.random.Generator) -> dict[str, Any]:
    return {"kind": make.typo("gaussian", rng), "centre": [2, 2], "width": 1}


def _marked(array: np.ndarray, rng: np.random.Generator, mark: float) -> np.ndarray:
    return np.where(rng.random(array.shape) < 0.1, mark, array)


def _without(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(np.arange(len(array))[:, None, None] == rng.integers(len(array)), np.nan, array)
