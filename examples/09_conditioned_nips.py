"""
Conditioned NIPS
================

Ten noisy pairs in; predictions with bands and the permeability out. The weights come with nipde. Two priors are
compared: the elliptic prior assumes a second-order equation with unknown coefficients, the gated prior assumes no
equation.
"""

import matplotlib.pyplot as plt
import numpy as np

import nipde
from nipde.report.statements import outlier_statement

specimen = nipde.DarcyRecipe(nodes=21, pairs=100).build(np.uint64(5))
grid, permeability = specimen.grid, specimen.hidden[0]
pairs = nipde.Pairs.from_arrays(specimen.loads, specimen.responses, grid=grid)
measured, held_out = nipde.with_white_noise(pairs.take(slice(0, 50)), share=0.01, seed=0), pairs.take(slice(50, 100))


def error(kernel):
    return float((grid.norm(kernel @ held_out.loads - held_out.responses) / grid.norm(held_out.responses)).mean())


# %%
# One call turns any number of pairs into a kernel. The weights were trained on other specimens.
estimators = {name: nipde.load(f"darcy-two-phase{end}") for name, end in (("elliptic", ""), ("gated", "-gated"))}
kernels = {name: estimator(measured.take(slice(0, 10))) for name, estimator in estimators.items()}
estimate = kernels["elliptic"].coefficient
for name, kernel in kernels.items():
    print(f"{name}, 10 pairs: mean error {error(kernel):.2%} on 50 held-out loads")
print(f"{np.mean((estimate.numpy() > 6) == (permeability > 6)):.1%} of the nodes are in the right phase")

# %%
# Responses with swapped axes have the right shape and violate the equation. The outlier test reports it.
swapped = nipde.Pairs.from_arrays(measured.loads, measured.responses.mT, grid=grid, noise=measured.noise)
print(outlier_statement(estimators["elliptic"](swapped).outlier_test))

# %%
# Zero is the truth. Bands of 90 % cover it at 90 % of the nodes on average over systems and loads, not along one line.
(x, _), load, truth, counts = grid.coordinates, held_out.loads[:1], held_out.responses[0, 0], (3, 5, 10, 20, 50)
largest, prediction = float(truth.abs().max()), (kernels["elliptic"] @ load)[0, 0]
shown = {"pressure under a held-out load": truth, "elliptic: pressure": prediction}
shown |= {"permeability": permeability, "elliptic: permeability": estimate}
figure, panels = plt.subplots(2, 3, figsize=(12, 6.6), layout="constrained", width_ratios=(1, 1, 1.2))
for axes, (title, values) in zip(panels[:, :2].flat, shown.items(), strict=True):
    scale = {"vmin": 3, "vmax": 12} if axes in panels[1] else {"vmin": -largest, "vmax": largest, "cmap": "RdBu_r"}
    figure.colorbar(axes.pcolormesh(*grid.coordinates, values, shading="nearest", **scale), ax=axes, shrink=0.8)
    axes.set(title=title, aspect="equal")
for name, kernel in kernels.items():
    low, high = (100 * (field[0, 0] - truth)[:, 10] / largest for field in kernel.band(load, level=0.9))
    panels[0, 2].fill_between(x[:, 10], low, high, alpha=0.5, label=f"{name}, 10 pairs")
    errors = [100 * error(estimators[name](measured.take(slice(0, count)))) for count in counts]
    panels[1, 2].semilogy(errors, "o-")
panels[0, 2].set(title="90 % band less the truth, % of the peak", xlabel="x")
panels[1, 2].set(title="held-out error, %", xlabel="pairs, 1 % noise", xticks=range(5), xticklabels=counts)
panels[0, 2].legend()
plt.show()
