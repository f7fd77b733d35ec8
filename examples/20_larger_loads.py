"""
Larger loads
============

What the benchmark has on record: the same specimens' laws under once, twice and four times the loads that networks were
trained on. The larger the loads, the less linear the law.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(globals().get("__file__", "example")).resolve()
records = next(folder / "results" for folder in here.parents if (folder / "results" / "solids-quick.json").exists())
found = json.loads((records / "solids-quick.json").read_text())["measured"]

# %%
# Solid lines: estimators that answer with a law that is not linear. Dashed: a kernel, linear in the load. Contexts have
# loads of the same size as the queries. Bars are 90 % intervals over specimens.
NONLINEAR = (
    "balance of forces",
    "Conditioned NIPS, elastic",
    "Conditioned NIPS, gated with head",
    "NIPS-mlp, 4 layers",
)
figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for axes, (problem, title) in zip(panels, {"mmnist": "Mechanical MNIST", "tissue": "tissue"}.items(), strict=True):
    first = {row["label"]: row["test"]["held_out"] for row in found["rows"] if row["problem"] == problem}
    larger = {entry["amplitude"]: entry["rows"] for entry in found["amplitudes"] if entry["problem"] == problem}
    for label in sorted(first, key=lambda label: -first[label]["mean"]):
        errors = {1.0: first[label]}
        for amplitude, rows in larger.items():
            answered = [row["test"]["held_out"] for row in rows if row["label"] == label and "test" in row]
            errors |= dict(zip([amplitude], answered, strict=False))
        style = "o-" if label in NONLINEAR else "s--"
        means = [100 * error["mean"] for error in errors.values()]
        (line,) = axes.loglog(list(errors), means, style, markersize=4, label=label)
        ends = ([100 * error[end] for error in errors.values()] for end in ("low", "high"))
        axes.vlines(list(errors), *ends, color=line.get_color())
    axes.set(title=title, xlabel="loads over those of training", ylabel="held-out error, %")
    axes.set(xticks=(1, 2, 4), xticklabels=(1, 2, 4))
    axes.minorticks_off()
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()
