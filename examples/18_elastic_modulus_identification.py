"""
Elastic modulus identification
==============================

A soft square with a stiff digit, as in Mechanical MNIST, under body forces. The equilibrium gap gives Young's modulus
of every cell from displacements, without training.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.data.mechanics import mnist
from nipde.physics.bodies import NeoHookean, modulus_of_bitmap
from nipde.physics.random_fields import PowerLawField

grid = nipde.Grid.uniform(29, length=28.0)
modulus = modulus_of_bitmap(mnist().images[1733])
specimen = NeoHookean(grid, modulus)
fields = PowerLawField().sample(grid, rng=np.random.default_rng(0), count=24)
loads = 0.02 * fields.reshape(12, 2, *grid.shape)
pairs = nipde.Pairs.from_arrays(loads, specimen.solve(loads.astype(np.float32)), grid=grid)  # single precision

# %%
# Ten pairs are given, two held out. The estimator assumes elasticity and nothing else.
given, held_out = pairs.take(range(10)), pairs.take([10, 11])
predictor = nipde.estimators.ElasticBalance()(given)
body = predictor.bodies[0]
error = np.linalg.norm(body.young - modulus) / np.linalg.norm(modulus)
predictions = predictor @ held_out.loads
gap = float((predictions - held_out.responses).norm() / held_out.responses.norm())
print(f"relative error of the modulus {error:.1e}, of held-out responses {gap:.1e}")

# %%
# The response is nonlinear: twice the load does not give twice the displacement.
# `predictor.kernel` is the kernel of small loads.
twice = predictor @ (2 * held_out.loads)
print(f"nonlinear part {float((twice - 2 * predictions).norm() / predictions.norm()):.1%}")

shown = {
    "true modulus": (modulus, cm.batlow, (1, 100)),
    "held-out load, x": (held_out.loads[0, 0].numpy(), cm.vik, (-0.05, 0.05)),
    "its response, x": (held_out.responses[0, 0].numpy(), cm.vik, (-1, 1)),
    "estimated modulus": (body.young, cm.batlow, (1, 100)),
    "relative error, × 10⁶": (1e6 * (body.young / modulus - 1), cm.vik, (-20, 20)),
    "prediction, x": (predictions[0, 0].numpy(), cm.vik, (-1, 1)),
}
figure, panels = plt.subplots(2, 3, figsize=(11, 6.6), layout="constrained")
for axes, (title, (values, colours, (low, high))) in zip(panels.flat, shown.items(), strict=True):
    image = axes.imshow(values.T, origin="lower", cmap=colours, vmin=low, vmax=high, extent=(0, 28, 0, 28))
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title, xticks=(0, 14, 28), yticks=(0, 14, 28))
plt.show()
