"""
Nonlinear response under larger loads
=====================================

Recorded results: the same specimens under once, twice and four times the loads that the networks were trained on.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(globals().get("__file__", "example")).resolve()
records = next(folder / "results" for folder in here.parents if (folder / "results" / "solids-quick.json").exists())
quick, longer = (
    json.loads((records / f"solids-{name}.json").read_text())["measured"] for name in ("quick", "standard")
)
latest = {row["name"]: row for row in (*quick["rows"], *longer["rows"])}  # networks as trained longest

# %%
# Solid lines: nonlinear predictors. Dashed: kernels, linear in the load. Contexts have loads of the same size as the
# queries. Bars are 90 % intervals over specimens.
NONLINEAR = (
    "equilibrium gap",
    "Conditioned NIPS, elastic",
    "Conditioned NIPS, gated with head",
    "NIPS-mlp, 4 layers",
)
colours: dict[str, tuple[float, ...]] = {}
figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for axes, (problem, title) in zip(panels, {"mmnist": "Mechanical MNIST", "tissue": "tissue"}.items(), strict=True):
    larger = [entry for entry in quick["amplitudes"] if entry["problem"] == problem]
    selected = [row for row in latest.values() if row["problem"] == problem]
    for row in sorted(selected, key=lambda row: -row["test"]["held_out"]["mean"]):
        label, errors = row["label"], {1.0: row["test"]["held_out"]}
        errors |= {float(amplitude): test["held_out"] for amplitude, test in row.get("larger", {}).items()}
        errors |= {
            entry["amplitude"]: one["test"]["held_out"]
            for entry in larger for one in entry["rows"] if one["label"] == label and "test" in one
        }  # fmt: skip
        style = "o-" if label in NONLINEAR else "s--"
        means = [100 * error["mean"] for error in errors.values()]
        colour = colours.setdefault(label, plt.get_cmap("tab20")(len(colours)))
        axes.loglog(list(errors), means, style, color=colour, markersize=4, label=label)
        ends = ([100 * error[end] for error in errors.values()] for end in ("low", "high"))
        axes.vlines(list(errors), *ends, color=colour)
    axes.set(title=title, xlabel="loads over those of training", ylabel="held-out error, %")
    axes.set(xticks=(1, 2, 4), xticklabels=(1, 2, 4))
    axes.minorticks_off()
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()
