"""Shares and percentiles over interior nodes: statements, page and summary.json all count these nodes."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from nipde.discovery.discovery import IDENTIFIABLE, Discovery
from nipde.kernels.base import Predictor

#: A coefficient with a narrower band than this counts as known: data may determine more than the prior, and yet little.
FACTOR = 2.0


def interior_share(kernel: Predictor, mask: Bool[ndarray, "*space"]) -> float:
    """Share of the interior nodes where `mask` is true."""
    return float(np.mean(np.asarray(mask)[kernel.interior]))


def interior_percentiles(
    kernel: Predictor, field: Float[ndarray, "*space"], *percentages: float
) -> Float[ndarray, " percentage"]:
    """Values of a field below which so many percent of the interior nodes lie."""
    return np.percentile(np.asarray(field)[kernel.interior], percentages)


def identifiable_share(discovery: Discovery) -> float:
    """Share of the interior nodes where the pairs determine the coefficient."""
    return interior_share(discovery.kernel, discovery.material.identifiable >= IDENTIFIABLE)


def known_share(discovery: Discovery) -> float:
    """Share of the interior nodes where the band reaches at most `FACTOR` times above and below the coefficient."""
    return interior_share(discovery.kernel, half_width(discovery) <= FACTOR - 1)


def measured_share(discovery: Discovery) -> float:
    """Share of the responses that were measured, at all nodes of all pairs; of a shape, at those inside."""
    pairs, measurement = discovery.measurement.pairs, discovery.measurement
    if pairs.mask is None:
        return 1.0
    mask = pairs.mask.expand_as(pairs.responses).cpu().numpy()
    return float(np.mean(mask if measurement.specimen is None else mask[..., discovery.kernel.interior]))


def half_width(discovery: Discovery) -> Float[ndarray, "*space"]:
    """Half width of the band relative to the coefficient, √(high / low) - 1."""
    material = discovery.material
    return np.sqrt(material.high / material.low) - 1
