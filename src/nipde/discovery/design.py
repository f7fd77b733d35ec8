"""Sequential design of loads by the uncertainty of a conditioned kernel.

    gain(f) = Σ_q c(f, q)² / (c(f, f) + λ)

c is the covariance in the metric Σ that the pairs have left, q are the loads whose responses are predicted. Once f is
applied, c(g, h) falls by c(g, f) c(f, h) / (c(f, f) + λ). No response appears: a sequence can be planned ahead.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nipde.context.pairs import Pairs
from nipde.discovery.candidates import Loads, as_loads, at_effort
from nipde.errors import KernelError, PairsError
from nipde.grid import Grid
from nipde.kernels.conditioned import ConditionedKernel, ContextSubspace
from nipde.kernels.low_rank import LowRankKernel
from nipde.spectral.transform import transform

#: A load is known once its variance, relative to that without pairs, is below this many machine epsilons.
FLOOR = 64.0


@dataclass(frozen=True, eq=False)
class Ranking:
    """The gain of every candidate as the next load."""

    #: Share of the queries' variance that each candidate would remove, 0 to 1, in the order of the candidates.
    gains: Float[Tensor, " candidate"]

    @property
    def order(self) -> Int[Tensor, " candidate"]:
        """Indices of the candidates, best first."""
        return self.gains.argsort(descending=True, stable=True)

    @property
    def best(self) -> int:
        """Index of the best candidate."""
        return int(self.gains.argmax())


@dataclass(frozen=True, eq=False)
class Design:
    """A sequence of loads."""

    #: Candidates in the order to apply them.
    indices: Int[Tensor, " load"]
    #: Share of the queries' variance that remains after each of them.
    remaining: Float[Tensor, " load"]


def next_load(kernel: ConditionedKernel, candidates: Any, queries: Any, *, effort: float | None = 1.0) -> Ranking:
    """The gain of each candidate for predicting the queries, given the pairs of `kernel`.

    Candidates are compared at a root mean square of `effort`; None takes them as they are. Loads of 1 component may
    come as `(pair, *space)`, in NumPy or torch.
    """
    return Ranking(_Covariances.of(kernel, candidates, queries, effort=effort).gains())


def design(
    kernel: ConditionedKernel, candidates: Any, queries: Any, *, count: int, effort: float | None = 1.0
) -> Design:
    """`count` candidates, each the best after those before it by `next_load`; each at most once.

    Costs count × candidates × (candidates + queries) operations.
    """
    state = _Covariances.of(kernel, candidates, queries, effort=effort)
    if not 1 <= count <= len(state.own):
        raise PairsError(
            expected=f"1 to {len(state.own)} loads, the number of candidates", got=count,
            remedy="give more candidates; list one twice to allow for its repetition",
        )  # fmt: skip
    indices: list[int] = []
    remaining = []
    for _ in range(count):
        gains = state.gains()
        gains[indices] = -1.0
        indices.append(int(gains.argmax()))
        state = state.after(indices[-1])
        remaining.append(state.remaining)
    return Design(torch.tensor(indices), torch.stack(remaining))


def principal_loads(kernel: ConditionedKernel, queries: Any, *, count: int, effort: float = 1.0) -> Loads:
    """The best of all loads: at zero noise, no other `count` leave less variance of the queries.

    They are mixtures of the queries, so give many more of these than `count`; most important first.
    """
    kernel = _in_double(kernel)
    queries = as_loads(kernel.grid, queries).to(kernel.correction.left.device)
    if not 1 <= count <= len(queries):
        raise PairsError(expected=f"1 to {len(queries)} loads, the number of queries", got=count, remedy="give more")
    mixing = torch.linalg.eigh(kernel.covariance(queries, queries)).eigenvectors.flip(-1)[:, :count]
    return at_effort(kernel.grid, torch.einsum("ql,q...->l...", mixing, queries), effort=effort)


def empty_context(
    model: nn.Module, loads: Float[Tensor, "pair component *space"], *, grid: Grid, noise: float
) -> ConditionedKernel:
    """The kernel of a system before its first pair: covariance fᵀΣg, and the λ of loads and noise like these.

    Σ and λ do not depend on the system: loads can be designed before there is a specimen. `noise` is that of the
    sensor, a share of the rms of the responses. The stiffness cancels in λ, so responses are those of -Δu = f.
    """
    loads, waves = as_loads(grid, loads).to(next(model.parameters())), transform(grid)
    squares = waves.squared_wavenumbers(loads)
    responses = waves.synthesis(waves.analysis(loads) / squares.clamp(min=squares[squares > 0].min()))
    deviation = noise * float(responses.square().mean().sqrt())
    with torch.no_grad():
        kernel = model(Pairs(grid, loads, responses, noise=deviation))
    return _without_pairs(kernel)


@dataclass(frozen=True, eq=False)
class _Covariances:
    """Covariances that the pairs have left."""

    #: Between candidates, and between candidates and queries.
    own: Float[Tensor, "candidate candidate"]
    shared: Float[Tensor, "candidate query"]
    #: Variance of a candidate below which there is only rounding.
    floor: Float[Tensor, " candidate"]
    noise: Float[Tensor, ""]
    #: Variance of all queries at the start, and the share of it that remains.
    total: Float[Tensor, ""]
    remaining: Float[Tensor, ""]

    @classmethod
    def of(cls, kernel: ConditionedKernel, candidates: Any, queries: Any, *, effort: float | None) -> "_Covariances":
        step = torch.finfo(kernel.correction.left.dtype).eps
        kernel, grid = _in_double(kernel), kernel.grid
        candidates = as_loads(grid, candidates) if effort is None else at_effort(grid, candidates, effort=effort)
        device = kernel.correction.left.device
        candidates, queries = candidates.to(device), as_loads(grid, queries).to(device)
        total = _variances(kernel, queries).sum()
        return cls(
            own=kernel.covariance(candidates, candidates),
            shared=kernel.covariance(candidates, queries),
            floor=FLOOR * step * _variances(_without_pairs(kernel), candidates),
            noise=_subspace(kernel).noise,
            total=total,
            remaining=torch.ones_like(total),
        )

    def gains(self) -> Float[Tensor, " candidate"]:
        """Of every candidate, relative to the variance of the queries at the start."""
        variance = self.own.diagonal()
        gains = self.shared.square().sum(1) / (variance + self.noise)
        return torch.where(variance > self.floor, gains / self.total, 0.0)

    def after(self, load: int) -> "_Covariances":
        """One candidate applied."""
        if self.own[load, load] <= self.floor[load]:
            return self
        variance = self.own[load, load] + self.noise
        column = self.own[:, load] / variance
        return replace(
            self,
            own=self.own - torch.outer(column, self.own[load]),
            shared=self.shared - torch.outer(column, self.shared[load]),
            remaining=self.remaining - self.shared[load].square().sum() / variance / self.total,
        )


def _variances(kernel: ConditionedKernel, loads: Loads) -> Float[Tensor, " pair"]:
    """In blocks: the covariance of many queries need not fit in memory."""
    return torch.cat([kernel.covariance(some, some).diagonal() for some in loads.split(64)])


def _in_double(kernel: ConditionedKernel) -> ConditionedKernel:
    """The same in double precision: the remaining variance is a small difference."""
    if kernel.batch:
        raise KernelError(
            expected="the kernel of one system", got=f"a batch {kernel.batch}", remedy="use kernel.system(number)"
        )
    subspace = _subspace(kernel)
    subspace = replace(subspace.map(torch.Tensor.double), metric=subspace.metric.double())
    correction = LowRankKernel(kernel.grid, kernel.correction.left.double(), kernel.correction.right.double())
    return replace(kernel, correction=correction, subspace=subspace)


def _without_pairs(kernel: ConditionedKernel) -> ConditionedKernel:
    """The same metric and noise, and no pairs: a correction of rank 0."""
    subspace = _subspace(kernel)
    correction = LowRankKernel(kernel.grid, kernel.correction.left[:0], kernel.correction.right[:0])
    return replace(kernel, correction=correction, subspace=replace(subspace, strengths=subspace.strengths[:0]))


def _subspace(kernel: ConditionedKernel) -> ContextSubspace:
    subspace: ContextSubspace | None = getattr(kernel, "subspace", None)
    if subspace is None:
        raise KernelError(
            expected="a kernel with the subspace of its context", got=type(kernel).__name__,
            remedy="use the kernel of a ConditionedNIPS, not its transpose",
        )  # fmt: skip
    return subspace
