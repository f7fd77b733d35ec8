"""
What is inside
==============

A file of measurements in, the material out. The file comes with nipde: a membrane in a frame of 90 mm was pressed
twenty times, its deflections carry noise, and every twentieth value is missing. The tension it was made with lies in a
second file, which only the comparison at the end opens.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde

measurement = nipde.read(nipde.sample())
print(measurement.interpretation())  # how the file was understood: look before you believe what follows

# %%
# One call finds kernel, material, band and phases, and answers pairs that were kept out. `rivals=()` leaves out the
# classical inversions, which take longer than all the rest.
found = nipde.discover(measurement, nipde.load("darcy-two-phase"), rivals=())
print("\n".join(found.verdict))

# %%
# `nipde.save(found, "folder")` writes tables, the kernel, a program that answers new loads, and a page to look at.
# Here the truth is known, so the finding can be judged. Of the corners no pair tells anything: nothing flows there.
truth, inside = nipde.sample_truth(), measurement.pairs.grid.unknown
right = np.mean((found.phases.labels == (truth > 6))[inside])
error = np.median(np.abs(found.material.values / truth - 1)[inside])
held = np.mean(((found.material.low <= truth) & (truth <= found.material.high))[inside])
print(f"{right:.1%} of the free nodes in the right phase, b to {error:.2%} in the median, {held:.0%} in the band")

width = 100 * np.sqrt(found.material.high / found.material.low) - 100
shown = {
    f"b as it is, {found.material.unit}": (truth, (3, 12)),
    f"b as found, {found.material.unit}": (found.material.values, (3, 12)),
    "phases as found": (found.phases.labels, (0, 1)),
    "band on b, ± %": (width, (0, None)),
    "identifiable": (found.material.identifiable, (0, 1)),
    "b as found less b as it is, %": (100 * (found.material.values / truth - 1), (-1, 1)),
}
x, y = measurement.pairs.grid.coordinates
figure, panels = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
for axes, (title, (values, (low, high))) in zip(panels.flat, shown.items(), strict=True):
    colours = cm.vik if low == -1 else cm.batlow
    image = axes.pcolormesh(x, y, values, shading="nearest", cmap=colours, vmin=low, vmax=high)
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title, aspect="equal", xlabel="x, mm", xticks=(0, 45, 90), yticks=(0, 45, 90))
plt.show()
