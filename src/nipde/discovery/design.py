"""Which load to apply next: the one that leaves least unknown of the answers one wants.

    gain(f) = Σ_q c(f, q)² / (c(f, f) + λ)

c is what the pairs so far have left of the covariance in the metric Σ, q are the loads one wants to answer. After f has
been applied, c(g, h) falls by c(g, f) c(f, h) / (c(f, f) + λ). No response appears: a sequence can be planned ahead.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from nipde.discovery.candidates import Loads, as_loads, at_effort
from nipde.discovery.untouched import Untouched
from nipde.errors import KernelError, PairsError
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.low_rank import LowRankKernel

Start = ConditionedKernel | Untouched

#: A load of which less than this many smallest steps of the precision is left unknown, relative to the whole, is known.
FLOOR = 64.0


@dataclass(frozen=True, eq=False)
class Ranking:
    """What every candidate would be worth as the next load."""

    #: Share of the queries' variance that each candidate would remove, 0 to 1, in the order given.
    gains: Float[Tensor, " candidate"]

    @property
    def order(self) -> Int[Tensor, " candidate"]:
        """Candidates, best first."""
        return self.gains.argsort(descending=True, stable=True)

    @property
    def best(self) -> int:
        """The candidate to apply."""
        return int(self.gains.argmax())


@dataclass(frozen=True, eq=False)
class Design:
    """A sequence of loads."""

    #: Candidates in the order to apply them.
    indices: Int[Tensor, " load"]
    #: Share of the queries' variance that is left after each of them.
    left: Float[Tensor, " load"]


def next_load(start: Start, candidates: Any, queries: Any, *, effort: float | None = 1.0) -> Ranking:
    """The worth of each candidate for answering the queries, given what `start` knows.

    Candidates are compared at a root mean square of `effort`; None takes them as they are. Loads of 1 component may
    come as `(pair, *space)`, in NumPy or torch.
    """
    return Ranking(_Unknown.of(start, candidates, queries, effort=effort).shares())


def design(start: Start, candidates: Any, queries: Any, *, count: int, effort: float | None = 1.0) -> Design:
    """`count` candidates, each the best after those before it, as `next_load` would say; each at most once.

    Costs count × candidates × (candidates + queries) operations.
    """
    unknown = _Unknown.of(start, candidates, queries, effort=effort)
    if not 1 <= count <= len(unknown.own):
        raise PairsError(
            expected=f"1 to {len(unknown.own)} loads, the number of candidates", got=count,
            remedy="give more candidates; list one twice to allow for its repetition",
        )  # fmt: skip
    chosen: list[int] = []
    left = []
    for _ in range(count):
        gains = unknown.shares()
        gains[chosen] = -1.0
        chosen.append(int(gains.argmax()))
        unknown = unknown.after(chosen[-1])
        left.append(unknown.left)
    return Design(torch.tensor(chosen), torch.stack(left))


def principal_loads(start: Start, queries: Any, *, count: int, effort: float = 1.0) -> Loads:
    """The best loads where any may be applied: at zero noise, no other `count` leave less of the queries unknown.

    They are mixtures of the queries, so give many more of these than `count`; most important first.
    """
    queries = as_loads(start.grid, queries).to(_numbers(start)[0].device)
    if not 1 <= count <= len(queries):
        raise PairsError(expected=f"1 to {len(queries)} loads, the number of queries", got=count, remedy="give more")
    start = _precise(start)
    mixing = torch.linalg.eigh(start.covariance(queries, queries)).eigenvectors.flip(-1)[:, :count]
    return at_effort(start.grid, torch.einsum("ql,q...->l...", mixing, queries), effort=effort)


@dataclass(frozen=True, eq=False)
class _Unknown:
    """What is not known, as covariances."""

    #: Between candidates, and between candidates and queries.
    own: Float[Tensor, "candidate candidate"]
    shared: Float[Tensor, "candidate query"]
    #: Variance of a candidate below which rounding is all that is left of it.
    floor: Float[Tensor, " candidate"]
    noise: Float[Tensor, ""]
    #: Variance of all queries at the start, and the share of it that is left.
    total: Float[Tensor, ""]
    left: Float[Tensor, ""]

    @classmethod
    def of(cls, start: Start, candidates: Any, queries: Any, *, effort: float | None) -> "_Unknown":
        grid, metric, noise, step = start.grid, *_numbers(start)
        candidates = as_loads(grid, candidates) if effort is None else at_effort(grid, candidates, effort=effort)
        candidates, queries = candidates.to(metric.device), as_loads(grid, queries).to(metric.device)
        blank = Untouched(grid, metric, noise)
        start = _precise(start)
        total = _variances(start, queries).sum()
        return cls(
            own=start.covariance(candidates, candidates),
            shared=start.covariance(candidates, queries),
            floor=FLOOR * step * _variances(blank, candidates),
            noise=noise,
            total=total,
            left=torch.ones_like(total),
        )

    def shares(self) -> Float[Tensor, " candidate"]:
        """Gain of every candidate over the variance of the queries at the start."""
        variance = self.own.diagonal()
        gains = self.shared.square().sum(1) / (variance + self.noise)
        return torch.where(variance > self.floor, gains / self.total, 0.0)

    def after(self, load: int) -> "_Unknown":
        """One candidate applied."""
        known = self.own[load, load] + self.noise
        if self.own[load, load] <= self.floor[load]:
            return self
        column = self.own[:, load] / known
        return replace(
            self,
            own=self.own - torch.outer(column, self.own[load]),
            shared=self.shared - torch.outer(column, self.shared[load]),
            left=self.left - self.shared[load].square().sum() / known / self.total,
        )


def _variances(start: Start, loads: Loads) -> Float[Tensor, " pair"]:
    """A block at a time: the covariance of many queries need not fit in memory."""
    return torch.cat([start.covariance(some, some).diagonal() for some in loads.split(64)])


def _numbers(start: Start) -> tuple[Tensor, Tensor, float]:
    """σ(k) and λ in double precision, and the smallest step of the precision they came in."""
    if isinstance(start, Untouched):
        metric, noise = start.metric, start.noise
    else:
        if start.batch:
            raise KernelError(
                expected="the kernel of one system", got=f"a batch {start.batch}", remedy="use kernel.system(number)"
            )
        if start.seen is None:
            raise KernelError(expected="a kernel as estimated", got="a transpose", remedy="give the kernel itself")
        metric, noise = start.seen.metric, start.seen.noise
    return metric.double(), noise.double(), torch.finfo(metric.dtype).eps


def _precise(start: Start) -> Start:
    """The same in double precision: what is left is a small difference."""
    metric, noise, _ = _numbers(start)
    if isinstance(start, Untouched):
        return Untouched(start.grid, metric, noise)
    assert start.seen is not None
    correction = LowRankKernel(start.grid, start.correction.left.double(), start.correction.right.double())
    return replace(
        start, correction=correction, seen=replace(start.seen.map(lambda value: value.double()), metric=metric)
    )
