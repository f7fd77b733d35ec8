"""
Fibre directions with posterior uncertainty
===========================================

The equilibrium gap takes second derivatives of displacements, which amplify noise. Output error does not: fibre
directions of every cell come with a posterior deviation.
"""

import matplotlib.pyplot as plt
import numpy as np
from cmcrameri import cm

import nipde
from nipde.discovery.fibres import two_segments
from nipde.physics.bodies import TwoSegmentTissue
from nipde.physics.random_fields import PowerLawField

grid = nipde.Grid.uniform(15)
angles, line = np.radians([35.0, 120.0]), np.radians(60.0)
tissue = TwoSegmentTissue(grid, (angles[0], angles[1]), line)
fields = PowerLawField().sample(grid, rng=np.random.default_rng(1), count=20)
loads = 0.1 * fields.reshape(10, 2, *grid.shape)
exact = nipde.Pairs.from_arrays(loads, tissue.solve(loads), grid=grid)
pairs = nipde.with_white_noise(exact, share=0.03, seed=0)  # 3 % of the root mean square

# %%
# Posterior samples of the body give a band for any quantity of it: here both directions.
print("families of fibres by the equilibrium gap:", len(nipde.estimators.ElasticBalance().body(pairs).angles))
posterior = nipde.estimators.ElasticGaussNewton().posterior(pairs)
samples = np.degrees([two_segments(body).angles for body in posterior.draws(200)])
centre = np.degrees(two_segments(posterior.body).angles)
away = (samples - centre + 90) % 180 - 90
for true, estimate, deviation in zip(np.degrees(angles), centre, away.std(0), strict=True):
    print(f"fibres along {true:.0f}°: {estimate:.1f}° ± {1.645 * deviation:.1f}°")

cells = (np.arange(14) + 0.5) / 14
truth = np.degrees(tissue.angle_at(*np.meshgrid(cells, cells, indexing="ij")))
shown = {
    "true angle, °": (truth, cm.romaO, 180),
    "estimated angle, °": (np.degrees(posterior.body.angles[0]) % 180, cm.romaO, 180),
    "posterior deviation, °": (np.degrees(posterior.angle_deviation()), cm.batlow, 12),
}
figure, panels = plt.subplots(1, 3, figsize=(11.5, 3.6), layout="constrained")
for axes, (title, (values, colours, most)) in zip(panels, shown.items(), strict=True):
    image = axes.imshow(values.T, origin="lower", cmap=colours, vmin=0, vmax=most, extent=(0, 1, 0, 1))
    figure.colorbar(image, ax=axes, shrink=0.8)
    axes.set(title=title, xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
off = np.abs((np.degrees(posterior.body.angles[0]) - truth + 90) % 180 - 90)
print(f"{np.mean(off < 1.645 * np.degrees(posterior.angle_deviation())):.0%} of cells are within bands of 90 %")
plt.show()
