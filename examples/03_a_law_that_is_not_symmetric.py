"""
A law that is not symmetric
===========================

Darcy flow is reciprocal: what a source at a does at b, a source at b does at a. A stirred medium is not, because the
flow carries things one way only. A method that assumes symmetry is wrong here, which is why this law is in the package.
"""

import matplotlib.pyplot as plt
import numpy as np

from nipde import Grid
from nipde.errors import PhysicsError
from nipde.physics.advection import AdvectionDiffusion, asymmetry

grid = Grid.uniform(31)
x, y = grid.coordinates
# One vortex: v = (∂ψ/∂y, -∂ψ/∂x) with ψ = sin²(πx) sin²(πy)/π, largest speed about 1.
vortex = np.stack([np.sin(np.pi * x) ** 2 * np.sin(2 * np.pi * y), -np.sin(2 * np.pi * x) * np.sin(np.pi * y) ** 2])


def stirred(speed: float) -> AdvectionDiffusion:
    return AdvectionDiffusion(grid, np.ones(grid.shape), speed * vortex)


# %%
# Central differences are trusted only while a cell is not swept faster than it diffuses; beyond that the law refuses.
print("cell Péclet number at speed 40:", stirred(40.0).peclet)
try:
    stirred(100.0)
except PhysicsError as refusal:
    print(refusal)

# %%
# The kernel loses its symmetry as soon as the medium is stirred. A fast vortex mixes so well that it matters less
# again where in the vortex a source sits.
speeds = np.linspace(0.0, 40.0, 9)
measured = [asymmetry(stirred(speed).green()) for speed in speeds]

# %%
# A row of the kernel says where the value at the cross comes from, a column where a source at the cross goes to.
green = stirred(40.0).green().reshape(*grid.shape, *grid.shape)
point = (21, 15)
figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
fields = {"heard at the cross from (x, y)": green[point], "heard at (x, y) from the cross": green[(..., *point)]}
for axes, (title, values) in zip(panels, fields.items(), strict=False):
    axes.pcolormesh(x, y, values, shading="nearest", vmin=0, vmax=green[point].max() / 2)
    axes.quiver(x[::3, ::3], y[::3, ::3], *vortex[:, ::3, ::3], color="white", alpha=0.6)
    axes.plot(x[point], y[point], "r+", markersize=12, markeredgewidth=2)
    axes.set(title=title, xlabel="x", ylabel="y", aspect="equal")
panels[2].plot(speeds, measured, "o-")
panels[2].set(title="asymmetry ‖G - Gᵀ‖ / ‖G‖", xlabel="speed")
plt.show()
