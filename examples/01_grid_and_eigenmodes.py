"""
Grid and eigenmodes
===================

A grid has nodes, boundary conditions and quadrature weights. Each boundary condition has its own basis: sines for
Dirichlet, cosines for Neumann, Fourier modes for periodic axes. Here a Gaussian random field is decomposed into the
cosines it was drawn from.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from nipde import Grid
from nipde.boundary import Neumann
from nipde.physics import GaussianField
from nipde.spectral.transform import transform

grid = Grid.uniform(41, boundary=Neumann())
print(grid, "| weights sum to", grid.weights.sum())

# %%
# Draw Gaussian random fields and transform them. The transform is orthonormal in the grid's quadrature: the sum
# of squared coefficients is the squared norm of the field.
law = GaussianField(alpha=2.0)
fields = law.sample(grid, rng=np.random.default_rng(3), count=200)
modes = transform(grid)
coefficients = modes.analysis(torch.from_numpy(fields))
energy = coefficients.square().sum((-2, -1)).numpy()
print("Parseval holds:", np.allclose(energy, grid.norm(fields) ** 2))

# %%
# A transform may keep the lowest modes only: what comes back is the best approximation of the field by them.
few = transform(grid, modes=(6, 6))
smooth = few.synthesis(few.analysis(torch.from_numpy(fields[0]))).numpy()
print("share of the norm in the first 6 × 6 modes:", grid.norm(smooth) / grid.norm(fields[0]))

# %%
# The sample spectrum follows the covariance up to its cut-off.
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
scale = {"cmap": "RdBu_r", "vmin": -abs(fields[0]).max(), "vmax": abs(fields[0]).max(), "shading": "nearest"}
for axes, values, title in ((left, fields[0], "a field"), (middle, smooth, "its first 6 × 6 modes")):
    axes.pcolormesh(*grid.coordinates, values, **scale)
    axes.set(title=title, xlabel="x", ylabel="y", aspect="equal")

k = modes.squared_wavenumbers(coefficients).sqrt().numpy()
kept = (slice(law.waves + 1),) * 2  # the covariance has no higher modes
measured = coefficients.square().mean(0).sqrt().numpy()[kept].ravel()[1:]
expected = law.amplitudes(grid).ravel()[1:]
order = np.argsort(k[kept].ravel()[1:])
right.loglog(k[kept].ravel()[1:], measured, ".", markersize=3, label="200 fields")
right.loglog(k[kept].ravel()[1:][order], expected[order], "k-", linewidth=1, label="covariance")
right.set(title="root mean square per mode", xlabel="wavenumber |k|")
right.legend()
plt.show()
