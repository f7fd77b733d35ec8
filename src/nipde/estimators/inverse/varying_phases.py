"""Phases that are not uniform: log b is that of level sets and a Matérn field, in which each phase varies slowly.

A casting has gradients, a facies of an aquifer is heterogeneous. Uniform phases then need more of them than there are,
and their bands say nothing of what varies; a Matérn field alone blurs the interfaces.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Int

from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.level_sets import NARROWEST, LevelSetPhases
from nipde.estimators.inverse.material_models import (
    AtPoints,
    MaterialModel,
    MaternField,
    Parameters,
    VarianceOf,
)  # fmt: skip
from nipde.grid import Grid

#: Deviations of what varies within phases.
LEAST, MOST = 0.01, 1.0


@dataclass(frozen=True)
class VaryingPhases(MaterialModel):
    """θ holds the parameters of the phases, then log b less theirs at the nodes, around 0."""

    damped: ClassVar[bool] = True
    interfaces: int = 1
    #: Of interfaces, as that of `LevelSetPhases`.
    width: float = 0.25
    #: Of the field, as those of `MaternField`.
    deviation: float = 0.2
    correlation: float = 3.0

    @cached_property
    def uniform(self) -> LevelSetPhases:
        """The phases."""
        return LevelSetPhases(self.grid, interfaces=self.interfaces, width=self.width)

    @cached_property
    def field(self) -> MaternField:
        """What varies."""
        return MaternField(self.grid, self.deviation, self.correlation)

    def parts(self, parameters: Parameters) -> tuple[Parameters, Parameters]:
        """Those of the phases, and the field."""
        return parameters[: -self.grid.size], parameters[-self.grid.size :]

    def start(self, uniform: Parameters) -> Parameters:
        """Phases that do not vary yet."""
        return np.concatenate([uniform, np.zeros(self.grid.size)])

    def log_coefficient(
        self, parameters: Parameters, interpolation: sparse.csr_array
    ) -> tuple[AtPoints, sparse.csr_array]:
        """The sum."""
        uniform, field = self.parts(parameters)
        log, derivative = self.uniform.log_coefficient(uniform, interpolation)
        return log + interpolation @ field, sparse.hstack([derivative, interpolation], format="csr")

    def at_resolution(self, spacing: float) -> Self:
        """With interfaces as narrow as the points resolve."""
        return replace(self, width=NARROWEST * spacing)

    def sharp(self, parameters: Parameters, interpolation: sparse.csr_array) -> AtPoints:
        """Without the width of interfaces."""
        uniform, field = self.parts(parameters)
        return self.uniform.sharp(uniform, interpolation) + interpolation @ field

    def moved(self, parameters: Parameters, *, to: Grid) -> tuple[Self, Parameters]:
        """Both interpolated."""
        uniform, field = self.parts(parameters)
        return replace(self, grid=to), np.concatenate(
            [self.uniform.moved(uniform, to=to)[1], self.field.moved(field, to=to)[1]]
        )

    def raised(self, parameters: Parameters, by: float) -> Parameters:
        """By the lowest level."""
        uniform, field = self.parts(parameters)
        return np.concatenate([self.uniform.raised(uniform, by), field])

    def penalty(self, parameters: Parameters) -> float:
        """Of both; the mean of the field counts."""
        uniform, field = self.parts(parameters)
        return self.uniform.penalty(uniform) + float(field @ (self.field.precision @ field)) / 2

    def quadratic(self, parameters: Parameters) -> tuple[sparse.csr_array, Parameters]:
        """Of both."""
        uniform, field = self.parts(parameters)
        precision, slope = self.uniform.quadratic(uniform)
        own = self.field.precision
        return sparse.csr_array(sparse.block_diag([precision, own])), np.concatenate([slope, own @ field])

    def extrapolated(self, inactive: Int[np.ndarray, " parameter"], size: int) -> Int[np.ndarray, " parameter"]:
        """The field goes on where no reading depends on it; level sets stay."""
        return inactive[inactive >= size - self.grid.size]

    def log_variance(self, parameters: Parameters, interpolation: sparse.csr_array, variance: VarianceOf) -> AtPoints:
        """Of levels and field together, and where an interface may pass."""
        uniform, field = self.parts(parameters)

        def of_uniform(rows: sparse.csr_array) -> AtPoints:
            none = sparse.csr_array((rows.shape[0], len(field)))
            return variance(sparse.csr_array(sparse.hstack([rows, none])))

        rows = sparse.csr_array(sparse.hstack([self.uniform.by_levels(uniform, interpolation), interpolation]))
        return variance(rows) + self.uniform.variance_of_interfaces(uniform, interpolation, of_uniform)

    def variation(self, parameters: Parameters) -> float:
        """Root mean square of what varies."""
        return float(np.sqrt(np.mean(self.parts(parameters)[1] ** 2)))


def with_empirical_deviation(found: Candidate, correlation: float) -> VaryingPhases:
    """Empirical Bayes: a field of this correlation, its variance that of the fit over its effective parameters."""
    model, parameters, active = found.fit.model, found.fit.parameters, found.near.active
    assert isinstance(model, VaryingPhases)
    mine = np.flatnonzero(active >= len(parameters) - model.grid.size)
    root = dense.cholesky(found.curvature + found.precision, lower=True, check_finite=False)
    own = np.ix_(mine, mine)
    inverse = np.tril(dense.lapack.dpotri(root, lower=1, overwrite_c=1)[0])[own]
    both = 2 * np.sum(inverse * found.precision[own]) - np.diag(inverse) @ np.diag(found.precision)[mine]
    dof = max(float(len(mine) - both), 1.0)
    _, field = model.parts(parameters)
    deviation = model.deviation * np.sqrt(float(field @ (model.field.precision @ field)) / dof)
    return replace(model, deviation=float(np.clip(deviation, LEAST, MOST)), correlation=correlation)
