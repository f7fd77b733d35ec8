"""
The paper's figure
==================

Hidden material, one load, its response; the material as discovered, cut into phases, and what is wrong with it. The
system is new to the weights, and its responses carry noise of 1 %.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from cmcrameri import cm

import nipde
from nipde.discovery.phases import phases_of
from nipde.physics.random_fields import TwoPhase

grid, rng = nipde.Grid.uniform(21), np.random.default_rng(2025)
rock = TwoPhase()(nipde.GaussianField(4.0).sample(grid, rng=rng, count=1)[0])
loads = nipde.GaussianField(1.0, rms=1.0).sample(grid, rng=rng, count=50)
pairs = nipde.Pairs.from_arrays(loads, nipde.Darcy(grid, rock).solve(loads), grid=grid).to(dtype=torch.float32)
noisy = nipde.with_white_noise(pairs, share=0.01, seed=0)

# %%
# The weights as they are, and for a material of few phases: the same weights believe in jumps.
model = nipde.load("darcy-two-phase")
with torch.no_grad():
    plain, sharp = (one(noisy).coefficient.double().numpy() for one in (model, model.sharpened()))
phases = phases_of(plain, deviation=np.full(grid.shape, 0.05), among=grid.unknown)
right = np.mean((phases.labels == (rock > 6))[grid.unknown])
errors = [np.mean(np.abs(np.log(field / rock))[grid.unknown]) for field in (plain, sharp)]
print(f"{right:.1%} of the free nodes in their own phase; mean error of log b {errors[0]:.2%}, sharp {errors[1]:.2%}")

# %%
# What is wrong lies along the interfaces.
shown = {
    "hidden b": (rock, cm.batlow), "a load": (loads[0], cm.vik), "its response": (pairs.responses[0, 0], cm.vik),
    "b discovered": (plain, cm.batlow), "in phases": (phases.labels, cm.batlow), "b − hidden b": (plain - rock, cm.vik),
}  # fmt: skip
figure, panels = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
for axes, (title, (values, colours)) in zip(panels.flat, shown.items(), strict=True):
    limit = np.abs(values).max() if colours is cm.vik else None
    image = axes.pcolormesh(*grid.coordinates, values, cmap=colours, vmin=limit and -limit, vmax=limit)
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title, aspect="equal")
plt.show()
