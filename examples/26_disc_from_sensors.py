"""
Material of a disc from forty sensors
=====================================

A disc with its rim at 0, two phases, 20 loads, readings at 40 points with 1 % noise. The readings come from triangles
that follow the rim; the estimate is computed on cells of a grid that the rim cuts.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm
from matplotlib.patches import Circle
from scipy.sparse.linalg import splu
from skfem import Basis, BilinearForm, ElementTriP0, ElementTriP1, MeshTri, asm
from skfem.helpers import dot, grad

import nipde
from nipde.discretisation.parts import DirichletPart, Specimen

rng, centre, radius = np.random.default_rng(7), (0.5, 0.5), 0.45
mesh = MeshTri.init_circle(6).scaled(radius).translated(centre)
basis, (x, y) = Basis(mesh, ElementTriP1()), mesh.p[:, mesh.t].mean(axis=1)
truth = np.where((np.hypot(x - 0.6, y - 0.62) < 0.15) | (np.abs(y - 0.28 - 0.1 * np.sin(6 * x)) < 0.06), 12.0, 3.0)


waves, steps = rng.standard_normal((24, 4, 4)), np.pi * np.arange(4)  # sums of cosines; the last four are held out
of_nodes = np.einsum("im,in,pmn->ip", *(np.cos(np.multiply.outer(at, steps)) for at in mesh.p), waves)
b = Basis(mesh, ElementTriP0()).interpolate(truth)
stiffness = asm(BilinearForm(lambda u, v, w: w.b * dot(grad(u), grad(v))), basis, b=b)
moments = asm(BilinearForm(lambda u, v, w: u * v), basis) @ of_nodes
free = np.setdiff1d(np.arange(mesh.p.shape[1]), mesh.boundary_nodes())
solution = np.zeros(moments.shape)
solution[free] = splu(stiffness[free][:, free].tocsc()).solve(moments[free])
angle, away = 2 * np.pi * rng.random(40), 0.95 * radius * np.sqrt(rng.random(40))
points = np.stack([0.5 + away * np.cos(angle), 0.5 + away * np.sin(angle)], axis=-1)
exact = (basis.probes(points.T) @ solution).T
noise = 0.01 * np.sqrt(np.mean(exact[:20] ** 2))

# %%
# The specimen is a shape and what holds on the parts of its outline.
grid, specimen = nipde.Grid.uniform(21), Specimen(nipde.Shape.disc(centre, radius), {"rim": DirichletPart()})
along = np.cos(np.multiply.outer(grid.axes[0].coordinates, steps))
loads, readings = np.einsum("im,jn,pmn->pij", along, along, waves), exact + noise * rng.standard_normal(exact.shape)
known = {"grid": grid, "sensors": nipde.Sensors.at(points), "noise": noise, "specimen": specimen}
pairs = nipde.SensorPairs.from_arrays(loads[:20], readings[:20], **known)
law = nipde.SensorInversion()(pairs).laws[0]
error = np.linalg.norm(law.readings(loads[20:], pairs.sensors.matrix) - exact[20:]) / np.linalg.norm(exact[20:])
print(f"{law.summary['model']}, χ² {law.summary['chi_square']:.2f}, held-out error at the sensors {error:.2%}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained", sharey=True)
left.tripcolor(*mesh.p, mesh.t.T, truth, cmap=cm.batlow, vmin=3, vmax=12)
image = right.imshow(law.map_of((200, 200)).T, origin="lower", extent=(0, 1, 0, 1), cmap=cm.batlow, vmin=3, vmax=12)
image.set_clip_path(Circle(centre, radius, transform=right.transData))
for axes, title in ((left, "true coefficient"), (right, "estimated from forty sensors")):
    axes.add_patch(Circle(centre, radius, fill=False))
    axes.plot(*points.T, "o", color="white", markeredgecolor="black", markersize=4)
    axes.set(title=title, xlabel="x", ylabel="y", aspect="equal", xlim=(0, 1), ylim=(0, 1))
figure.colorbar(image, ax=(left, right), label="b")
plt.show()
