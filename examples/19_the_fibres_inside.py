"""
The fibres inside
=================

Soft tissue of two segments: fibres run one way on one side of a line, another way beyond, and pull but do not push.
From forty loads and displacements come the fibres of every cell, the line, and both directions.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.discovery.fibres import two_segments
from nipde.physics.periodic_fields import PowerLawField
from nipde.physics.tissue import TwoSegmentTissue

grid = nipde.Grid.uniform(29)
angles, line = np.radians([35.0, 120.0]), np.radians(60.0)
tissue = TwoSegmentTissue(grid, (angles[0], angles[1]), line)
fields = PowerLawField().sample(grid, rng=np.random.default_rng(1), count=84)
loads = 0.1 * fields.reshape(42, 2, *grid.shape)
pairs = nipde.Pairs.from_arrays(loads, tissue.solve(loads), grid=grid)

# %%
# Nobody says that there are fibres: a matrix alone, fibres in eight directions and one direction per cell are tried.
given, kept = pairs.take(range(40)), pairs.take([40, 41])
found = nipde.ElasticBalance()(given)
body, segments = found.bodies[0], two_segments(found.bodies[0])
print("found ", *(f"{np.degrees(value):.1f}°" for value in (*segments.angles, segments.line)))
print("true  ", *(f"{np.degrees(value):.1f}°" for value in (*angles, line)))
linear = nipde.Ridge()(given)
for name, estimator in (("linear map", linear), ("fibres found", found)):
    error = (estimator @ kept.loads - kept.responses).norm() / kept.responses.norm()
    print(f"{name}: responses to unseen loads off by {float(error):.2%}")

centre = (np.arange(28) + 0.5) / 28
x, y = np.meshgrid(centre, centre, indexing="ij")
moment = body.fibre_moment
truth = np.degrees(tissue.angle_at(x, y))
local = np.degrees(np.angle(moment) / 2) % 180
figure, panels = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
for axes, (title, values) in zip(
    panels, {"angle as it is, °": truth, "angle as found, °": local}.items(), strict=False
):
    image = axes.imshow(values.T, origin="lower", cmap=cm.romaO, vmin=0, vmax=180, extent=(0, 1, 0, 1))
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title)
thin = (slice(1, None, 3),) * 2
panels[2].quiver(
    x[thin], y[thin], np.cos(np.angle(moment) / 2)[thin], np.sin(np.angle(moment) / 2)[thin],
    headaxislength=0, headlength=0, headwidth=0, pivot="middle", scale=18,
)  # fmt: skip
reach = np.array([-0.6, 0.6])
panels[2].plot(0.5 + reach * np.cos(segments.line), 0.5 + reach * np.sin(segments.line), color="tab:red")
panels[2].set(title="fibres and line as found", xlim=(0, 1), ylim=(0, 1), aspect="equal")
plt.show()
