"""
Permeability and phases from noisy pairs
========================================

True permeability, one load and its response; the estimated permeability, its phases and its error. The system is new
to the weights; the responses carry 1 % noise.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from cmcrameri import cm

import nipde
from nipde.discovery.material import phases_of
from nipde.physics.random_fields import TwoPhase

grid, rng = nipde.Grid.uniform(21), np.random.default_rng(2025)
permeability = TwoPhase()(nipde.physics.GaussianField(4.0).sample(grid, rng=rng, count=1)[0])
loads = nipde.physics.GaussianField(1.0, rms=1.0).sample(grid, rng=rng, count=50)
pairs = nipde.Pairs.from_arrays(loads, nipde.Darcy(grid, permeability).solve(loads), grid=grid).to(dtype=torch.float32)
noisy = nipde.with_white_noise(pairs, share=0.01, seed=0)

# %%
# The trained prior, and the piecewise-constant prior with the same weights.
model = nipde.load("darcy-two-phase")
with torch.no_grad():
    trained, constant = (
        one(noisy).coefficient.double().numpy() for one in (model, model.with_piecewise_constant_prior())
    )
phases = phases_of(trained, deviation=np.full(grid.shape, 0.05), among=grid.unknown)
right = np.mean((phases.labels == (permeability > 6))[grid.unknown])
errors = [np.mean(np.abs(np.log(field / permeability))[grid.unknown]) for field in (trained, constant)]
print(f"{right:.1%} of interior nodes in the right phase; error of log b {errors[0]:.2%}, {errors[1]:.2%}")

# %%
# Errors lie along the interfaces.
shown = {
    "true b": (permeability, cm.batlow), "a load": (loads[0], cm.vik), "its response": (pairs.responses[0, 0], cm.vik),
    "estimated b": (trained, cm.batlow), "phases": (phases.labels, cm.batlow),
    "error of b": (trained - permeability, cm.vik),
}  # fmt: skip
figure, panels = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
for axes, (title, (values, colours)) in zip(panels.flat, shown.items(), strict=True):
    limit = np.abs(values).max() if colours is cm.vik else None
    image = axes.pcolormesh(*grid.coordinates, values, cmap=colours, vmin=limit and -limit, vmax=limit)
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title, aspect="equal")
plt.show()
