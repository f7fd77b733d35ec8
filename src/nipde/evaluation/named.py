"""Methods by name for an archive: those that know the law know its face mean, others are fitted to true kernels."""

from dataclasses import replace
from typing import Any

import torch

from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.errors import ArchiveError
from nipde.estimators.base import Estimator
from nipde.estimators.registry import factory
from nipde.evaluation.truth import face_mean_of, true_kernels, true_laws

#: Training systems at most: their kernels are kept in memory, N × N numbers each.
SYSTEMS = 1000


def named(name: str, archive: Archive, *, training: Archive | None = None) -> Estimator:
    """The estimator of a name for an archive's systems; fitted ones learn from `training`, or from these."""
    made: Any = factory(name)
    if is_fitted(name):
        return _fitted(name, made, archive if training is None else training)
    estimator = made()
    if hasattr(estimator, "face_mean") and (mean := face_mean_of(archive)) is not None:
        return replace(estimator, face_mean=mean)
    return estimator


def is_fitted(name: str) -> bool:
    """Whether the method is fitted to training systems."""
    return hasattr(factory(name), "fit")


def _fitted(name: str, made: Any, archive: Archive) -> Estimator:
    archive.check_fills_box()
    systems = archive.indices("train")[:SYSTEMS]
    read = archive.read(systems, pairs=archive.load_indices("train").tolist())
    laws = true_laws(archive, read)
    if len(laws) < 2:
        raise ArchiveError(
            f"{name} learns from true kernels", expected="at least 2 training systems whose operator is known",
            got=f"{len(laws)} of {archive.plan.recipe.problem}", remedy="use another estimator, or --training-data",
        )  # fmt: skip
    pairs = Pairs.from_arrays(read.loads, read.responses, grid=archive.grid).to(dtype=torch.float64)
    return made.fit(pairs, true_kernels(laws))
