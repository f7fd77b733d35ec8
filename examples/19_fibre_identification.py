"""
Fibre identification in soft tissue
===================================

Soft tissue with two segments: fibres run in one direction on one side of a line and in another beyond, and bear
tension only. Forty loads and displacements give the fibre direction in every cell, the line, and both angles.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.discovery.fibres import two_segments
from nipde.physics.bodies import TwoSegmentTissue
from nipde.physics.random_fields import PowerLawField

grid = nipde.Grid.uniform(29)
angles, line = np.radians([35.0, 120.0]), np.radians(60.0)
tissue = TwoSegmentTissue(grid, (angles[0], angles[1]), line)
fields = PowerLawField().sample(grid, rng=np.random.default_rng(1), count=84)
loads = 0.1 * fields.reshape(42, 2, *grid.shape)
pairs = nipde.Pairs.from_arrays(loads, tissue.solve(loads), grid=grid)

# %%
# Three bodies are tried: a matrix alone, fibres in eight directions, one direction per cell.
given, held_out = pairs.take(range(40)), pairs.take([40, 41])
predictor = nipde.estimators.ElasticBalance()(given)
body, segments = predictor.bodies[0], two_segments(predictor.bodies[0])
print("estimate", *(f"{np.degrees(value):.1f}°" for value in (*segments.angles, segments.line)))
print("true    ", *(f"{np.degrees(value):.1f}°" for value in (*angles, line)))
linear = nipde.Ridge()(given)
for name, estimator in (("linear map", linear), ("elastic body", predictor)):
    error = (estimator @ held_out.loads - held_out.responses).norm() / held_out.responses.norm()
    print(f"{name}: held-out error {float(error):.2%}")

centre = (np.arange(28) + 0.5) / 28
x, y = np.meshgrid(centre, centre, indexing="ij")
moment = body.fibre_moment
truth = np.degrees(tissue.angle_at(x, y))
local = np.degrees(np.angle(moment) / 2) % 180
figure, panels = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
for axes, (title, values) in zip(panels, {"true angle, °": truth, "estimated angle, °": local}.items(), strict=False):
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
panels[2].set(title="estimated fibres and line", xlim=(0, 1), ylim=(0, 1), aspect="equal")
plt.show()
