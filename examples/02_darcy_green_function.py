"""
Darcy flow and its Green's function
===================================

Pressure in a two-phase porous medium, its response to a point source, and second-order convergence.
"""

import matplotlib.pyplot as plt
import numpy as np

from nipde import Darcy, Grid
from nipde.physics import GaussianField
from nipde.physics.random_fields import TwoPhase

rng = np.random.default_rng(5)
grid = Grid.uniform(41)
permeability = TwoPhase(negative=12.0, positive=3.0)(GaussianField(alpha=4.0).sample(grid, rng=rng, count=1)[0])
law = Darcy(grid, permeability)
sources = GaussianField(alpha=1.0, rms=1.0).sample(grid, rng=rng, count=100)
pressures, residuals = law.checked_solve(sources)
print("largest relative residual:", residuals.max())

# %%
# The Green's density G solves the equation for every load: p(x) = ∫ G(x, y) g(y) dy, by the grid's own quadrature.
green = law.green().reshape(*grid.shape, *grid.shape)
by_kernel = grid.integrate(green * sources[0])
print("solver and kernel agree:", np.allclose(by_kernel, pressures[0], rtol=0, atol=1e-12 * abs(by_kernel).max()))
print("reciprocal:", np.array_equal(law.green(), law.green().T))


# %%
# A smooth case with a known solution, p = sin(πx) sin(πy) for b = 1 + x: the error is of second order.
def error(grid: Grid) -> float:
    x, y = np.pi * np.stack(grid.coordinates)
    coefficient, solution = 1 + x / np.pi, np.sin(x) * np.sin(y)
    load = 2 * np.pi**2 * coefficient * solution - np.pi * np.cos(x) * np.sin(y)
    return float(grid.norm(Darcy(grid, coefficient).solve(load) - solution) / grid.norm(solution))


grids = [Grid.uniform(nodes) for nodes in (11, 21, 41, 81)]
errors = np.array([error(grid) for grid in grids])
print("observed orders:", np.log2(errors[:-1] / errors[1:]).round(2))

# %%
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
point, (x, y) = (14, 26), grid.coordinates
drawn = ((left, permeability, "permeability"), (middle, green[point], "response at the cross to a load at (x, y)"))
for axes, values, title in drawn:
    colours = plt.get_cmap("viridis", 2 if values is permeability else None)
    image = axes.pcolormesh(x, y, values, shading="nearest", cmap=colours)
    axes.plot(x[point], y[point], "+", color="white", markersize=12, markeredgewidth=2)
    axes.set(title=title, xlabel="x", ylabel="y", aspect="equal")
    figure.colorbar(image, ax=axes, shrink=0.8, ticks=[3, 12] if values is permeability else None)
spacings = np.array([grid.spacing[0] for grid in grids])
right.loglog(spacings, errors, "o-", spacings, errors[0] * (spacings / spacings[0]) ** 2, "k--")
right.set(title="relative error", xlabel="spacing", xticks=spacings, xticklabels=[f"1/{g.shape[0] - 1}" for g in grids])
right.minorticks_off()
right.legend(["smooth case", "second order"])
plt.show()
