"""
Optimal experimental design: the next load
==========================================

The posterior variance of a kernel shows which part of a load its pairs do not determine, so it can recommend the next
load. Specimens have been loaded five times at random; ten designed loads are compared with ten random ones.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import nipde
from nipde.discovery.design import principal_loads
from nipde.discovery.recommended_loads import recommend

recipe = nipde.DarcyRecipe(nodes=21, pairs=55, precision="float64")
grid, model = recipe.grid, nipde.load("darcy-two-phase-gated")
specimens = [recipe.build(np.uint64(seed)) for seed in range(8)]
loads_of_interest = nipde.physics.GaussianField(1.0, rms=1.0)
expected = loads_of_interest.sample(grid, rng=np.random.default_rng(1), count=500)


def measured(specimen, loads):
    responses = nipde.Darcy(grid, specimen.hidden[0]).solve(loads[:, 0].numpy())
    return nipde.Pairs.from_arrays(loads[:, 0], responses, grid=grid, noise=0.0).to(dtype=torch.float32)


# %%
# Patches that can be applied, ranked for the first specimen.
pairs = measured(specimens[0], torch.tensor(specimens[0].loads[:5]))
patches = recommend(model(pairs), pairs, count=3)
for name, gain in zip(patches.names, patches.gains, strict=True):
    print(f"{name}: removes {gain:.0%} of the predictive variance")

# %%
# If any load can be applied: the ten with the least remaining variance. No response is needed, so all are chosen at
# once; `nipde.discovery.design.empty_context` does so before the first experiment.
errors = {"random": torch.zeros(11), "designed": torch.zeros(11)}
for specimen in specimens:
    first, drawn, others = torch.tensor(specimen.loads).split([5, 10, 40])
    queries, plan = measured(specimen, others), principal_loads(model(measured(specimen, first)), expected, count=10)
    for name, more in (("random", drawn), ("designed", plan)):
        pairs = measured(specimen, torch.cat([first, more]))
        for count in range(5, 16):
            gap = grid.norm(model(pairs.take(slice(0, count))) @ queries.loads - queries.responses)
            errors[name][count - 5] += (gap / grid.norm(queries.responses)).mean() / len(specimens)
print(", ".join(f"ten more {name} loads: mean error {float(values[-1]):.1%}" for name, values in errors.items()))

figure, (left, *right) = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained", width_ratios=(1.5, 1, 1, 1))
for name, values in errors.items():
    left.plot(range(5, 16), 100 * values, marker="o", label=f"{name} loads")
left.set(title="mean error on 40 held-out loads, %", xlabel="loads applied", ylim=(0, None))
left.legend()
shown = ("recommended patch", patches.loads[:1]), ("first designed load", plan[0]), ("tenth", plan[9])
for axes, (title, load) in zip(right, shown, strict=True):
    axes.pcolormesh(*grid.coordinates, load[0], shading="nearest", cmap="RdBu_r", vmin=-3, vmax=3)
    axes.set(title=title, aspect="equal", xticks=(0, 1), yticks=(0, 1))
plt.show()
