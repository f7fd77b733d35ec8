"""
A core in three dimensions from forty thermometers
==================================================

A cylinder, held at 0 at its lower end and heated through its rim, one heater at a time. An inclined layer conducts
three times better. Readings come from finite elements on a mesh that follows the rim.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm
from scipy.sparse.linalg import splu
from skfem import Basis, BilinearForm, ElementHex1, FacetBasis, LinearForm, MeshHex
from skfem.helpers import dot, grad

import nipde
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, Specimen

# %%
# Stands for an experiment. A square becomes a disc.
rng, radius = np.random.default_rng(3), 0.4
square = MeshHex.init_tensor(np.linspace(-1, 1, 15), np.linspace(-1, 1, 15), np.linspace(0.1, 0.9, 19))
x, y, z = square.p
disc = 0.5 + radius * np.stack([x * np.sqrt(1 - y**2 / 2), y * np.sqrt(1 - x**2 / 2)])
mesh, edge = MeshHex(np.stack([*disc, z]), square.t), square.facets_satisfying(lambda at: abs(at[:2]).max(0) > 0.99)
basis, rim = Basis(mesh, ElementHex1()), FacetBasis(mesh, ElementHex1(), facets=edge)
truth = lambda x, y, z: np.where(z + 0.4 * x > 0.75, 6.0, 2.0)  # noqa: E731
heaters = [
    lambda x, y, z, a=a, h=h: np.exp(10 * np.cos(np.arctan2(y - 0.5, x - 0.5) - a) - 10 - 20 * (z - h) ** 2)
    for h in (0.3, 0.6, 0.8) for a in rng.uniform(0, 6.28, 3)
]  # fmt: skip
stiffness = BilinearForm(lambda u, v, w: truth(*w.x) * dot(grad(u), grad(v))).assemble(basis)
flows = np.stack([LinearForm(lambda v, w, q=q: q(*w.x) * v).assemble(rim) for q in heaters], axis=1)
warm, free = np.zeros(flows.shape), np.flatnonzero(z > 0.1 + 1e-9)
warm[free] = splu(stiffness[free][:, free].tocsc()).solve(flows[free])
angle, away, height = 2 * np.pi * rng.random(40), 0.95 * radius * np.sqrt(rng.random(40)), rng.uniform(0.12, 0.88, 40)
points = np.stack([0.5 + away * np.cos(angle), 0.5 + away * np.sin(angle), height], axis=-1)
exact = (basis.probes(points.T) @ warm).T
noise = 0.01 * np.sqrt(np.mean(exact**2))

# %%
# A prism is an outline between two heights; its ends are the parts "back" and "front".
core = nipde.Prism.over(nipde.Shape.disc((0.5, 0.5), radius), low=0.1, high=0.9)
known = {"grid": nipde.Grid.uniform((11,) * 3), "sensors": nipde.Sensors.at(points), "noise": noise}
cases, readings = [LoadCase(fluxes={"rim": one}) for one in heaters], exact + noise * rng.standard_normal(exact.shape)
pairs = nipde.SensorPairs.from_cases(cases, readings, specimen=Specimen(core, {"back": DirichletPart()}), **known)
law = nipde.SensorInversion(material=8, solver=20)(pairs).laws[0]
at = np.stack(np.meshgrid(np.linspace(0.1, 0.9, 99), 0.5, np.linspace(0.1, 0.9, 99), indexing="ij")).reshape(3, -1)
figure, panels = plt.subplots(1, 2, figsize=(8, 4), layout="constrained", sharey=True)
shown = {"true": truth(*at), "estimated": np.exp(law.log_coefficient_at(at.T))}
for panel, (name, field) in zip(panels, shown.items(), strict=True):
    image = panel.pcolormesh(*at[::2].reshape(2, 99, 99), field.reshape(99, 99), cmap=cm.batlow, vmin=2, vmax=6)
    panel.plot(points[:, 0], points[:, 2], "o", color="white", markeredgecolor="black", markersize=4)
    panel.set(title=f"{name}, plane y = 0.5", xlabel="x", ylabel="z", aspect="equal")
figure.colorbar(image, ax=panels, label="b; thermometers lie at all y")
plt.show()
