"""
With labels: xarray and SciPy
=============================

Measurements, answers and findings as xarray datasets know their positions and units, and select by them. The kernel is
an operator for SciPy at the same time: here its strongest modes, by `svds`.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm
from scipy.sparse.linalg import svds

import nipde
from nipde.interop.labelled import answers, findings

measurement = nipde.read(nipde.sample())
dataset = nipde.to_xarray(measurement)
print(dataset)

# %%
# What was found, and the answer to one load with its band; all by name. Values that were not measured are masked.
found = nipde.discover(measurement, nipde.load("darcy-two-phase"), rivals=())
inside = findings(found)
told = answers(found.kernel, measurement.pairs.loads[:1], units=measurement.units, band=0.9)
line = told.isel(pair=0, response_component=0).sel(y=45, method="nearest")
print(f"b at (45, 45) {inside.x.units}: {float(inside.b.sel(x=45, y=45, method='nearest')):.3g} {inside.b.units}")

# %%
# For SciPy the kernel is an operator; its strongest answers, and how large they are for a load of the same size.
operator = nipde.as_linear_operator(found.kernel)
left, sizes, _ = svds(operator, k=3, rng=np.random.default_rng(0))
print("strongest answers per load:", ", ".join(f"{size:.3g}" for size in sizes[::-1]))

figure, (first, second, third) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
inside.b.plot(ax=first, x="x", y="y", cmap=cm.batlow, cbar_kwargs={"label": f"b, {inside.b.units}"})
first.set(title="found", aspect="equal")
measured = dataset.responses.where(dataset.mask).isel(pair=0, response_component=0).sel(y=45, method="nearest")
low, high, off = (1000 * (field - line.responses) for field in (line.low, line.high, measured))
second.fill_between(line.x, low, high, alpha=0.3, label="band, 90 %")
second.plot(line.x, off, "k.", label="measured, with noise")
second.set(title="less the answer, at y = 45 mm", xlabel=f"x, {line.x.units}", ylabel="µm", ylim=(-0.6, 0.6))
second.legend()
mode = left[:, -1].reshape(measurement.pairs.grid.shape)
x, y = measurement.pairs.grid.coordinates
third.pcolormesh(x, y, mode * np.sign(mode.sum()), shading="nearest", cmap=cm.lapaz)
third.set(title="strongest answer", aspect="equal", xlabel=f"x, {line.x.units}")
plt.show()
