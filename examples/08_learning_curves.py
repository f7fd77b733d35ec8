"""
Learning curves of the paper's models
=====================================

Recorded results: validation errors of the paper's models during training with equal processor time, and the power law
in the number of steps that fits them.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

here = Path(globals().get("__file__", "example")).resolve()
records = next(folder / "results" for folder in here.parents if (folder / "results" / "darcy-standard.json").exists())
record = json.loads((records / "darcy-standard.json").read_text())["measured"]
rows = [row for row in record["rows"] if row.get("trend") and row["seed"] == 0 and row["table"] == "layers"]

# %%
# In-context error, the paper's, on systems that are in no training; dashes are the paper's figure after 450,000 steps
# of 100 samples on a graphics card, thin lines the fitted power.
laws = [law for law in ("darcy-consistent", "darcy-literal") if any(row["law"] == law for row in rows)]
figure, axes = plt.subplots(1, len(laws), figsize=(5.5 * len(laws), 4.5), sharey=True, squeeze=False)
for axis, law in zip(axes[0], laws, strict=True):
    shown = [row for row in rows if row["law"] == law]
    for colour, row in zip(plt.get_cmap("tab10").colors, shown, strict=False):
        steps = np.array([point["step"] for point in row["curve"]])
        label = f"{row['row']}, {row['nodes']}²: step$^{{{row['trend']['power']:.2f}}}$"
        axis.loglog(steps, [100 * point["in_context"] for point in row["curve"]], color=colour, label=label)
        fitted = np.exp(row["trend"]["intercept"]) * steps ** row["trend"]["power"]
        axis.loglog(steps, 100 * fitted, color=colour, lw=0.6)
        if row["paper"]["in_context"] < 50:
            axis.axhline(row["paper"]["in_context"], color=colour, ls="--", lw=0.6)
    axis.set(title=law, xlabel="steps of 10 samples", ylim=(0.8, 120))
    axis.legend(fontsize=7)
axes[0, 0].set_ylabel("in-context error, %")
figure.tight_layout()
