"""Held-out prediction: a share of the pairs is kept from an estimate, which then predicts their responses."""

import time
from collections.abc import Callable

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.discovery.discovery import Baseline, HeldOut
from nipde.errors import NipdeError
from nipde.kernels.base import Predictor

Estimator = Callable[[Pairs], Predictor]
Split = tuple[Pairs, Pairs, tuple[int, ...]]

#: One pair in `EVERY` is held out, and at least one; of fewer pairs than `FEWEST` none is.
EVERY, FEWEST = 5, 3


def split(pairs: Pairs) -> Split | None:
    """Context, queries and the indices of the queries, which are spread over the order of measurement."""
    if pairs.count < FEWEST:
        return None
    held_out = max(1, pairs.count // EVERY)
    queries = np.linspace(0, pairs.count - 1, held_out + 2)[1:-1].round().astype(int)
    context = np.setdiff1d(np.arange(pairs.count), queries)
    return pairs.take(context.tolist()), pairs.take(queries.tolist()), tuple(queries.tolist())


def predictions(kernel: Predictor, queries: Pairs, indices: tuple[int, ...]) -> HeldOut:
    """Predicted responses to the queries; errors count measured nodes only."""
    with torch.no_grad():
        predicted = kernel.predict(queries.loads).to(queries.responses)
    mask = torch.ones_like(queries.responses, dtype=torch.bool)
    if queries.mask is not None:
        mask = queries.mask.expand_as(queries.responses)
    measured = torch.where(mask, queries.responses, 0)
    error, size = (queries.grid.norm(field) for field in (torch.where(mask, predicted - measured, 0), measured))
    # The error of a zero response is relative to the largest of the others.
    size = torch.where(size > 0, size, size.max())
    errors = torch.where(error > 0, error / size, 0)
    fields = (field[:, 0].cpu().numpy() for field in (queries.loads, measured, predicted, mask, errors))
    return HeldOut(indices, *fields)


def baseline(name: str, estimator: Estimator, context: Pairs, queries: Pairs | None) -> Baseline:
    """Another estimator on the same context and queries; NaN where its fit fails or gives no coefficient."""
    start = time.perf_counter()
    values, error = np.full(context.grid.shape, np.nan), np.nan
    try:
        kernel = estimator(context.to(dtype=torch.float64))
    except (NipdeError, ArithmeticError, np.linalg.LinAlgError):
        return Baseline(name, values, error, time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if kernel.coefficient is not None:
        values = kernel.coefficient.detach().double().cpu().numpy()
    if queries is not None:
        error = float(predictions(kernel, queries.to(dtype=torch.float64), ()).errors.mean())
    return Baseline(name, values, error, seconds)
