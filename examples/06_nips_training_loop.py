"""
Training loop of NIPS
=====================

NIPS at the size of the paper's Darcy table: 21 × 21 nodes, 50 pairs, 40 channels, 4 layers. No trained weights of it
come with nipde. Fifty steps show how training goes; they do not make a good model.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from nipde import NIPS, DarcyRecipe, MinimumNorm, Pairs

torch.manual_seed(0)
recipe = DarcyRecipe(nodes=21, pairs=100)
grid, model = recipe.grid, NIPS(recipe.grid, pairs=50, channels=40, layers=4)
print(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters")
# Twenty training systems and eight test systems, each with its own loads.
systems = [recipe.build(np.uint64(seed)) for seed in range(28)]
loads, responses = np.stack([one.loads for one in systems]), np.stack([one.responses for one in systems])
training, test = (Pairs.from_arrays(loads[part], responses[part], grid=grid) for part in (slice(0, 20), slice(20, 28)))


def error(kernel, pairs):
    return (grid.norm(kernel @ pairs.loads - pairs.responses) / grid.norm(pairs.responses)).mean()


# %%
# The paper's loss and its augmentation: a step draws 50 pairs in random order and predicts their own responses.
optimiser, curve = torch.optim.Adam(model.parameters(), lr=0.05), []
for _ in range(50):
    context = training.take(torch.randperm(100)[:50])
    optimiser.zero_grad()
    curve.append(error(model(context), context))
    curve[-1].backward()
    optimiser.step()

# %%
# In context: the pairs that were given. Held out: other loads of the same new systems. The second number is the one
# that counts. After so few steps it is bad, and a kernel that needs no training is better in both.
given, held_out = test.take(slice(0, 50)), test.take(slice(50, 100))
for name, kernel in (("minimum norm", MinimumNorm()(given)), ("NIPS, 50 steps", model.requires_grad_(False)(given))):
    print(f"{name}: in context {error(kernel, given):.0%}, held out {error(kernel, held_out):.0%}")
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
left.plot(torch.stack(curve).detach())
left.set(title="mean relative error in context", xlabel="step", ylim=(0, None))
(x, y), point = grid.coordinates, (8, 12)
for pairs, colour, label in ((given, "C0", "in context"), (held_out, "C1", "held out")):
    middle.plot(x[:, 12], pairs.responses[0, 0, 0, :, 12], color=colour, label=f"{label}, true")
    middle.plot(x[:, 12], (kernel @ pairs.loads)[0, 0, 0, :, 12], "--", color=colour, label=f"{label}, NIPS")
middle.legend(title="pressure along x", fontsize="small", title_fontsize="small")
right.pcolormesh(x, y, kernel.dense()[0].reshape(*grid.shape, *grid.shape)[point], shading="nearest")
right.plot(x[point], y[point], "r+", markersize=12, markeredgewidth=2)
right.set(title="row of the kernel at the cross", xlabel="x", ylabel="y", aspect="equal")
plt.show()
