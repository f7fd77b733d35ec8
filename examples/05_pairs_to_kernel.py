"""
From measured pairs to a kernel
===============================

A porous specimen is loaded fifty times, and its pressure is recorded with an error of one per cent. Two estimators turn
these pairs into a kernel: ridge regression, which knows nothing of the law, and Gauss-Newton with adjoints, which
knows that it is Darcy's. Both answer loads that were never applied, and both tell something about the material.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from nipde import AdjointGaussNewton, DarcyRecipe, Pairs, Ridge, TotalVariation, permeability_of

specimen = DarcyRecipe(nodes=21, pairs=100, precision="float64").build(np.uint64(5))
grid, rock = specimen.grid, specimen.hidden[0]
clean = Pairs.from_arrays(specimen.loads, specimen.responses, grid=grid)
context, unseen = clean.take(slice(0, 50)), clean.take(slice(50, 100))

# %%
# White noise on the responses, one per cent of their root mean square. Pairs carry its level along.
level = 0.01 * float(context.responses.square().mean().sqrt())
noise = level * torch.randn(context.responses.shape, generator=torch.Generator().manual_seed(0)).double()
measured = Pairs(grid, context.loads, context.responses + noise, noise=level)

# %%
# One call each. Total variation lets log b jump at few places, which suits a rock of two phases.
ridge = Ridge()(measured)
fitted = AdjointGaussNewton(regulariser=TotalVariation())(measured)
for name, kernel in (("ridge", ridge), ("Gauss-Newton", fitted)):
    error = (grid.norm(kernel @ unseen.loads - unseen.responses) / grid.norm(unseen.responses)).mean()
    print(f"{name}: mean error {float(error):.1%} on 50 loads that were never applied")

# %%
# The fitted law carries its permeability. For ridge we take the law whose kernel is nearest to the one it found.
found = {"from Gauss-Newton": fitted.laws[0].permeability, "from the ridge kernel": permeability_of(ridge)[0].numpy()}
for name, field in found.items():
    print(f"{name}: {np.mean((field > 6) == (rock > 6)):.0%} of the nodes are in the right phase")

# %%
load, answer = unseen.loads[0, 0], unseen.responses[0, 0]
answers = {"pressure under an unseen load": answer, "Gauss-Newton": fitted @ load, "ridge": ridge @ load}
largest = float(answer.abs().max())
scales = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}, {"cmap": "viridis", "vmin": 3, "vmax": 12}
figure, panels = plt.subplots(2, 3, figsize=(10, 6.6), layout="constrained", sharex=True, sharey=True)
for row, fields, scale in zip(panels, (answers, {"permeability": rock, **found}), scales, strict=True):
    for axes, (title, values) in zip(row, fields.items(), strict=True):
        image = axes.pcolormesh(*grid.coordinates, values, shading="nearest", **scale)
        axes.set(title=title, aspect="equal")
    figure.colorbar(image, ax=row, extend="both")
plt.show()
