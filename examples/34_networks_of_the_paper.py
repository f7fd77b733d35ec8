"""
Trained networks of the paper
=============================

NIPS with 2 and 4 layers, trained on smooth loads, as weights of nipde. A context has exactly 50 pairs on 21 x 21 nodes.
The networks state no band. They answer every order of the pairs differently: the mean errs less, and how far the
answers are apart shows what the last panel does, that rough loads are unlike those of training.
"""

import matplotlib.pyplot as plt
import numpy as np

import nipde
from nipde.estimators.paper.order_mean import distance_apart, mean_of

networks = {name: nipde.load(name) for name in ("nips-2-darcy", "nips-4-darcy")}


def specimen(load_alpha):
    """Exact pairs of one rock: a context and 20 other loads."""
    system = nipde.DarcyRecipe(nodes=21, pairs=70, load_alpha=load_alpha).build(np.uint64(3))
    pairs = nipde.Pairs.from_arrays(system.loads, system.responses, grid=system.grid)
    return pairs.take(slice(0, 50)), pairs.take(slice(50, 70))


# %%
# One forward pass makes a kernel, which answers loads that were not in the context.
context, held_out = specimen(load_alpha=4.0)
kernels = {name: network(context) for name, network in networks.items()}


def errors(kernel, pairs):
    return pairs.grid.norm(kernel @ pairs.loads - pairs.responses) / pairs.grid.norm(pairs.responses)


# %%
# Held-out errors, also for the same rock under rough loads, and of the mean over eight orders of the pairs.
rough, others = specimen(load_alpha=1.0)
for name, network in networks.items():
    for loads, pairs, queries in (("smooth", context, held_out), ("rough", rough, others)):
        each = nipde.OrderMean(network, orders=8).kernels(pairs)
        one, mean = (float(errors(kernel, queries).mean()) for kernel in (each[0], mean_of(each)))
        apart = float(distance_apart(each, queries.loads).mean())
        print(f"{name}, {loads} loads: one order errs by {one:.1%}, the mean by {mean:.1%}; {apart:.1%} apart")

truth, x = held_out.responses[0, 0], held_out.grid.coordinates
figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
shown = {"a held-out response": truth} | {name: (kernels[name] @ held_out.loads[:1])[0, 0] for name in networks}
for panel, (title, field) in zip(axes, shown.items(), strict=False):
    drawn = panel.pcolormesh(*x, field, shading="nearest", vmin=float(truth.min()), vmax=float(truth.max()))
    panel.set(title=title, aspect="equal")
figure.colorbar(drawn, ax=axes[2])
for place, name in enumerate(networks):
    means = [float(errors(*one).mean()) for one in ((kernels[name], held_out), (networks[name](rough), others))]
    bars = axes[3].bar(np.arange(2) + 0.4 * place, [100 * mean for mean in means], width=0.4, label=name)
    axes[3].bar_label(bars, fmt="%.1f")
axes[3].set(title="held-out error, %", xticks=[0.2, 1.2], xticklabels=["smooth loads", "rough loads"], ylim=(0, 70))
axes[3].legend(loc="upper left")
plt.show()
