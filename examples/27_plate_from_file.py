"""
Plate with a hole from its files
================================

Left side held, six heat fluxes through the other sides and the hole, temperature read at 80 points with 1 % noise.
Triangles that follow the outline stand for the laboratory; then comes what a user has: table, outline, description.
"""

import json
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen
from nipde.physics.triangles import TriangleConduction, triangulated
from nipde.report.measurement_figure import measurement_figure

rng, hole = np.random.default_rng(3), nipde.Shape.disc((56.0, 30.0), 14.0, vertices=128).rings[0]
shape = nipde.Shape.polygon([(0, 0), (100, 0), (100, 60), (0, 60)], holes=[hole]).with_sides()
mesh = triangulated(shape, 0.8)
x, y = mesh.centres.T
truth = np.where((np.hypot(x - 25, y - 40) < 11) | (y < 14), 40.0, 10.0)
fluxes = [("right", 0.0), ("top", 0.0), ("bottom", 0.0), ("hole 1", 0.0), ("right", 0.03), ("hole 1", 0.03)]
cases = [LoadCase(fluxes={part: lambda x, y, slope=slope: 1 + slope * y}) for part, slope in fluxes]
law = TriangleConduction(mesh, truth, Specimen(shape, {"left": DirichletPart()}))
points = rng.uniform((0, 0), (100, 60), (120, 2))
points = points[shape.contains(points)][:80]
exact = (mesh.at(points) @ law.solve(np.zeros((len(mesh.vertices), len(cases))), cases)).T
readings = exact + 0.01 * np.sqrt(np.mean(exact**2)) * rng.standard_normal(exact.shape)
table = [f"{pair},{a:.3f},{b:.3f},{u:.6g}" for pair, each in enumerate(readings, start=1)
         for (a, b), u in zip(points, each, strict=True)]  # fmt: skip
loads = [f'[[loads]]\nkind = "flux"\npart = "{part}"\nflux = 1.0\nslope = [0.0, {slope}]' for part, slope in fluxes]
rings = [[*ring.tolist(), ring[0].tolist()] for ring in shape.rings]
folder = Path(mkdtemp())
(folder / "plate.csv").write_text("\n".join(["pair,x [mm],y [mm],response [K]", *table]))
(folder / "plate.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": rings}))
(folder / "plate.toml").write_text("\n".join([
    'files = "plate.csv"', 'outline = "plate.geojson"', 'noise = "1 %"', 'parts.left = "dirichlet"',
    'units.load = "W/mm^2"', *loads,
]))  # fmt: skip
# %%
# In a shell: nipde check plate.toml --out check.png; nipde discover plate.toml --out result
measured = nipde.read(folder / "plate.toml")
measurement_figure(measured)
found = nipde.discover(measured, nipde.SensorInversion())
print(f"phases of {found.phases.medians} W/K, held-out error {found.held_out.errors.mean():.2%}")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
left.tripcolor(*mesh.vertices.T, mesh.triangles, truth, cmap=cm.batlow, vmin=8, vmax=42)
image = right.pcolormesh(*measured.positions.values(), found.material.values.T, vmin=8, vmax=42, cmap=cm.batlow)
left.set(title="true coefficient and sensors", xlabel="x in mm", ylabel="y in mm", aspect="equal")
right.set(title="identified", xlabel="x in mm", aspect="equal", xlim=left.get_xlim(), ylim=left.get_ylim())
left.plot(*points.T, "o", color="white", markeredgecolor="black", markersize=4)
figure.colorbar(image, ax=(left, right), label="b in W/K")
plt.show()
