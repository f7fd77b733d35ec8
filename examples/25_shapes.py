"""
Specimens of any plane shape
============================

A plate with a hole between a given value and a given flux, and a disc with eight electrodes, on cells cut by outlines.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm
from matplotlib.path import Path

import nipde
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Terminal
from nipde.grid import Axis
from nipde.physics.conduction import Conduction

# %%
# A plate of 0.99 × 0.59 with a hole, within a box of 1.2 × 0.8. Parts without a condition are insulated: the hole, too.
angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
hole = np.stack([0.5 + 0.15 * np.cos(angle), 0.4 + 0.15 * np.sin(angle)], axis=-1)
corners, sides = [(0.105, 0.105), (1.095, 0.105), (1.095, 0.695), (0.105, 0.695)], ("bottom", "right", "top", "left")
plate = nipde.Shape.polygon(corners, holes=[hole], sides=sides)
box = nipde.Grid((Axis(121, 1.2), Axis(81, 0.8)))
law = Conduction(cut_cells(box, plate, {"left": DirichletPart()}), lambda x, y: np.full_like(x, 2.0))
data = LoadCase(values={"left": 1.0}, fluxes={"right": 4.0})
in_plate = law.solve(data)
print(f"in by the right side {4.0 * 0.59:.6f}, out by the left side {law.outflow(data, in_plate)['left']:.6f}")

# %%
# A disc with electrodes on half of its rim: current enters at the first and leaves at the fourth.
disc = nipde.Shape.disc((0.5, 0.5), 0.4)
names = [f"electrode {number}" for number in range(1, 9)]
for number, name in enumerate(names):
    disc = disc.with_arc(name, number / 8, (number + 0.5) / 8)
square = nipde.Grid.uniform(101)
electrodes = cut_cells(square, disc, dict.fromkeys(names, Terminal(impedance=0.1)))
in_disc = Conduction(electrodes, lambda x, y: np.ones_like(x)).solve(LoadCase(totals={names[0]: 1.0, names[3]: -1.0}))
print("potentials of the electrodes:", ", ".join(f"{one:.3f}" for one in in_disc.terminals.values()))

figure, places = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(1.45, 1))
cases = ((plate, box, in_plate, "plate: u and flow"), (disc, square, in_disc, "disc: potential and current"))
for axes, (shape, grid, solution, title) in zip(places, cases, strict=True):
    x, y = (axis.coordinates for axis in grid.axes)
    image = axes.pcolormesh(x, y, solution.response.T, shading="nearest", cmap=cm.batlow)
    rings = [shape.rings[0], *(ring[::-1] for ring in shape.rings[1:])]  # holes run the other way
    image.set_clip_path(Path.make_compound_path(*map(Path, rings)), axes.transData)
    for ring in rings:
        axes.fill(*ring.T, fill=False, linewidth=1.2)
    downhill = [-slope.T for slope in np.gradient(solution.response, x, y)]
    axes.streamplot(x, y, *downhill, color="white", density=0.7, linewidth=0.8, arrowsize=0.8)
    figure.colorbar(image, ax=axes, shrink=0.85)
    axes.set(title=title, xlabel="x", ylabel="y", aspect="equal", xlim=(0, x[-1]), ylim=(0, y[-1]))
for name in names:
    places[1].plot(*disc.parts[name].xy, color="tab:red", linewidth=4, solid_capstyle="butt")
    places[1].annotate(name[-1], 0.5 + 1.13 * (np.ravel(disc.parts[name].centroid.xy) - 0.5), ha="center", va="center")
plt.show()
