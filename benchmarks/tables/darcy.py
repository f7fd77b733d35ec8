"""The paper's Darcy tables with our figures beside the paper's."""

from itertools import groupby
from typing import Any

import numpy as np

from benchmarks.darcy_cases import ALL, OURS, Case
from benchmarks.tables.markdown import percent, table

TITLES = {
    "layers": "Models",
    "orders": "Number of random orders, 2-layer NIPS",
    "rank": "Rank of the kernel, 2-layer NIPS, n_rand = 50",
    "interpretability": "Kernel and microstructure",
}

#: The others that know the law have the same errors.
BASELINES = ("ridge", "training-span", "empirical-bayes", "adjoint-tv")


def darcy(measured: dict[str, Any]) -> str:
    """One table per table of the paper and law; rows of several seeds are joined."""
    parts = []
    order = ["layers", "orders", "rank", "interpretability"]
    inverted = [row for row in measured["rows"] if row["table"] == "inverted" and row["case"] in BASELINES]
    rows = [row for row in measured["rows"] if row["table"] not in ("classical", "inverted")]
    classical = [row for row in measured["rows"] if row["table"] == "classical" and row["case"] in BASELINES]
    for name in order:
        for law in ("darcy-consistent", "darcy-literal"):
            mine = [row for row in rows if (row["table"], row["law"]) == (name, law)]
            if mine:
                beside = [row for row in classical if row["law"] == law] if name == "layers" else inverted
                parts += [f"**{TITLES[name]}, `{law}`**\n", _rows(name, mine, beside)]
    parts.append(_notes(measured))
    return "\n".join(parts)


def _rows(name: str, rows: list[dict[str, Any]], classical: list[dict[str, Any]]) -> str:
    def key(row: dict[str, Any]) -> Any:
        layers = row["recipe"]["model"]["layers"] if row["paper"] else np.inf
        return row["nodes"], layers, row["paper"].get("in_context", np.inf), row["case"]

    if name == "layers":
        rows = sorted(rows, key=key)
        cells = [_cells(list(same), lambda row: f"{row['nodes']}², {row['row']}")
                 for _, same in groupby(rows, key=lambda row: row["case"])]  # fmt: skip
        cells += [_classical(row) for row in sorted(classical, key=lambda row: -_mean(row, "held_out"))]
        head = ("model", "paper, in context", "ours, in context", "held out", "worst decile", "kernel", "steps")
        return table(head, cells)
    if name == "interpretability":
        return _interpretability(rows, classical)
    rows = sorted(rows, key=lambda row: (row["recipe"]["orders"] or 0, row["rank"], row["case"]))
    cells = []
    for _, same in groupby(rows, key=lambda row: row["case"]):
        seeds = list(same)
        inside = [row["paper_protocol"]["in_context"]["mean"] for row in seeds]
        cells.append((
            seeds[0]["row"], f"{seeds[0]['paper']['in_context']:.2f} %", _spread(inside),
            _spread([_mean(row, "held_out") for row in seeds]), percent(seeds[0]["rank_floor"]),
        ))  # fmt: skip
    return table(("row", "paper, in context", "ours, in context", "held out", "best rank-d_k reconstruction"), cells)


def _interpretability(rows: list[dict[str, Any]], inverted: list[dict[str, Any]]) -> str:
    """The paper's error, kernel and microstructure, ours beside; test systems of the training law and of others."""
    measures = ("in_context", "kernel", "microstructure")
    cells = []
    for case in (*ALL, *OURS):
        for row in rows if case.table == "interpretability" else []:
            if row["case"] == case.name and row["seed"] == 0:
                measured = row["unseen_loads"] if case.shift is None else row["shifted"][case.shift]
                inside = row["paper_protocol"] if case.shift is None else measured
                ours = [percent(inside["in_context"]["mean"])]
                ours += [
                    percent(measured[what]["mean"]) if measured[what] else "–" for what in (*measures[1:], "held_out")
                ]
                paper = case.paper or _beside(case).paper
                printed = [f"{paper[what]:.2f} %" for what in measures]
                cells.append((case.row, *printed, *ours))
                if case.shift == "load" and "queries" in row["shifted"]:
                    cells.append(
                        (f"{case.row}, only the queries shifted", *printed, *_queried(row["shifted"]["queries"]))
                    )
    for row in sorted(inverted, key=lambda row: (row["load_noise"], row["case"])):
        noise = f"noise {row['load_noise']:g} on the loads" if row["load_noise"] else "no noise"
        measured = row["unseen_loads"]
        ours = [percent(measured[what]["mean"]) if measured[what] else "–" for what in (*measures, "held_out")]
        cells.append((f"{row['row']}, ID, {noise}", "–", "–", "–", *ours))
    head = [f"{who}, {what}" for who in ("paper", "ours") for what in ("in context", "kernel", "microstructure")]
    return table(("row", *head, "ours, held out"), cells)


