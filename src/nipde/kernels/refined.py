"""The kernel of a law that was fitted on a finer grid than the data's: K f = R A⁻¹ ∫ T f, T to the finer grid, R back.

Its material varies below the grid of the data; its posterior gives the deviations of responses and of the coefficient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sparse
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.discretisation.domain import Domain, OutlineData, load_moments, right_side
from nipde.discretisation.interpolation import Interpolation, extension_from, interpolated_transposed
from nipde.discretisation.link_solver import Inverse, inverse_of
from nipde.discretisation.links import OnLinks
from nipde.discretisation.load_case import LoadCase
from nipde.errors import KernelError
from nipde.grid import Grid
from nipde.kernels.base import Fields
from nipde.kernels.prediction_bands import OutlierTest, PredictionBands
from nipde.kernels.solved import KernelOfLaws

Loads = Float[np.ndarray, "pair *space"]
#: Models without phases in the summary of a fit, and the number of phases of every model; layers say it themselves.
SMOOTH = ("smooth", "graded")
PHASES = {**dict.fromkeys(SMOOTH, 1), "2 phases": 2, "2 varying phases": 2, "3 phases": 3}


class FitPosterior(Protocol):
    """What a fit says of its own uncertainty, in physical units, on the nodes of the data's grid."""

    def response_deviation(self, loads: Loads, outline: Sequence[LoadCase] = ()) -> Loads:
        """Standard deviation of responses to loads, and to those on the outline."""

    def reading_deviation(
        self, loads: Loads, matrix: Callable[[Grid], sparse.csr_array], outline: Sequence[LoadCase] = ()
    ) -> Float[np.ndarray, "pair sensor"]:
        """The same at sensors; `matrix` is theirs on a grid."""

    def log_deviation(self) -> Float[np.ndarray, "*space"]:
        """Standard deviation of log b."""

    def identifiable(self) -> Float[np.ndarray, "*space"]:
        """From 0, where the pairs say nothing about the coefficient, to 1."""

    def reading_gains(self, candidates: Loads, queries: Loads) -> Float[np.ndarray, " candidate"]:
        """Share of the variance of readings under the queries that readings under each candidate would take away."""


