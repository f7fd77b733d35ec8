"""Pairs kept from a second estimate, to see what it answers to loads it was not told of."""

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.discovery.discovery import HeldOut
from nipde.kernels.base import Predictor

#: One pair in so many is kept out, and at least one; fewer pairs than `FEWEST` are all needed.
EVERY, FEWEST = 5, 3


def split(pairs: Pairs) -> tuple[Pairs, Pairs, tuple[int, ...]] | None:
    """Context and queries, spread evenly over the order of measurement, and the numbers of the queries."""
    if pairs.count < FEWEST:
        return None
    kept_out = max(1, pairs.count // EVERY)
    queries = np.linspace(0, pairs.count - 1, kept_out + 2)[1:-1].round().astype(int)
    context = np.setdiff1d(np.arange(pairs.count), queries)
    return pairs.take(context.tolist()), pairs.take(queries.tolist()), tuple(queries.tolist())


def answered(kernel: Predictor, queries: Pairs, indices: tuple[int, ...]) -> HeldOut:
    """What a kernel says to the queries; errors count where responses were measured."""
    with torch.no_grad():
        predicted = kernel.predict(queries.loads).to(queries.responses)
    mask = torch.ones_like(queries.responses, dtype=torch.bool)
    if queries.mask is not None:
        mask = queries.mask.expand_as(queries.responses)
    measured = torch.where(mask, queries.responses, 0)
    missed, size = (queries.grid.norm(field) for field in (torch.where(mask, predicted - measured, 0), measured))
    # A pair that was not moved is measured by the largest of the others.
    size = torch.where(size > 0, size, size.max())
    errors = torch.where(missed > 0, missed / size, 0)
    fields = (field[:, 0].cpu().numpy() for field in (queries.loads, measured, predicted, mask, errors))
    return HeldOut(indices, *fields)