def _queried(measured: dict[str, Any]) -> list[str]:
    """Kernels of contexts under the loads of training; the error is that of the shifted loads."""
    held = percent(measured["held_out"]["mean"])
    return [held, *(percent(measured[what]["mean"]) for what in ("kernel", "microstructure")), held]


def _beside(case: Case) -> Case:
    """The paper's NIPS in the same setting."""
    same = (case.table, case.shift, case.options)
    return next(one for one in ALL if one.recipe.startswith("nips") and (one.table, one.shift, one.options) == same)


def _cells(rows: list[dict[str, Any]], label: Any) -> tuple[str, ...]:
    first = rows[0]
    paper = f"{first['paper']['in_context']:.2f} %" if first["paper"] else "–"
    if len(rows) > 1 and first["paper_seeds"]:
        paper += f" ({first['paper_seeds'][0]:.2f} ± {first['paper_seeds'][1]:.2f} %)"
    held = [_mean(row, "held_out") for row in rows]
    return (
        label(first), paper, _spread([row["paper_protocol"]["in_context"]["mean"] for row in rows]), _spread(held),
        *(percent(float(np.mean([_mean(row, what) for row in rows]))) for what in ("worst_decile", "kernel")),
        f"{int(np.mean([row['steps'] for row in rows])):,}",
    )  # fmt: skip


def _classical(row: dict[str, Any]) -> tuple[str, ...]:
    errors = (percent(_mean(row, what)) for what in ("in_context", "held_out", "worst_decile", "kernel"))
    return row["row"], "–", *errors, "–"


def _mean(row: dict[str, Any], what: str) -> float:
    return float(row["unseen_loads"][what]["mean"])


def _spread(values: list[float]) -> str:
    if len(values) == 1:
        return f"{100 * values[0]:.3g} %"
    return f"{100 * np.mean(values):.3g} ± {100 * np.std(values):.1g} %"


def _notes(measured: dict[str, Any]) -> str:
    minutes = measured["minutes"]
    length = "450,000 steps of 100 samples per model" if minutes is None else (
        "processor time per model: " + ", ".join(
            f"{value:g} min at {nodes}²" for nodes, value in minutes.items()
            if any(row["nodes"] == int(nodes) and row["table"] != "classical" for row in measured["rows"])
        )
    )  # fmt: skip
    text = f"Budget `{measured['budget']}`: {length}, one thread. "
    text += "{} training systems under 100 shared loads (300 at 11²), {} for validation, {} test systems.".format(
        *measured["systems"]
    )
    shorter = {row["recipe"]["minutes"] for row in measured["rows"] if "recipe" in row and not row["paper"]}
    if shorter:
        text += f" Conditioned NIPS took {min(shorter):g} to {max(shorter):g} min; beside it stands the paper's NIPS."
    onward = {f"{row['nodes']}², {row['row']}": (row["seconds"] + row["seconds_before"]) / 60
              for row in measured["rows"] if row.get("seconds_before")}  # fmt: skip
    if onward:
        each = ", ".join(f"{name}: {minutes:.0f} min" for name, minutes in onward.items())
        text += f" With the trainings they went on from: {each}."
    if measured["pending"]:
        text += f" Not yet run: {', '.join(measured['pending'])}."
    return text + "\n"
