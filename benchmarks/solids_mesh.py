"""Responses of finer elements than estimators assume: how much of an error without noise is owed to the same mesh."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.data.mechanics import SolidRecipe
from nipde.estimators.base import Estimator
from nipde.evaluation.metrics import relative_errors

#: Degree of the elements, and into how many each cell of the grid is cut along an axis.
ELEMENTS = ((1, 1), (1, 2), (2, 1))


def finer_elements(
    archive: Archive, estimators: Mapping[str, Estimator], *, count: int, pairs: int, queries: int
) -> list[dict[str, Any]]:
    """Held-out errors on test specimens that are solved again on each kind of elements, and how far these differ."""
    recipe = archive.plan.recipe
    assert isinstance(recipe, SolidRecipe)
    read = archive.read(archive.indices("test")[:count])
    chosen = [archive.load_indices("train")[:pairs].tolist(), archive.load_indices("test")[:queries].tolist()]
    errors: dict[tuple[int, int], dict[str, list[float]]] = {kind: {} for kind in ELEMENTS}
    for number in range(len(read.loads)):
        parameters = [float(read.parameters[name][number]) for name in recipe.parameter_names]
        context, asked = (read.loads[number][loads].astype(np.float64) for loads in chosen)
        usual = None
        for degree, refine in ELEMENTS:
            body = recipe.body(*parameters, degree=degree, refine=refine)
            answers = torch.as_tensor(body.solve(asked))
            usual = answers if usual is None else usual
            given = Pairs.from_arrays(context, body.solve(context), grid=archive.grid)
            row = errors[degree, refine]
            row.setdefault("difference", []).append(float(relative_errors(archive.grid, usual, answers).mean()))
            for label, estimator in estimators.items():
                with torch.no_grad():
                    result = estimator(given) @ torch.as_tensor(asked)
                row.setdefault(label, []).append(float(relative_errors(archive.grid, result, answers).mean()))
    return [
        {"degree": degree, "refine": refine, "specimens": count, "pairs": pairs, **_means(row)}
        for (degree, refine), row in errors.items()
    ]


def _means(row: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    held_out = {label: float(np.mean(values)) for label, values in row.items()}
    return {"difference": held_out.pop("difference"), "held_out": held_out}
