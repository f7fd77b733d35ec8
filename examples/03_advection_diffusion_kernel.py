"""
Advection-diffusion: a non-symmetric kernel
===========================================

Darcy flow is reciprocal: a source at a acts at b as a source at b acts at a. Advection-diffusion is not. A method
that assumes a symmetric kernel fails here.
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


def vortex_flow(speed: float) -> AdvectionDiffusion:
    return AdvectionDiffusion(grid, np.ones(grid.shape), speed * vortex)


# %%
# Central differences need a cell Péclet number below 2; beyond that the law raises an error.
print("cell Péclet number at speed 40:", vortex_flow(40.0).peclet)
try:
    vortex_flow(100.0)
except PhysicsError as error:
    print(error)

# %%
# The asymmetry rises with the speed, and falls again where a fast vortex mixes well.
speeds = np.linspace(0.0, 40.0, 9)
measured = [asymmetry(vortex_flow(speed).green()) for speed in speeds]

# %%
# A row of the kernel says where the value at the cross comes from, a column where a source at the cross goes to.
green = vortex_flow(40.0).green().reshape(*grid.shape, *grid.shape)
point = (21, 15)
figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
fields = {"at the cross, source at (x, y)": green[point], "at (x, y), source at the cross": green[(..., *point)]}
for axes, (title, values) in zip(panels, fields.items(), strict=False):
    axes.pcolormesh(x, y, values, shading="nearest", vmin=0, vmax=green[point].max() / 2)
    axes.quiver(x[::3, ::3], y[::3, ::3], *vortex[:, ::3, ::3], color="white", alpha=0.6)
    axes.plot(x[point], y[point], "r+", markersize=12, markeredgewidth=2)
    axes.set(title=title, xlabel="x", ylabel="y", aspect="equal")
panels[2].plot(speeds, measured, "o-")
panels[2].set(title="asymmetry ‖G - Gᵀ‖ / ‖G‖", xlabel="speed")
plt.show()
