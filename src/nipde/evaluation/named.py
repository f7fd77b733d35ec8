"""The classical estimators by name: some need nothing, some are fitted on true kernels of training systems."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from nipde.context.pairs import Pairs
from nipde.data.archive import Archive
from nipde.errors import ArchiveError, PairsError
from nipde.estimators.adjoint import AdjointGaussNewton
from nipde.estimators.base import Estimator
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.estimators.elastic_adjoint import ElasticGaussNewton
from nipde.estimators.elastic_balance import ElasticBalance
from nipde.estimators.empirical_bayes import EmpiricalBayes
from nipde.estimators.equation_error import EquationError
from nipde.estimators.inversion.regularisers import TotalVariation
from nipde.estimators.minimum_norm import MinimumNorm
from nipde.estimators.ridge import Ridge
from nipde.estimators.training_span import TrainingSpan
from nipde.evaluation.truth import face_mean_of, true_kernels, true_laws

ESTIMATORS: dict[str, Estimator] = {
    "minimum-norm": MinimumNorm(),
    "ridge": Ridge(),
    "equation-error": EquationError(),
    "adjoint": AdjointGaussNewton(),
    "adjoint-tv": AdjointGaussNewton(regulariser=TotalVariation()),
}
#: For plane solids: forces and displacements of two components.
SOLIDS: dict[str, Callable[[], Estimator]] = {
    "elastic-balance": ElasticBalance,
    "elastic-adjoint": ElasticGaussNewton,
    "linear-elasticity": partial(ElasticBalance, finite=False),
    "conditioned-elastic": lambda: ConditionedNIPS(dimension=2, components=(2, 2), prior="elastic").double(),
}
FITTED: dict[str, type[TrainingSpan] | type[EmpiricalBayes]] = {
    "training-span": TrainingSpan,
    "empirical-bayes": EmpiricalBayes,
}
NAMES = (*ESTIMATORS, *FITTED)
#: Training systems at most: their kernels are kept in memory, N × N numbers each.
SYSTEMS = 1000


def named(name: str, archive: Archive, *, training: Archive | None = None) -> Estimator:
    """The estimator of a name for an archive's systems; it learns from the training systems of `training`, or of these.

    Estimators that know the law know the archive's face mean, too.
    """
    if name in FITTED:
        return _fitted(name, archive if training is None else training)
    if name in SOLIDS:
        return SOLIDS[name]()
    if name not in ESTIMATORS:
        raise PairsError(expected=f"an estimator among {', '.join((*NAMES, *SOLIDS))}", got=name)
    estimator, mean = ESTIMATORS[name], face_mean_of(archive)
    if isinstance(estimator, EquationError | AdjointGaussNewton) and mean is not None:
        return replace(estimator, face_mean=mean)
    return estimator


def _fitted(name: str, archive: Archive) -> Estimator:
    systems = archive.indices("train")[:SYSTEMS]
    if face_mean_of(archive) is None or len(systems) < 2:
        raise ArchiveError(
            f"{name} learns from true kernels", expected="at least 2 training systems of Darcy's law",
            got=f"{len(systems)} of {archive.plan.recipe.problem}", remedy="use another estimator, or --training-data",
        )  # fmt: skip
    read = archive.read(systems, pairs=archive.load_indices("train").tolist())
    pairs = Pairs.from_arrays(read.loads, read.responses, grid=archive.grid).to(dtype=torch.float64)
    return FITTED[name].fit(pairs, true_kernels(true_laws(archive, read)))
