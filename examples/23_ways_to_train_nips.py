"""
Ways to train NIPS
==================

Recorded results: in-context error of NIPS with 2 layers on Darcy flow against processor time, for every way to train it
that was tried, and for the recipe of 0.1.0 on all nodes.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

here = Path(globals().get("__file__", "example")).resolve()
results = next(folder / "results" for folder in here.parents if (folder / "results" / "recipes.json").exists())
recipes, tables = (
    json.loads((results / f"{name}.json").read_text())["measured"] for name in ("recipes", "darcy-standard")
)

# %%
# Every way had the same processor time and three seeds; lines are means. All take every second node of the grid but the
# two that say otherwise. In grey: 20 minutes on all nodes, three seeds. Dashes: what the paper prints.
figure, axes = plt.subplots(figsize=(9, 5.6), layout="constrained")
rows = sorted(recipes["rows"], key=lambda row: row["in_context"])
for place, row in enumerate(rows):
    first = "0.1.0" in row["name"]
    seconds = np.mean([[point["seconds"] for point in curve] for curve in row["curves"]], axis=0)
    errors = np.mean([[point["in_context"] for point in curve] for curve in row["curves"]], axis=0)
    style = {"color": "black", "lw": 3} if first else {"color": plt.cm.viridis(place / len(rows)), "lw": 1.2}
    axes.loglog(seconds / 60, 100 * errors, label=f"{100 * row['in_context']:.1f} %  {row['name']}", **style)
for row in tables["rows"]:
    if (row["case"], row["law"]) == ("21-nips-2", "darcy-consistent"):
        points = [(point["seconds"] / 60, 100 * point["in_context"]) for point in row["curve"]]
        axes.loglog(*zip(*points, strict=True), color="grey", lw=1)
        axes.axhline(row["paper"]["in_context"], color="black", ls="--", lw=0.8)
axes.set(xlabel="minutes of one core", ylabel="in-context error on validation systems, %", ylim=(2, 130))
figure.legend(loc="outside right upper", fontsize=8, title="at the end")
plt.show()
