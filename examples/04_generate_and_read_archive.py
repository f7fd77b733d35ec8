"""
Generate and read an archive
============================

A plan determines an archive. Generate it, verify it, read it and plot one of its systems.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import nipde
from nipde.report.system_figure import Panel, system_figure

plan = nipde.Plan(nipde.DarcyRecipe(nodes=41, pairs=20, load_alpha=(1.0, 2.0, 4.0)), systems=40, seed=7)
print(plan.systems, "systems in", plan.shards, "shards")

# %%
# One worker is this process; more workers, or a cluster, give the same bytes. Running this again would find the
# archive finished and only open it.
place = Path(tempfile.mkdtemp()) / "darcy41"
archive = nipde.generate(plan, place, workers=1)

# %%
# Opening checks the metadata, `verify` every byte; `rebuild` recomputes a system from its seed and compares bits.
archive.verify()
archive.rebuild(17)
print("intact, digest", archive.digest[:16])

# %%
# A system is a hidden field and its pairs. Several come stacked, with the system axis first.
print({part: len(archive.indices(part)) for part in ("train", "validation", "test")})
batch = archive.read(archive.indices("test"), pairs=range(10))
print("loads", batch.loads.shape, "| hidden", batch.hidden.shape)
print("root mean square of the loads:", np.sqrt(np.mean(batch.grid.norm(batch.loads) ** 2)))

# %%
# The picture that `nipde show` draws.
system, quantities = archive[17], archive.quantities
panels = [
    Panel(quantities.hidden.name, quantities.hidden.unit, system.hidden),
    Panel(quantities.load.name, quantities.load.unit, system.loads[0]),
    Panel(quantities.response.name, quantities.response.unit, system.responses[0]),
]
system_figure(archive.grid, panels, title="system 17, pair 0")
plt.show()
