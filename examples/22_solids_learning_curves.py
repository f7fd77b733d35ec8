"""
Learning curves on solids
=========================

Recorded results: held-out errors of every network on Mechanical MNIST and tissue against processor time, beside
estimators that need no training.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(globals().get("__file__", "example")).resolve()
results = next(folder / "results" for folder in here.parents if (folder / "results" / "solids-quick.json").exists())
records = {path.stem: json.loads(path.read_text())["measured"] for path in sorted(results.glob("solids-*.json"))}

# %%
# Thin lines: 5 minutes of one core; thick lines: 40. Dashes: estimators without training. Crosses at the right: the
# paper's in-context errors after hours on a graphics card.
figure, panels = plt.subplots(1, 2, figsize=(11.5, 4.8), layout="constrained", sharey=True)
colours: dict[str, str] = {}
for axes, (problem, title) in zip(panels, {"mmnist": "Mechanical MNIST", "tissue": "Tissue"}.items(), strict=True):
    for record in records.values():
        for row in (row for row in record["rows"] if row["problem"] == problem and row["trained"]):
            known = row["label"] in colours
            colour = colours.setdefault(row["label"], f"C{len(colours)}")
            axes.loglog(
                [point["seconds"] / 60 for point in row["curve"]],
                [100 * point["held_out"] for point in row["curve"]],
                color=colour, lw=2.4 if record["minutes"] > 5 else 1.0, label="_" if known else row["label"],
            )  # fmt: skip
            if row["paper"]:
                axes.plot(55, row["paper"], "x", color=colour)
    for row in records["solids-quick"]["rows"]:
        if row["problem"] == problem and row["label"] in ("ridge, GCV", "Conditioned NIPS, elastic"):
            height = 100 * row["test"]["held_out"]["mean"]
            axes.axhline(max(height, 0.12), color="black", ls="--", lw=0.8)
            shown = f"{height:.2g} %" if height > 0.12 else f"below: {height:.0e} %"
            axes.text(0.33, 1.06 * max(height, 0.12), f"{row['label']}, {shown}", fontsize=8)
    axes.set(title=title, xlabel="minutes of one core", xlim=(0.3, 65), ylim=(0.1, 130))
panels[0].set_ylabel("held-out error on validation specimens, %")
figure.legend(loc="outside right upper", fontsize=8)
plt.show()
