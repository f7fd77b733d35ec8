"""
From measured pairs to a kernel
===============================

A porous specimen is loaded fifty times and its pressure is recorded with 1 % noise. Two estimators turn these pairs
into a kernel: ridge regression, which knows no equation, and adjoint Gauss-Newton, which assumes Darcy's law. Both
predict responses to new loads; both give an estimate of the permeability.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from nipde import AdjointGaussNewton, DarcyRecipe, Pairs, Ridge
from nipde.estimators import TotalVariation, permeability_of

specimen = DarcyRecipe(nodes=21, pairs=100, precision="float64").build(np.uint64(5))
grid, permeability = specimen.grid, specimen.hidden[0]
clean = Pairs.from_arrays(specimen.loads, specimen.responses, grid=grid)
context, held_out = clean.take(slice(0, 50)), clean.take(slice(50, 100))

# %%
# White noise on the responses, one per cent of their root mean square. Pairs carry its level along.
level = 0.01 * float(context.responses.square().mean().sqrt())
noise = level * torch.randn(context.responses.shape, generator=torch.Generator().manual_seed(0)).double()
measured = Pairs(grid, context.loads, context.responses + noise, noise=level)

# %%
# One call each. Total variation lets log b jump at few places, which suits two phases.
ridge = Ridge()(measured)
fitted = AdjointGaussNewton(regulariser=TotalVariation())(measured)
for name, kernel in (("ridge", ridge), ("Gauss-Newton", fitted)):
    error = (grid.norm(kernel @ held_out.loads - held_out.responses) / grid.norm(held_out.responses)).mean()
    print(f"{name}: mean error {float(error):.1%} on 50 held-out loads")

# %%
# The fitted law carries its permeability. For ridge we take the permeability whose kernel is nearest.
estimates = {
    "from Gauss-Newton": fitted.laws[0].permeability,
    "from the ridge kernel": permeability_of(ridge)[0].numpy(),
}
for name, field in estimates.items():
    print(f"{name}: {np.mean((field > 6) == (permeability > 6)):.0%} of the nodes are in the right phase")

# %%
load, truth = held_out.loads[0, 0], held_out.responses[0, 0]
predictions = {"pressure under an held_out load": truth, "Gauss-Newton": fitted @ load, "ridge": ridge @ load}
largest = float(truth.abs().max())
scales = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}, {"cmap": "viridis", "vmin": 3, "vmax": 12}
figure, panels = plt.subplots(2, 3, figsize=(10, 6.6), layout="constrained", sharex=True, sharey=True)
for row, fields, scale in zip(panels, (predictions, {"permeability": permeability, **estimates}), scales, strict=True):
    for axes, (title, values) in zip(row, fields.items(), strict=True):
        image = axes.pcolormesh(*grid.coordinates, values, shading="nearest", **scale)
        axes.set(title=title, aspect="equal")
    figure.colorbar(image, ax=row, extend="both")
plt.show()
