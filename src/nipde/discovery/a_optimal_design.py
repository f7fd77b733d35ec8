"""A-optimal design: loads after which the posterior variance of the predictions for given queries is least.

    variance(F) = tr(Q H⁻¹),   H = B + Σ_f J_fᵀJ_f / σ²,   Q = mean over queries of J_qᵀJ_q / ‖u_q‖²

J_f is the derivative of the response to f by log b at a material: the constant one before any experiment, the estimated
one after some. Only sensors read responses to f; queries count at all nodes. B is the prior precision: log b deviates
by `DEVIATION`, from node to node or, for few sensors, with a covariance that falls as exp(-distance / `CORRELATION`).
With noise proportional to the response, rough loads are most informative; with noise of a fixed deviation, loads of
large responses are.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sparse
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.context.sensors import Sensors
from nipde.discovery.candidates import Loads, as_loads, at_effort
from nipde.discovery.design import Ranking
from nipde.discretisation.sensitivity import conductances_of, gram
from nipde.errors import PairsError
from nipde.grid import Grid
from nipde.physics.darcy import Darcy

#: Of log b: a two-phase material of contrast 4 has 0.7.
DEVIATION = 0.7
#: Length over which log b is correlated, as a share of the box: few sensors say nothing about single nodes.
CORRELATION = 0.2
#: Less noise than this share gives the same loads.
LEAST_NOISE = 1e-4
#: Length of the first step of a descent, relative to a load.
RATE = 0.05


@dataclass(frozen=True)
class Sensor:
    """White noise, as a share of a root mean square: that of the responses to the queries, whatever the load; or, if
    `relative`, that of the measured responses themselves, so that larger loads gain nothing.

    Never below `least`, a standard deviation in the unit of the responses. `at` are the positions of the sensors, None
    for every node.
    """

    share: float
    relative: bool = False
    least: float = 0.0
    at: Sensors | None = None

    def __post_init__(self) -> None:
        if not self.share >= 0:
            raise PairsError(expected="a share of noise >= 0", got=self.share, remedy="0.01 is one per cent")
        if not self.least >= 0:
            raise PairsError(expected="a deviation >= 0", got=self.least, remedy="0 for none")

    def noise(
        self, responses: Float[Tensor, "*batch pair rest"], query_responses: Float[Tensor, "*batch query rest"]
    ) -> Float[Tensor, "*batch"]:
        """Standard deviation of the noise, from the responses to the applied loads and to the queries."""
        size = (responses if self.relative else query_responses).square().mean((-2, -1)).sqrt()
        return (self.share * size).clamp(min=self.least)


def informative_loads(
    material: Darcy,
    queries: Any,
    *,
    count: int,
    sensor: Sensor,
    applied: Any = None,
    effort: float = 1.0,
    steps: int = 300,
    seed: int = 0,
) -> Loads:
    """`count` loads of root mean square `effort` of least posterior variance at the queries, by descent.

    `applied` are loads whose responses are known already. Matrices are as large as the grid, in double precision on the
    processor: for up to some thousand nodes.
    """
    if count < 1 or steps < 1:
        raise PairsError(expected="a load and a step at least", got=f"count={count}, steps={steps}")
    view = _View.of(material, queries, sensor=sensor, applied=applied)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, len(view.volume), generator=generator, dtype=torch.float64).requires_grad_()
    optimiser = torch.optim.Adam([values], lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, total_iters=steps)
    for _ in range(steps):
        loads = view.moments(at_effort(material.grid, view.on_grid(values), effort=effort))
        (values.grad,) = torch.autograd.grad(view.variance_after(loads).log(), [values])
        optimiser.step()
        schedule.step()
    return at_effort(material.grid, view.on_grid(values.detach()), effort=effort)


def most_informative(
    material: Darcy, candidates: Any, queries: Any, *, sensor: Sensor, applied: Any = None, effort: float | None = 1.0
) -> Ranking:
    """Relative fall of the variance by every candidate, scaled to a root mean square of `effort`, or as it is."""
    view = _View.of(material, queries, sensor=sensor, applied=applied)
    loads = (
        as_loads(material.grid, candidates) if effort is None else at_effort(material.grid, candidates, effort=effort)
    )
    with torch.no_grad():
        before = view.variance(view.known)
        after = torch.stack([view.variance_after(load[None]) for load in view.moments(loads)])
    return Ranking(1 - after / before)


@dataclass(frozen=True, eq=False)
class _View:
    """Linearisation at a material; fields in the unknown cells, loads times their volume."""

    grid: Grid
    sensor: Sensor
    unknown: Int[Tensor, " unknown"]
    volume: Float[Tensor, " unknown"]
    #: A⁻¹Hᵀ, H the sensors; D A⁻¹; and D A⁻¹ HᵀH A⁻ᵀ Dᵀ.
    green: Float[Tensor, "unknown sensor"]
    jumps: Float[Tensor, "link unknown"]
    shared: Float[Tensor, "link link"]
    #: ∂ conductance / ∂ log b, sparse.
    slopes: Float[Tensor, "link cell"]
    #: Readings of the responses to the queries, Q, and H before any further load.
    responses: Float[Tensor, "query sensor"]
    wanted: Float[Tensor, "cell cell"]
    known: Float[Tensor, "cell cell"]

    @classmethod
    def of(cls, material: Darcy, queries: Any, *, sensor: Sensor, applied: Any) -> Self:
        grid, conductances = material.grid, conductances_of(material.grid, material.face_mean)
        links, inverse = conductances.links, material.factor.solve(np.eye(material.matrix.shape[0]))
        jumps = torch.tensor(conductances.difference @ inverse)
        slopes = _sparse(conductances.slopes(np.log(material.permeability).reshape(-1)))
        before, everywhere = prior_precision(grid, correlated=sensor.at is not None), jumps @ jumps.mT
        view = cls(
            grid, replace(sensor, share=max(sensor.share, LEAST_NOISE)), torch.tensor(links.unknown),
            torch.tensor(links.volume), torch.tensor(inverse), jumps, everywhere, slopes,
            responses=jumps.new_empty(0, len(inverse)), wanted=torch.zeros_like(before), known=before,
        )  # fmt: skip
        moments = view.moments(as_loads(grid, queries))
        sizes = (moments @ view.green).norm(dim=1, keepdim=True)
        view = replace(view, wanted=view.information(moments / sizes) / len(moments))
        if sensor.at is not None:
            rows = sensor.at.matrix(grid)[:, links.unknown].toarray()
            read = jumps @ torch.tensor(rows.T)
            view = replace(view, green=torch.tensor(inverse @ rows.T), shared=read @ read.mT)
        view = replace(view, responses=moments @ view.green)
        return view if applied is None else replace(view, known=view.after(view.moments(as_loads(grid, applied))))

    def moments(self, loads: Loads) -> Float[Tensor, "pair unknown"]:
        return loads.to(self.volume).flatten(1)[:, self.unknown] * self.volume

    def on_grid(self, values: Float[Tensor, "pair unknown"]) -> Loads:
        fields = values.new_zeros(len(values), self.grid.size)
        fields[:, self.unknown] = values / self.volume
        return fields.reshape(len(values), 1, *self.grid.shape)

    def information(self, loads: Float[Tensor, "pair unknown"]) -> Float[Tensor, "cell cell"]:
        """Σ_f J_fᵀJ_f over the sensors: however many loads, one product."""
        return gram(self.slopes, self.shared, self.jumps @ loads.mT)

    def after(self, loads: Float[Tensor, "pair unknown"]) -> Float[Tensor, "cell cell"]:
        """H with the responses to these loads."""
        noise = self.sensor.noise(loads @ self.green, self.responses)
        return self.known + self.information(loads) / noise.square()

    def variance_after(self, loads: Float[Tensor, "pair unknown"]) -> Float[Tensor, ""]:
        """Mean relative variance of the predictions for the queries then."""
        return self.variance(self.after(loads))

    def variance(self, precision: Float[Tensor, "cell cell"]) -> Float[Tensor, ""]:
        return (self.wanted * torch.cholesky_inverse(torch.linalg.cholesky(precision))).sum()


def prior_precision(grid: Grid, *, correlated: bool) -> Float[Tensor, "cell cell"]:
    """B of log b at the nodes."""
    if not correlated:
        return torch.eye(grid.size, dtype=torch.float64) / DEVIATION**2
    squared = np.zeros((grid.size, grid.size))
    for x, axis in zip(grid.coordinates, grid.axes, strict=True):
        apart = np.abs(np.subtract.outer(x.ravel(), x.ravel()))
        squared += (np.minimum(apart, axis.length - apart) if axis.boundary.periodic else apart) ** 2
    length = CORRELATION * grid.volume ** (1 / grid.dimension)
    return torch.linalg.inv(torch.tensor(DEVIATION**2 * np.exp(-np.sqrt(squared) / length)))


def _sparse(matrix: sparse.csr_array) -> Tensor:
    whole = matrix.tocoo()
    places = torch.tensor(np.stack([whole.row, whole.col]))
    return torch.sparse_coo_tensor(places, torch.tensor(whole.data), whole.shape, check_invariants=True).coalesce()
