"""Shares and percentiles over interior nodes: statements, page and summary.json all count these nodes."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from nipde.discovery.discovery import IDENTIFIABLE, Discovery
from nipde.grid import Grid


def interior_share(grid: Grid, mask: Bool[ndarray, "*space"]) -> float:
    """Share of the interior nodes where `mask` is true."""
    return float(np.mean(np.asarray(mask)[_interior(grid)]))


def interior_percentiles(
    grid: Grid, field: Float[ndarray, "*space"], *percentages: float
) -> Float[ndarray, " percentage"]:
    """Values of a field below which so many percent of the interior nodes lie."""
    return np.percentile(np.asarray(field)[_interior(grid)], percentages)


def identifiable_share(discovery: Discovery) -> float:
    """Share of the interior nodes where the pairs determine the coefficient."""
    return interior_share(discovery.kernel.grid, discovery.material.identifiable >= IDENTIFIABLE)


def measured_share(discovery: Discovery) -> float:
    """Share of the responses that were measured, at all nodes of all pairs."""
    pairs = discovery.measurement.pairs
    return 1.0 if pairs.mask is None else float(pairs.mask.expand_as(pairs.responses).double().mean())


def half_width(discovery: Discovery) -> Float[ndarray, "*space"]:
    """Half width of the band relative to the coefficient, √(high / low) - 1."""
    material = discovery.material
    return np.sqrt(material.high / material.low) - 1


def _interior(grid: Grid) -> Bool[ndarray, "*space"]:
    return np.asarray(grid.unknown)
