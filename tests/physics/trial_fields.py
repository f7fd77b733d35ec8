"""Random fields that solvers are tried on, and how far two answers are apart."""

import numpy as np

from nipde.physics.random_fields import PowerLawField


def normal(shape, *, seed=0):
    """Independent standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def shaken(body, *, size=0.01, seed=0):
    """Displacements of every node of a body's mesh, none of them like its neighbour's."""
    return size * normal((2, *body.mesh.shape), seed=seed)


def body_loads(grid, *, count, amplitude, seed=0):
    """Smooth forces on a plane body, as in the data sets."""
    fields = PowerLawField().sample(grid, rng=np.random.default_rng(seed), count=2 * count)
    return amplitude * fields.reshape(count, 2, *grid.shape)


def relative(found, expected):
    """Largest difference over the largest value."""
    return np.max(np.abs(found - expected)) / np.max(np.abs(expected))
