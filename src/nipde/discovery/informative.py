"""Loads that tell most about a material: those after which the answers one wants are surest.

    left(F) = tr(Q H⁻¹),   H = B + Σ_f J_fᵀJ_f / σ²,   Q = mean over queries of J_qᵀJ_q / ‖u_q‖²

J_f takes a change of log b to that of the response to f, near a medium: the even one before any experiment, the one
inferred so far after some. B is what is believed before any data: log b deviates by `DEVIATION`. With noise that is a
share of the very responses it is on, rough loads tell most; with the same sensor for all, loud ones do.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.discovery.candidates import Loads, as_loads, at_effort
from nipde.discovery.design import Ranking
from nipde.discovery.sensor import Sensor
from nipde.errors import PairsError
from nipde.estimators.inversion.face_map import face_map
from nipde.grid import Grid
from nipde.physics.darcy import Darcy

#: Of log b: a two-phase medium of contrast 4 has 0.7.
DEVIATION = 0.7
#: Less noise than this share chooses the same loads.
LEAST_NOISE = 1e-4
#: Length of the first step of a descent, relative to a load.
RATE = 0.05


def informative_loads(
    medium: Darcy,
    queries: Any,
    *,
    count: int,
    sensor: Sensor,
    applied: Any = None,
    effort: float = 1.0,
    steps: int = 300,
    seed: int = 0,
) -> Loads:
    """`count` loads of root mean square `effort` that leave least unknown of the queries' answers, by descent.

    `applied` are loads whose responses are known already. Matrices are as large as the grid, in double precision on the
    processor: for up to some thousand nodes.
    """
    if count < 1 or steps < 1:
        raise PairsError(expected="a load and a step at least", got=f"count={count}, steps={steps}")
    view = _View.of(medium, queries, sensor=sensor, applied=applied)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, len(view.volume), generator=generator, dtype=torch.float64).requires_grad_()
    optimiser = torch.optim.Adam([values], lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, total_iters=steps)
    for _ in range(steps):
        loads = view.free(at_effort(medium.grid, view.on_grid(values), effort=effort))
        (values.grad,) = torch.autograd.grad(view.left(loads).log(), [values])
        optimiser.step()
        schedule.step()
    return at_effort(medium.grid, view.on_grid(values.detach()), effort=effort)


def most_informative(
    medium: Darcy, candidates: Any, queries: Any, *, sensor: Sensor, applied: Any = None, effort: float | None = 1.0
) -> Ranking:
    """What every candidate would be worth as the next load, compared at a root mean square of `effort`, or as it is."""
    view = _View.of(medium, queries, sensor=sensor, applied=applied)
    loads = as_loads(medium.grid, candidates) if effort is None else at_effort(medium.grid, candidates, effort=effort)
    with torch.no_grad():
        before = view.left_of(view.known)
        left = torch.stack([view.left(load[None]) for load in view.free(loads)])
    return Ranking(1 - left / before)


@dataclass(frozen=True, eq=False)
class _View:
    """A medium, what is known of it, and what is wanted; fields at its free nodes, loads times the volume of cells."""

    grid: Grid
    sensor: Sensor
    places: Int[Tensor, " free"]
    volume: Float[Tensor, " free"]
    #: A⁻¹, its differences across faces, and what these have in common.
    green: Float[Tensor, "free free"]
    jumps: Float[Tensor, "face free"]
    shared: Float[Tensor, "face face"]
    #: ∂ conductance / ∂ log b.
    slopes: Float[Tensor, "face node"]
    #: Responses to the queries, Q, and H before any further load.
    answers: Float[Tensor, "query free"]
    wanted: Float[Tensor, "node node"]
    known: Float[Tensor, "node node"]

    @classmethod
    def of(cls, medium: Darcy, queries: Any, *, sensor: Sensor, applied: Any) -> Self:
        grid, faces = medium.grid, face_map(medium.grid, medium.face_mean)
        green = medium.factor.solve(np.eye(medium.matrix.shape[0]))
        jumps = torch.tensor(faces.differences @ green)
        slopes = faces.slopes(np.log(medium.permeability).reshape(-1)).toarray()
        before = torch.eye(grid.size, dtype=torch.float64) / DEVIATION**2
        view = cls(
            grid, Sensor(max(sensor.share, LEAST_NOISE), sensor.relative), torch.tensor(faces.unknown),
            torch.tensor(faces.volume), torch.tensor(green), jumps, jumps @ jumps.mT, torch.tensor(slopes),
            answers=jumps.new_empty(0, len(green)), wanted=torch.zeros_like(before), known=before,
        )  # fmt: skip
        asked = view.free(as_loads(grid, queries))
        answers = asked @ view.green
        wanted = view.information(asked / answers.norm(dim=1, keepdim=True)) / len(asked)
        view = replace(view, answers=answers, wanted=wanted)
        return view if applied is None else replace(view, known=view.after(view.free(as_loads(grid, applied))))

    def free(self, loads: Loads) -> Float[Tensor, "pair free"]:
        return loads.to(self.volume).flatten(1)[:, self.places] * self.volume

    def on_grid(self, values: Float[Tensor, "pair free"]) -> Loads:
        found = values.new_zeros(len(values), self.grid.size)
        found[:, self.places] = values / self.volume
        return found.reshape(len(values), 1, *self.grid.shape)

    def information(self, loads: Float[Tensor, "pair free"]) -> Float[Tensor, "node node"]:
        """Σ_f J_fᵀJ_f: however many loads, one product."""
        jumps = loads @ self.jumps.mT
        return self.slopes.mT @ ((jumps.mT @ jumps) * self.shared) @ self.slopes

    def after(self, loads: Float[Tensor, "pair free"]) -> Float[Tensor, "node node"]:
        """H when responses to these loads are known, too."""
        level = self.sensor.level(loads @ self.green, self.answers)
        return self.known + self.information(loads) / level.square()

    def left(self, loads: Float[Tensor, "pair free"]) -> Float[Tensor, ""]:
        """Mean relative variance of the queries' answers then."""
        return self.left_of(self.after(loads))

    def left_of(self, precision: Float[Tensor, "node node"]) -> Float[Tensor, ""]:
        return torch.cholesky_solve(self.wanted, torch.linalg.cholesky(precision)).diagonal().sum()
