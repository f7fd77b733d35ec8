"""
Bodies in a tank by impedance tomography
========================================

Sixteen electrodes around a tank of water with a conductive and a resistive body. Currents are loads, voltages between
neighbours readings; differences to the empty tank are used. Cut cells stand for the laboratory; voltages drift by 2 %.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.boundary import Neumann
from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Specimen, Terminal
from nipde.estimators.inverse.electrode_inversion import ElectrodeInversion
from nipde.grid import Axis
from nipde.physics.conduction import Conduction

count, rng, shape = 16, np.random.default_rng(0), nipde.Shape.disc((0.55, 0.55), 0.5)  # m
names = [f"electrode {number}" for number in range(count)]
for number, name in enumerate(names):
    shape = shape.with_arc(name, number / count, (number + 0.5) / count)
specimen = Specimen(shape, {name: Terminal(0.01) for name in names})
bodies = [((0.36, 0.7), 0.13, 60.0), ((0.72, 0.42), 0.14, 1 / 60)]  # place, radius, conductivity over that of water


def conductivity(x, y, bodies):
    """Of water 1."""
    field = np.ones(np.shape(x))
    for (a, b), radius, value in bodies:
        field = np.where(np.hypot(x - a, y - b) < radius, value, field)
    return field


currents, patterns = (np.eye(count) - np.roll(np.eye(count), step, axis=1) for step in (5, 1))
cells = cut_cells(nipde.Grid(tuple(Axis(89, 1.1, Neumann()) for _ in range(2))), shape, dict(specimen.conditions))
seen = []
for held in ([], bodies):  # the empty tank first
    law = Conduction(cells, lambda x, y, held=held: conductivity(x, y, held))
    cases = [LoadCase(totals=dict(zip(names, one.tolist(), strict=True))) for one in currents]
    seen.append([patterns @ [solution[name] for name in names] for solution in (law.solve(c).terminals for c in cases)])
empty, voltages = (np.array(one) + 3e-4 * rng.standard_normal((count, count)) for one in seen)
# %%
tests = ElectrodeTests.from_arrays(specimen, currents, patterns, 1.02 * voltages, empty, noise=1e-3)
found = ElectrodeInversion(material=40, triangles=40)(tests)
x, y = np.meshgrid(*[np.linspace(0.05, 1.05, 121)] * 2, indexing="ij")
inside, at = np.hypot(x - 0.55, y - 0.55) < 0.5, np.stack([x.ravel(), y.ravel()], axis=-1)
level, phases = (field.reshape(x.shape) for field in (found.field_at(at), found.phase_at(at)))
fields = (np.sign(np.log(conductivity(x, y, bodies))), level, phases)
figure, places = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
for place, field, title in zip(places, fields, ("true phases", "level φ", "phases found"), strict=True):
    image = place.pcolormesh(x, y, np.where(inside, field, np.nan), cmap=cm.vik, vmin=-1.5, vmax=1.5)
    place.set(title=title, aspect="equal")
figure.colorbar(image, ax=places)
plt.show()