@dataclass(frozen=True, eq=False)
class RefinedLaw:
    """A fitted law; `grid` is that of the data, `domain` has the finer one."""

    grid: Grid
    domain: Domain
    conductances: OnLinks
    #: How loads reach the finer grid.
    interpolation: Interpolation
    #: log b at any points (point, axis), measured from the first node.
    log_coefficient_at: Callable[[Float[np.ndarray, "point axis"]], Float[np.ndarray, " point"]]
    posterior: FitPosterior
    bands: PredictionBands
    #: How the fit went: model, chi_square, effective_dof, noise, …
    summary: dict[str, Any] = field(default_factory=dict)
    #: Nodes where load densities are taken; they go on from there. None: everywhere.
    known: Bool[np.ndarray, "*space"] | None = None

    @cached_property
    def log_coefficient(self) -> Float[np.ndarray, "*space"]:
        """log b at the nodes of the data."""
        return self.log_coefficient_at(_points(self.grid)).reshape(self.grid.shape)

    def map_of(self, cells: tuple[int, ...]) -> Float[np.ndarray, "*cell"]:
        """b in the cells of a map, at their centres."""
        centres = [(np.arange(n) + 0.5) * (axis.length / n) for n, axis in zip(cells, self.grid.axes, strict=True)]
        points = np.stack(np.meshgrid(*centres, indexing="ij"), -1)
        return np.exp(self.log_coefficient_at(points.reshape(-1, self.grid.dimension))).reshape(cells)

    @cached_property
    def factor(self) -> Inverse:
        """Of A on the finer grid."""
        return inverse_of(self.domain.links, self.conductances)

    @property
    def solver_grid(self) -> Grid:
        """The finer one."""
        return self.domain.grid

    @cached_property
    def inside(self) -> Bool[np.ndarray, "*space"]:
        """Nodes of the data in the specimen: all of them if it fills the box."""
        cells = self.domain.cells
        return np.ones(self.grid.shape, dtype=bool) if cells is None else cells.shape.holds_nodes(self.grid)

    def stating(self, *, faulty_sensors: Sequence[Any], faulty_pairs: Sequence[Any]) -> "RefinedLaw":
        """With the sensors and pairs that the fit left out in its summary."""
        left_out = {"faulty_sensors": faulty_sensors, "faulty_pairs": faulty_pairs}
        found = {name: [vars(one) for one in each] for name, each in left_out.items()}
        return replace(self, summary={**self.summary, **found})

    @property
    def faulty_positions(self) -> Float[np.ndarray, "sensor axis"]:
        """Of the sensors that the fit left out."""
        found = [one["position"] for one in self.summary.get("faulty_sensors", ())]
        return np.array(found).reshape(len(found), self.grid.dimension)

    @property
    def faulty_pairs(self) -> tuple[int, ...]:
        """Numbers of the pairs that the fit left out."""
        return tuple(one["number"] for one in self.summary.get("faulty_pairs", ()))

    def solve(self, loads: Loads, outline: Sequence[LoadCase] = ()) -> Loads:
        """Responses at the nodes of the data, to loads inside and on the outline; 0 outside of the specimen."""
        return self.solver_grid.restrict(self._solved(loads, outline), to=self.grid) * self.inside

    def readings(
        self, loads: Loads, matrix: Callable[[Grid], sparse.csr_array], outline: Sequence[LoadCase] = ()
    ) -> Float[np.ndarray, "pair sensor"]:
        """What sensors read, anywhere in the box; `matrix` is theirs on a grid."""
        return np.asarray((matrix(self.solver_grid) @ self._solved(loads, outline).reshape(len(loads), -1).T).T)

    def _solved(self, loads: Loads, outline: Sequence[LoadCase]) -> Loads:
        moments = load_moments(loads, self.grid, self.domain, self.interpolation, split=False, known=self.known)
        data = OutlineData.of(outline, self.domain)
        if data is None:
            return self._inverse(moments)
        links = self.domain.links
        right = right_side(moments, data, links.difference[:, links.unknown].tocsr(), self.conductances)
        return self._inverse(right) + (self.domain.from_given @ data.given).T.reshape(-1, *self.solver_grid.shape)

    def solve_transposed(self, loads: Loads) -> Loads:
        """The transpose of the kernel, weights included as in `solve`."""
        moments = np.zeros((len(loads), *self.solver_grid.shape))
        self.solver_grid.restrict(moments, to=self.grid)[...] = loads * self.grid.weights * self.inside
        fields = self._inverse(self.domain.to_nodes.T @ moments.reshape(len(loads), -1).T)
        if self.interpolation == "points":
            return self.solver_grid.restrict(fields, to=self.grid)
        fields = fields * self.domain.volume
        back = interpolated_transposed(fields, self.grid, to=self.solver_grid, kind=self.interpolation)
        extend = None if self.known is None else extension_from(self.known, self.grid)
        return (back if extend is None else extend.transposed(back)) / self.grid.weights

    def _inverse(self, moments: Float[np.ndarray, "unknown pair"]) -> Loads:
        """Responses at the nodes of the finer grid."""
        return np.asarray((self.domain.to_nodes @ self.factor.solve(moments)).T.reshape(-1, *self.solver_grid.shape))


@dataclass(frozen=True, eq=False)
class Posterior:
    """Of one system, as tensors."""

    law: RefinedLaw
    like: Tensor

    @property
    def coefficient(self) -> Float[Tensor, "*space"]:
        """The estimate."""
        return self.like.new_tensor(np.exp(self.law.log_coefficient))

    def deviation(self) -> Float[Tensor, "*space"]:
        """Of its logarithm, with the misfit."""
        return self.like.new_tensor(self.law.posterior.log_deviation())

    @property
    def widening(self) -> float:
        """Nothing more."""
        return 1.0

    def identifiable(self) -> Float[Tensor, "*space"]:
        """From 0 to 1."""
        return self.like.new_tensor(self.law.posterior.identifiable())


