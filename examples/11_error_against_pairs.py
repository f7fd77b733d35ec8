"""
Error against the number of pairs
=================================

Recorded results: held-out error against the number of pairs, for every estimator. Two phases, 21 × 21 nodes, rough
loads.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(globals().get("__file__", "example")).resolve()
records = next(folder / "results" for folder in here.parents if (folder / "results" / "conditioned.json").exists())
rows = json.loads((records / "conditioned.json").read_text())["measured"]["rows"]
rows = [row for row in rows if (row["systems_of"], row["nodes"]) == ("literal", 21)]
paper = json.loads((records / "darcy-standard.json").read_text())["measured"]["rows"]
nips = next(row for row in paper if (row["law"], row["case"]) == ("darcy-literal", "21-nips-2"))["unseen_loads"]

# %%
# Solid: Conditioned NIPS, the same weights for every number of pairs. Dashed: methods that know the equation or true
# kernels of other systems. Dotted: methods without prior knowledge. Cross: the paper's NIPS as we trained it, on 90
# systems for 20 minutes, for 50 pairs only. Bars are 90 % intervals over test systems. All on same-solver data.
SHOWN = {
    "darcy-two-phase": ("Conditioned NIPS, elliptic", "C0o-"),
    "darcy-two-phase-gated": ("Conditioned NIPS, gated", "C1o-"),
    "equation-error": ("equation error", "C2s--"),
    "adjoint-tv": ("Gauss-Newton, total variation", "C3s--"),
    "empirical-bayes": ("empirical Bayes", "C4s--"),
    "training-span": ("training span", "C5s--"),
    "ridge": ("ridge", "C7^:"),
    "minimum-norm": ("minimum norm", "C8v:"),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")


def draw(axes, name, label, style, noise=0.0):
    selected = [row for row in rows if (row["weights"] or row["estimator"], row["noise"]) == (name, noise)]
    pairs, errors = [row["pairs"] for row in selected], [row["held_out"] for row in selected]
    axes.vlines(pairs, *([100 * error[end] for error in errors] for end in ("low", "high")), color=style[:2])
    axes.loglog(pairs, [100 * error["mean"] for error in errors], style, markersize=4, label=label)


for name, (label, style) in SHOWN.items():
    draw(left, name, label, style)
left.plot(50, 100 * nips["held_out"]["mean"], "kx", markersize=8, label="the paper's NIPS, 2 layers")
for name in ("darcy-two-phase", "darcy-two-phase-gated"):
    label, style = SHOWN[name]
    for noise, line in ((0.0, "-"), (0.01, "--"), (0.05, ":")):
        draw(right, name, f"{label.split()[-1]}, {100 * noise:g} %", style[:3] + line, noise)
left.set(title="every estimator, no noise", ylabel="held-out error, %")
right.set(title="Conditioned NIPS, noise on the responses")
for axes in (left, right):
    axes.set(xlabel="pairs d", xticks=(3, 5, 10, 20, 50), xticklabels=(3, 5, 10, 20, 50))
    axes.minorticks_off()
    axes.legend(fontsize="x-small", handlelength=3.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()
