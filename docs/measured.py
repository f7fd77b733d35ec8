"""Pictures of measured data, drawn from the records: the data themselves are not part of this project."""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

#: In N/mm², of steel in handbooks.
HANDBOOK = 210_000


def draw(results: Path, place: Path) -> None:
    """One picture for every record, in the folder `place`."""
    place.mkdir(exist_ok=True)
    for name, drawn in (("tank", _tank), ("steel-plate", _steel_plate), ("pumping", _pumping)):
        figure = drawn(json.loads((results / f"{name}.json").read_text())["measured"])
        figure.savefig(place / f"{name}.png", dpi=110)
        plt.close(figure)


def _tank(measured: dict[str, Any]) -> Any:
    """Scores of the phantoms, and how many pixels are certain and right."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    levels, phantoms = sorted({one["level"] for one in measured["phantoms"]}), measured["phantoms"]
    left.plot([one["level"] for one in phantoms], [one["score"] for one in phantoms], "o", label="phantom")
    left.plot(levels, [np.mean(_of(phantoms, level, "score")) for level in levels], "-", label="mean of the level")
    left.set(
        xlabel="level: electrodes removed", ylabel="score, 1 at best", ylim=(0, 1), title="similarity to the truth"
    )
    left.legend()
    for key, label in (("certain_right", "of these right"), ("certain", "pixels called certain")):
        right.plot(levels, [100 * np.mean(_of(phantoms, level, key)) for level in levels], "o-", label=label)
    right.axhline(90, color="grey", linewidth=0.8)
    right.set(xlabel="level: electrodes removed", ylabel="%", ylim=(0, 104), title="what is called certain")
    right.legend(loc="lower left")
    return figure


def _of(phantoms: list[dict[str, Any]], level: int, key: str) -> list[float]:
    return [one[key] for one in phantoms if one["level"] == level]


def _steel_plate(measured: dict[str, Any]) -> Any:
    """E with its band, by what is assumed."""
    rows = measured["rows"][::-1]
    figure, panel = plt.subplots(figsize=(8, 3), layout="constrained")
    halves = [row["modulus_half"] / 1000 for row in rows]
    panel.errorbar([row["modulus"] / 1000 for row in rows], range(len(rows)), xerr=halves, fmt="o", capsize=3)
    panel.axvline(HANDBOOK / 1000, color="grey", linewidth=0.8)
    panel.set(yticks=range(len(rows)), yticklabels=[row["name"] for row in rows], xlabel="E in kN/mm², band of 90 %")
    panel.set_title("grey: handbooks", fontsize=9)
    return figure


def _pumping(measured: dict[str, Any]) -> Any:
    """Transmissivity, factor of its band, how identifiable it is; wells, pumped ones as triangles."""
    kept = measured["map"]
    x, y = np.array(kept["x"]), np.array(kept["y"])
    pumped = {one["test"] for one in measured["late"]}
    figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    shown = (
        ("transmissivity", "transmissivity, 10⁻³ m²/s", 1e3, LogNorm(3, 300)),
        ("factor", "band of 90 %: × or ÷", 1.0, LogNorm(1.5, 15)),
        ("identifiable", "identifiable, 0 to 1", 1.0, plt.Normalize(0, 1)),
    )
    for panel, (key, title, scale, norm) in zip(panels, shown, strict=True):
        field = scale * np.array(kept[key]).reshape(len(y), len(x))
        figure.colorbar(panel.pcolormesh(x, y, field, norm=norm), ax=panel)
        for name, (east, north) in measured["wells"].items():
            panel.plot(east, north, "^r" if name in pumped else "ow", markeredgecolor="black")
            panel.annotate(name, (east, north), xytext=(3, 3), textcoords="offset points", fontsize=7)
        panel.set(title=title, aspect="equal", xlabel="x, m", ylabel="y, m")
    return figure
