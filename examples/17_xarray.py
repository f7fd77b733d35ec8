"""
Labelled arrays with xarray, operators for SciPy
================================================

Measurements, predictions and estimates as xarray datasets with positions and units. The kernel is also a SciPy
operator; `svds` gives its leading modes.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm
from scipy.sparse.linalg import svds

import nipde
from nipde.interop import discovery_dataset, predictions

measurement = nipde.read(nipde.sample())
dataset = nipde.interop.to_xarray(measurement)
print(dataset)

# %%
# The estimate, and the prediction for one load with its band, by name. Values that were not measured are masked.
result = nipde.discover(measurement, nipde.load("darcy-two-phase"), quantity="tension")
estimate = discovery_dataset(result)
predicted = predictions(result.kernel, measurement.pairs.loads[:1], units=measurement.units, band=0.9)
line = predicted.isel(pair=0, response_component=0).sel(y=45, method="nearest")
tension = estimate.coefficient
print(f"at (45, 45) {estimate.x.units}: {float(tension.sel(x=45, y=45, method='nearest')):.3g} {tension.units}")

# %%
# For SciPy the kernel is an operator; its leading singular vectors and values.
operator = result.kernel.as_linear_operator()
left, sizes, _ = svds(operator, k=3, rng=np.random.default_rng(0))
print("leading singular values:", ", ".join(f"{size:.3g}" for size in sizes[::-1]))

figure, (first, second, third) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
tension.plot(ax=first, x="x", y="y", cmap=cm.batlow, cbar_kwargs={"label": f"tension, {tension.units}"})
first.set(title="estimate", aspect="equal")
measured = dataset.responses.where(dataset.mask).isel(pair=0, response_component=0).sel(y=45, method="nearest")
low, high, off = (1000 * (field - line.responses) for field in (line.low, line.high, measured))
second.fill_between(line.x, low, high, alpha=0.3, label="band, 90 %")
second.plot(line.x, off, "k.", label="measured, with noise")
second.set(title="minus the prediction, at y = 45 mm", xlabel=f"x, {line.x.units}", ylabel="µm", ylim=(-0.6, 0.6))
second.legend()
mode = left[:, -1].reshape(measurement.pairs.grid.shape)
x, y = measurement.pairs.grid.coordinates
third.pcolormesh(x, y, mode * np.sign(mode.sum()), shading="nearest", cmap=cm.lapaz)
third.set(title="leading mode", aspect="equal", xlabel=f"x, {line.x.units}")
plt.show()
