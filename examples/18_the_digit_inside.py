"""
The digit inside
================

A square of soft material with a stiff digit in it, as in Mechanical MNIST. It is pushed and pulled a few times, its
displacements are recorded, and the stiffness of every pixel comes out: no training, because forces must balance.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.data.bitmaps import mnist
from nipde.physics.hyperelastic import NeoHookean, modulus_of_bitmap
from nipde.physics.periodic_fields import PowerLawField

grid = nipde.Grid.uniform(29, length=28.0)
modulus = modulus_of_bitmap(mnist().images[1733])
specimen = NeoHookean(grid, modulus)
fields = PowerLawField().sample(grid, rng=np.random.default_rng(0), count=24)
loads = 0.02 * fields.reshape(12, 2, *grid.shape)
pairs = nipde.Pairs.from_arrays(loads, specimen.solve(loads.astype(np.float32)), grid=grid)  # single precision

# %%
# Ten pairs are given, two are kept out. The estimator is told that the specimen is elastic, and nothing else.
given, kept = pairs.take(range(10)), pairs.take([10, 11])
found = nipde.ElasticBalance()(given)
body = found.bodies[0]
error = np.linalg.norm(body.young - modulus) / np.linalg.norm(modulus)
answers = found @ kept.loads
print(f"modulus to {error:.1e}, responses to {float((answers - kept.responses).norm() / kept.responses.norm()):.1e}")

# %%
# The answer to a load is not linear in it: twice the load moves the specimen by less, or by more, than twice.
# `found.kernel` is the kernel of small loads.
twice = found @ (2 * kept.loads)
print(f"not linear by {float((twice - 2 * answers).norm() / answers.norm()):.1%}")

shown = {
    "modulus as it is": (modulus, cm.batlow, (1, 100)),
    "load kept out, x": (kept.loads[0, 0].numpy(), cm.vik, (-0.05, 0.05)),
    "its response, x": (kept.responses[0, 0].numpy(), cm.vik, (-1, 1)),
    "modulus as found": (body.young, cm.batlow, (1, 100)),
    "found less true, × 10⁶": (1e6 * (body.young / modulus - 1), cm.vik, (-20, 20)),
    "response as predicted, x": (answers[0, 0].numpy(), cm.vik, (-1, 1)),
}
figure, panels = plt.subplots(2, 3, figsize=(11, 6.6), layout="constrained")
for axes, (title, (values, colours, (low, high))) in zip(panels.flat, shown.items(), strict=True):
    image = axes.imshow(values.T, origin="lower", cmap=colours, vmin=low, vmax=high, extent=(0, 28, 0, 28))
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title, xticks=(0, 14, 28), yticks=(0, 14, 28))
plt.show()
