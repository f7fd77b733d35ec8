"""
Material identification from a measurement file
===============================================

The bundled sample: a membrane with two tensions, pressed twenty times, with 1 % noise and missing values, from a solver
that nipde's estimators do not share. From the file to the tension, its band, its phases and where it is identifiable.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.report.statements import statements

measurement = nipde.read(nipde.sample())
print(measurement.interpretation())  # how the file was understood

# %%
# One call estimates kernel, material, band and phases, and the error on held-out pairs.
result = nipde.discover(measurement, nipde.SensorInversion(), quantity="tension")
print("\n".join(statements(result)))

# %%
# `result.save("folder")` writes tables, the kernel, a program that predicts responses, and a report page. Here the
# truth is known, in 160² cells; interfaces are found between the 21² nodes. Bands are wide where one may pass.
truth, interior = nipde.measurements.sample_truth(), measurement.pairs.grid.unknown
right = np.mean((result.phases.labels == (truth > 6))[interior])
error = np.median(np.abs(result.material.values / truth - 1)[interior])
held = np.mean(((result.material.low <= truth) & (truth <= result.material.high))[interior])
print(f"{right:.1%} of the interior nodes in the right phase, median error of b {error:.2%}, {held:.0%} in the band")

width = 100 * np.sqrt(result.material.high / result.material.low) - 100
cells, found = nipde.measurements.sample_truth(cells=True), result.kernel.laws[0].map_of((160, 160))
shown = {
    f"true tension, {result.material.unit}": (cells, (3, 12)),
    f"estimated tension, {result.material.unit}": (found, (3, 12)),
    "error, %": (100 * (found / cells - 1), (-1, 1)),
    f"estimated at the nodes, {result.material.unit}": (result.material.values, (3, 12)),
    "half width of the band, %": (width, (0, 100)),
    "identifiability": (result.material.identifiable, (0, 1)),
}
figure, panels = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
for axes, (title, (values, (low, high))) in zip(panels.flat, shown.items(), strict=True):
    colours = cm.vik if low == -1 else cm.batlow
    image = axes.imshow(values.T, origin="lower", extent=(0, 90, 0, 90), cmap=colours, vmin=low, vmax=high)
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title, xlabel="x, mm", ylabel="y, mm", xticks=(0, 45, 90), yticks=(0, 45, 90))
plt.show()
