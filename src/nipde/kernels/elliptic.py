"""The inverse of a local operator: K = A⁻¹ of -∇·(b ∇u) + ∇·(v u) = f, its coefficients tensors with gradients.

Where `LawKernel` holds laws that are known, this one holds coefficients that were inferred, for all systems of a batch
at once. Between two nodes b is their mean of power p: harmonic at p = -1, arithmetic at p = 1.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from nipde.grid import Grid
from nipde.kernels.fluxes import Faces, Fluxes, fluxes_of
from nipde.kernels.local_solve import LocalOperator, solve
from nipde.kernels.solved import SolvedKernel


@dataclass(frozen=True, eq=False)
class EllipticKernel(SolvedKernel):
    """factor·A⁻¹; the material of system i is b = exp(log_coefficient) / factor, and v = drift / factor."""

    log_coefficient: Float[Tensor, "*batch_space"]
    factor: Float[Tensor, "*batch"]
    drift: Float[Tensor, "*batch_axis_space"] | None = None
    mean_power: float | Float[Tensor, ""] = -1.0
    transposed: bool = False

    @property
    def components(self) -> tuple[int, int]:
        """A scalar law."""
        return 1, 1

    @property
    def coefficient(self) -> Float[Tensor, "*batch_space"]:
        """b in physical units: the microstructure."""
        return self.log_coefficient.exp() / self.factor[(..., *(None,) * self.grid.dimension)]

    def predict(
        self, loads: Float[Tensor, "*batch_pair_component_space"]
    ) -> Float[Tensor, "*batch_pair_component_space"]:
        """One solve per load."""
        place = -self.grid.dimension - 1
        moments = self._weighted(loads).squeeze(place)
        batch = torch.broadcast_shapes(self.batch, moments.shape[:place])
        moments = moments.expand(*batch, *moments.shape[place:])
        # Flattened to systems × pairs; a kernel that several batches of loads share is factored for each of them.
        right = moments.reshape(-1, *moments.shape[place:])
        found = solve(self._expanded(batch).operator(), right, transposed=self.transposed).view(moments.shape)
        return (found * self._per_system(-place)).unsqueeze(place)

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """A⁻¹ itself, N × N; zero on clamped nodes."""
        matrix = self.operator().matrix()
        inverse = torch.linalg.inv(matrix)
        if self.drift is None:
            inverse = (inverse + inverse.mT) / 2  # reciprocity is exact
        values = matrix.new_zeros(len(matrix), self.grid.size, self.grid.size)
        places = fluxes_of(self.grid, matrix).open
        values[:, places[:, None], places] = inverse
        values = values.view(*self.batch, *values.shape[1:]) * self._per_system(2)
        return values.mT if self.transposed else values

    def operator(self) -> LocalOperator:
        """A of every system, batch axes flattened."""
        log = self.log_coefficient.reshape(-1, *self.grid.shape)
        drift = None if self.drift is None else self.drift.reshape(-1, self.grid.dimension, *self.grid.shape)
        return local_operator(self.grid, log, drift, self.mean_power)

    def with_batch(self, batch: tuple[int, ...]) -> Self:
        """The same systems, their axes folded otherwise."""
        shape = self.grid.shape
        drift = None if self.drift is None else self.drift.reshape(*batch, self.grid.dimension, *shape)
        log = self.log_coefficient.reshape(*batch, *shape)
        return replace(self, log_coefficient=log, drift=drift, factor=self.factor.reshape(batch))

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""
        drift = None if self.drift is None else self.drift[number]
        return replace(self, log_coefficient=self.log_coefficient[number], drift=drift, factor=self.factor[number])

    def stretched(self, to: Grid) -> Self:
        """The same answers to the same loads on a similar box: b grows with the square of its size, v with the size."""
        size = self.grid.ratio(to)
        drift = None if self.drift is None else self.drift / size
        return replace(self, grid=to, drift=drift, factor=self.factor / size**2)

    def _expanded(self, batch: tuple[int, ...]) -> Self:
        if batch == self.batch:
            return self
        log = self.log_coefficient.expand(*batch, *self.grid.shape)
        drift = None if self.drift is None else self.drift.expand(*batch, self.grid.dimension, *self.grid.shape)
        return replace(self, log_coefficient=log, drift=drift, factor=self.factor.expand(batch))


def local_operator(
    grid: Grid,
    log_coefficient: Float[Tensor, "system *space"],
    drift: Float[Tensor, "system axis *space"] | None,
    mean_power: float | Float[Tensor, ""],
) -> LocalOperator:
    """The operator of coefficient fields."""
    fluxes = fluxes_of(grid, log_coefficient)
    conductances = tuple(
        mean * shape for mean, shape in zip(face_means(fluxes, log_coefficient, mean_power), fluxes.shapes, strict=True)
    )
    transports = None
    if drift is not None:
        transports = tuple(fluxes.means(drift[:, axis])[axis] * area for axis, area in enumerate(fluxes.areas))
    return LocalOperator(grid, conductances, transports, (-log_coefficient / 2).exp())


def face_means(fluxes: Fluxes, log_coefficient: Tensor, power: float | Tensor) -> Faces:
    """((b₁^p + b₂^p)/2)^(1/p) = √(b₁b₂) cosh(p Δ)^(1/p), Δ = log(b₁/b₂)/2; the geometric mean at p = 0."""
    middles, drops = fluxes.means(log_coefficient), fluxes.drops(log_coefficient)
    return tuple((middle + log_cosh_ratio(drop / 2, power)).exp() for middle, drop in zip(middles, drops, strict=True))


def least_rough(
    grid: Grid, log_coefficient: Float[Tensor, "system *space"], power: float | Tensor
) -> Float[Tensor, "system *space"]:
    """Of all materials with these responses the one without a checkerboard.

    b^p at two neighbours enters a face as a sum, so adding c to it on black nodes and -c on white ones changes nothing
    that can be measured. c is the median over all faces: most of them lie within one material.
    """
    fluxes = fluxes_of(grid, log_coefficient)
    power = torch.as_tensor(power, dtype=log_coefficient.dtype, device=log_coefficient.device).detach()
    board = log_coefficient.new_ones(())
    for axis in grid.axes:
        signs = (-1.0) ** torch.arange(axis.nodes, dtype=board.dtype, device=board.device)
        board = board.unsqueeze(-1) * signs
    closed = any(axis.boundary.periodic and axis.nodes % 2 for axis in grid.axes)
    if closed or bool(power.abs() < 0.1):
        return log_coefficient
    values = (power * log_coefficient).exp()
    both = zip(fluxes.drops(values), fluxes.drops(board), strict=True)
    amounts = torch.cat([(-drop / sign).flatten(1) for drop, sign in both], 1)
    amount = amounts.detach().median(1).values[(..., *(None,) * grid.dimension)]
    found = values + amount * board
    return torch.where((found > 0).flatten(1).all(1)[(..., *(None,) * grid.dimension)], found, values).log() / power


def log_cosh_ratio(half: Tensor, power: float | Tensor) -> Tensor:
    """log(cosh(p Δ)) / p, without overflow, and 0 at p = 0."""
    power = torch.as_tensor(power, dtype=half.dtype, device=half.device)
    safe = torch.where(power.abs() < 1e-6, torch.full_like(power, 1e-6), power)
    size = (safe * half).abs()
    return (size + torch.log1p(torch.exp(-2 * size)) - torch.log(torch.full_like(power, 2.0))) / safe
