"""
Modulus from one tensile test
=============================

A plate with a hole and a stiff disc, clamped on the left, pulled on the right; a camera sees displacements at 300
points with a noise of 0.01 px. Poisson's ratio is not known. The laboratory has another, finer mesh than the estimate.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.discretisation.parts import ClampedPart, Specimen
from nipde.physics.plane_elasticity import PlaneElasticity

rng, hole = np.random.default_rng(2), nipde.Shape.disc((40.0, 14.0), 5.0, vertices=128).rings[0]
shape = nipde.Shape.polygon([(0, 0), (60, 0), (60, 30), (0, 30)], holes=[hole]).with_sides()  # mm
specimen = Specimen(shape, {"left": ClampedPart()})


def modulus(x, y):
    """In N/mm²."""
    return np.where(np.hypot(x - 20, y - 17) < 7, 9000.0, 3000.0)


tension = nipde.SolidLoad(tractions={"right": (20.0, 0.0)})  # N/mm²
plate = PlaneElasticity.of(specimen, modulus, poisson=0.35, spacing=0.6)
points = np.stack(np.meshgrid(np.arange(2.5, 60, 2.5), np.arange(2.0, 30, 2.0), indexing="ij"), -1).reshape(-1, 2)
points = points[shape.contains(points)]
seen = plate.displacements([tension], points)
seen += 0.0006 * rng.standard_normal(seen.shape)
# %%
# What a laboratory has: the specimen, the load, what the camera saw.
tests = nipde.SolidTests.from_arrays(specimen, [tension], points, seen, noise=0.0006, uncertain=("motion",))
law = nipde.SolidInversion(material=26, solver=36)(tests)
print(f"{law.summary['model']}, Poisson's ratio {law.poisson:.3f} ± {1.645 * law.poisson_deviation:.3f}")
x, y = np.linspace(0, 60, 121), np.linspace(0, 30, 61)
at = np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2)
inside = shape.covers(at)
found, width = (np.where(inside, field, np.nan).reshape(121, 61) for field in (
    law.modulus_at(at), 164.5 * law.log_deviation_at(at)))  # fmt: skip
true = np.where(inside, modulus(*at.T), np.nan).reshape(121, 61)
figure, places = plt.subplots(1, 3, figsize=(13, 2.6), layout="constrained")
names = ("true E in N/mm², camera points", "E from one test", "half width of the 90 % band in %")
for place, field, name in zip(places, (true, found, width), names, strict=True):
    limits = {"vmin": 2000, "vmax": 10000} if place is not places[2] else {"vmin": 0, "vmax": 20}
    figure.colorbar(place.pcolormesh(x, y, field.T, cmap=cm.batlow, **limits), ax=place)
    place.set(title=name, xlabel="x in mm", aspect="equal")
places[0].plot(*points.T, ".", color="white", markersize=2)
plt.show()
