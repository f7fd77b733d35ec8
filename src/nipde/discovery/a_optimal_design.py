"""A-optimal design: loads after which the posterior variance of the predictions for given queries is least.

    variance(F) = tr(Q H⁻¹),   H = B + Σ_f J_fᵀJ_f / σ²,   Q = mean over queries of J_qᵀJ_q / ‖u_q‖²

J_f is the derivative of the response to f by log b at a material: the constant one before any experiment, the estimated
one after some. B is the prior precision: log b deviates by `DEVIATION`. With noise proportional to the response, rough
loads are most informative; with noise of a fixed deviation, loads of large responses are.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.discovery.candidates import Loads, as_loads, at_effort
from nipde.discovery.design import Ranking
from nipde.discretisation.sensitivity import conductances_of, gram
from nipde.errors import PairsError
from nipde.grid import Grid
from nipde.physics.darcy import Darcy

#: Of log b: a two-phase material of contrast 4 has 0.7.
DEVIATION = 0.7
#: Less noise than this share gives the same loads.
LEAST_NOISE = 1e-4
#: Length of the first step of a descent, relative to a load.
RATE = 0.05


@dataclass(frozen=True)
class Sensor:
    """White noise, as a share of a root mean square: that of the responses to the queries, whatever the load; or, if
    `relative`, that of the measured responses themselves, so that larger loads gain nothing.
    """

    share: float
    relative: bool = False

    def __post_init__(self) -> None:
        if not self.share >= 0:
            raise PairsError(expected="a share of noise >= 0", got=self.share, remedy="0.01 is one per cent")

    def noise(
        self, responses: Float[Tensor, "*batch pair rest"], query_responses: Float[Tensor, "*batch query rest"]
    ) -> Float[Tensor, "*batch"]:
        """Standard deviation of the noise, from the responses to the applied loads and to the queries."""
        return self.share * (responses if self.relative else query_responses).square().mean((-2, -1)).sqrt()


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
    #: A⁻¹, D A⁻¹ and D A⁻¹ A⁻ᵀ Dᵀ.
    green: Float[Tensor, "unknown unknown"]
    jumps: Float[Tensor, "link unknown"]
    shared: Float[Tensor, "link link"]
    #: ∂ conductance / ∂ log b.
    slopes: Float[Tensor, "link cell"]
    #: Responses to the queries, Q, and H before any further load.
    responses: Float[Tensor, "query unknown"]
    wanted: Float[Tensor, "cell cell"]
    known: Float[Tensor, "cell cell"]

    @classmethod
    def of(cls, material: Darcy, queries: Any, *, sensor: Sensor, applied: Any) -> Self:
        grid, conductances = material.grid, conductances_of(material.grid, material.face_mean)
        links, green = conductances.links, material.factor.solve(np.eye(material.matrix.shape[0]))
        jumps = torch.tensor(conductances.difference @ green)
        slopes = conductances.slopes(np.log(material.permeability).reshape(-1)).toarray()
        before = torch.eye(grid.size, dtype=torch.float64) / DEVIATION**2
        view = cls(
            grid, Sensor(max(sensor.share, LEAST_NOISE), sensor.relative), torch.tensor(links.unknown),
            torch.tensor(links.volume), torch.tensor(green), jumps, jumps @ jumps.mT, torch.tensor(slopes),
            responses=jumps.new_empty(0, len(green)), wanted=torch.zeros_like(before), known=before,
        )  # fmt: skip
        moments = view.moments(as_loads(grid, queries))
        responses = moments @ view.green
        wanted = view.information(moments / responses.norm(dim=1, keepdim=True)) / len(moments)
        view = replace(view, responses=responses, wanted=wanted)
        return view if applied is None else replace(view, known=view.after(view.moments(as_loads(grid, applied))))

    def moments(self, loads: Loads) -> Float[Tensor, "pair unknown"]:
        return loads.to(self.volume).flatten(1)[:, self.unknown] * self.volume

    def on_grid(self, values: Float[Tensor, "pair unknown"]) -> Loads:
        fields = values.new_zeros(len(values), self.grid.size)
        fields[:, self.unknown] = values / self.volume
        return fields.reshape(len(values), 1, *self.grid.shape)

    def information(self, loads: Float[Tensor, "pair unknown"]) -> Float[Tensor, "cell cell"]:
        """Σ_f J_fᵀJ_f: however many loads, one product."""
        return gram(self.slopes, self.shared, self.jumps @ loads.mT)

    def after(self, loads: Float[Tensor, "pair unknown"]) -> Float[Tensor, "cell cell"]:
        """H with the responses to these loads."""
        noise = self.sensor.noise(loads @ self.green, self.responses)
        return self.known + self.information(loads) / noise.square()

    def variance_after(self, loads: Float[Tensor, "pair unknown"]) -> Float[Tensor, ""]:
        """Mean relative variance of the predictions for the queries then."""
        return self.variance(self.after(loads))

    def variance(self, precision: Float[Tensor, "cell cell"]) -> Float[Tensor, ""]:
        return torch.cholesky_solve(self.wanted, torch.linalg.cholesky(precision)).diagonal().sum()