@dataclass(frozen=True, eq=False)
class RefinedKernel(KernelOfLaws[RefinedLaw]):
    """factor·K of every law of a batch, one law if there is none."""

    @property
    def components(self) -> tuple[int, int]:
        """A scalar law."""
        return 1, 1

    @property
    def coefficient(self) -> Float[Tensor, "*batch_space"]:
        """b at the nodes of the data."""
        values = self.factor.new_tensor(np.exp(np.stack([law.log_coefficient for law in self.laws])))
        return values.reshape(*self.batch, *self.grid.shape) / self._per_system(self.grid.dimension)

    @property
    def posterior(self) -> Posterior | None:
        """Of one system."""
        return None if self.batch else Posterior(self.laws[0], self.factor)

    @property
    def bands(self) -> PredictionBands | None:
        """Of one system."""
        return None if self.batch else self.laws[0].bands

    @property
    def outlier_test(self) -> OutlierTest | None:
        """By the misfit over the stated noise; None where none was stated, or of a batch."""
        return None if self.bands is None or not self.laws[0].summary["noise_stated"] else self.bands.outlier_test

    @property
    def phases(self) -> int | None:
        """How many the fit prefers, 1 for a smooth material; None of a batch, or where none were compared."""
        summary = self.laws[0].summary
        return None if self.batch else PHASES.get(summary["model"], summary.get("layers", {}).get("phases"))

    @property
    def not_calibrated(self) -> tuple[str, ...]:
        """Why bands of these laws are not known to hold."""
        unknown = "the noise is not stated: it is estimated from the residuals, and the law is not tested"
        reasons = [unknown for law in self.laws if not law.summary["noise_stated"]]
        reasons += [reason for law in self.laws for reason in law.summary.get("outside", ())]
        return tuple(dict.fromkeys(reasons))

    @property
    def interior(self) -> Bool[np.ndarray, "*space"]:
        """Of a specimen, its nodes."""
        return super().interior if self.laws[0].domain.cells is None else self.laws[0].inside

    def predict(self, loads: Fields) -> Fields:
        """One solve per load."""
        return self._answered(loads, lambda law, rows: (law.solve_transposed if self.transposed else law.solve)(rows))

    def band(self, loads: Fields, *, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Prediction ± factor · deviation of the response."""
        if self.transposed or self.bands is None:
            raise KernelError(
                "no band", expected="the kernel of one system", got="a transpose or a batch", remedy="take one"
            )
        predicted = self.predict(loads)
        deviation = self._answered(loads, lambda law, rows: law.posterior.response_deviation(rows))
        inside, edge = self.bands.at(level).tolist()
        width = deviation * torch.where(deviation.new_tensor(self.grid.edge) > 0, edge, inside)
        return predicted - width, predicted + width

    def _answered(self, loads: Fields, answer: Callable[[RefinedLaw, Loads], Loads]) -> Fields:
        space = self.grid.dimension + 2
        batch = np.broadcast_shapes(self.batch, loads.shape[:-space])
        laws = self._laws_of(batch)
        full = loads.expand(*batch, *loads.shape[-space:]).to(self.factor)
        right = full.detach().cpu().double().reshape(len(laws), -1, *self.grid.shape).numpy()
        fields = np.stack([answer(law, rows) for law, rows in zip(laws, right, strict=True)])
        return full.new_tensor(fields).reshape(full.shape) * self._per_system(space)


def _points(grid: Grid) -> Float[np.ndarray, "node axis"]:
    return np.stack([x.ravel() for x in grid.coordinates], axis=-1)
