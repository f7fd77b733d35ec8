"""A table of errors and signatures of other systems, by number of pairs and noise: bands and an outlier test.

    half width of a band = factor(level, place; d, ν) · spread,    score of a number = (number - median) / deviation

Between the strata of the table log(factor) is interpolated over log d, and then the factor over √ν, as it grows: slower
than the noise share ν, since the prior replaces what noise hides. Outside, the nearest stratum counts.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.errors import KernelError
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.prediction_bands import SAME_DISCRETISATION, OutlierTest, PredictionBands
from nipde.records import dataclass_from_json

#: Misfits below this share of the responses are alike: at zero noise the rest is rounding and unfinished steps.
MISFIT_FLOOR = 1e-3
#: Shares of nodes with a lower coefficient, at the two ends of a contrast.
CONTRAST_ENDS = (0.05, 0.95)
#: A factor of 0 has no logarithm.
SMALLEST = 1e-12
#: Shares of noise beyond the ends of the table by less than this factor are taken for the ends.
NOISE_SLACK = 1.2


@dataclass(frozen=True)
class Stratum:
    """Quantiles of one number of pairs at one share of noise."""

    #: Half width over spread for every level, inside and next to Dirichlet sides.
    inside: tuple[float, ...]
    edge: tuple[float, ...]
    #: Median and deviation of every number of the signature.
    median: tuple[float, ...]
    deviation: tuple[float, ...]
    #: |error of log b| over its deviation for every level; empty where no material is inferred, or its truth unknown.
    material: tuple[float, ...] = ()
    #: The same with the piecewise-constant prior.
    piecewise_constant: tuple[float, ...] = ()


@dataclass(frozen=True)
class Calibration:
    """The table; `evaluation.calibrate.calibrated` makes it."""

    #: Axes of the table, rising: pairs of a context, and noise over root mean square of its responses.
    pairs: tuple[int, ...]
    noise: tuple[float, ...]
    strata: tuple[tuple[Stratum, ...], ...]
    #: Levels of bands, and numbers of the signature.
    levels: tuple[float, ...]
    names: tuple[str, ...]
    #: Largest score that is no outlier.
    threshold: float
    #: Where the table comes from: how many systems of which archive.
    systems: int
    archive: str
    #: Whether factors on log b are for a deviation times √χ² of the misfit.
    widened: bool = False
    #: Nodes of the systems' grid if another solver, on a finer mesh, made their data; empty if nipde's own did.
    reference: tuple[int, ...] = ()
    #: The table for contexts on grids at least as fine as its own; this one is for the others.
    finer: "Calibration | None" = None

    def __post_init__(self) -> None:
        counts = {"median": len(self.names), "deviation": len(self.names)}
        try:
            tables = {field.name: self._table(field.name) for field in fields(Stratum)}
            right = min(tables["deviation"].min(), self.pairs[0]) > 0 and np.isfinite(self.threshold)
        except (ValueError, IndexError):  # rows of different lengths, or none
            right, tables = False, {}
        for name, table in tables.items():
            shape = len(self.pairs), len(self.noise), counts.get(name, len(self.levels))
            optional = name in ("material", "piecewise_constant") and table.shape == (*shape[:2], 0)
            right &= (table.shape == shape or optional) and bool(np.isfinite(table).all())
            right &= name == "median" or bool((table >= 0).all())
        for axis, low, high in ((self.pairs, 1, np.inf), (self.noise, 0, np.inf), (self.levels, 0, 1)):
            right &= all(np.diff(axis) > 0) and all(low <= value < high for value in axis)
        if not right:
            raise KernelError(
                "the table of a calibration", expected="rising axes, and finite factors at each of their points",
                got="others", remedy="calibrate these weights",
            )  # fmt: skip

    def bands(self, kernel: ConditionedKernel, *, pairs: int, share: Float[Tensor, "*batch"]) -> PredictionBands:
        """Bands and outlier test of a kernel from so many pairs with this share of noise."""
        noise = _on_host(share)
        if self.finer is not None and not any(self.finer._not_covered(kernel, pairs, noise)):
            return self.finer.bands(kernel, pairs=pairs, share=share)
        statistics = signature(kernel, share)
        if tuple(statistics) != self.names:
            raise KernelError(
                "calibration of another prior", expected=f"{', '.join(self.names)} of a kernel",
                got=", ".join(statistics), remedy="calibrate these weights",
            )  # fmt: skip
        factors = [self._interpolated(name, pairs, noise, logarithmic=True).to(share) for name in ("inside", "edge")]
        medians, deviations = (
            self._interpolated(name, pairs, noise).to(share).unbind(-1) for name in ("median", "deviation")
        )
        scores = {
            name: (number - median) / deviation
            for (name, number), median, deviation in zip(statistics.items(), medians, deviations, strict=True)
        }
        material = None
        if self.strata[0][0].material:
            material = self._interpolated("material", pairs, noise, logarithmic=True).to(share)
        return PredictionBands(
            self.levels, torch.stack(factors, -1), OutlierTest(scores, self.threshold), material, self.widened,
            tuple(self._not_covered(kernel, pairs, noise)),
        )  # fmt: skip

    def with_piecewise_constant_prior(self) -> Self:
        """Of the piecewise-constant prior; bands on responses stay as they are, and hold more than their level."""
        strata = tuple(tuple(replace(one, material=one.piecewise_constant) for one in row) for row in self.strata)
        finer = None if self.finer is None else self.finer.with_piecewise_constant_prior()
        return replace(self, strata=strata, finer=finer)

    def is_finer_than(self, shape: tuple[int, ...]) -> bool:
        """Whether its systems have more nodes along an axis."""
        return any(nodes < own for nodes, own in zip(shape, self.reference, strict=False))

    def with_finer(self, other: Self) -> Self:
        """Both tables, if the other's systems are of a finer grid; else the other alone."""
        if not self.reference or not other.reference or not other.is_finer_than(self.reference):
            return other
        return replace(self, finer=other if self.finer is None else self.finer.with_finer(other))

    def _not_covered(self, kernel: ConditionedKernel, pairs: int, noise: Float[np.ndarray, "*batch"]) -> Iterator[str]:
        """What sets a kernel's context apart from those of the table."""
        if not self.reference:
            yield SAME_DISCRETISATION
        elif self.is_finer_than(kernel.grid.shape):
            nodes = " × ".join(map(str, self.reference))
            yield f"the grid is coarser than the {nodes} nodes of the calibration systems: its own error is larger"
        if not self.pairs[0] <= pairs <= self.pairs[-1]:
            yield f"{pairs} pairs: bands were calibrated for {self.pairs[0]} to {self.pairs[-1]}"
        least, most = float(noise.min()), float(noise.max())
        if most > NOISE_SLACK * self.noise[-1] or NOISE_SLACK * least < self.noise[0]:
            yield f"{most:.1%} noise: bands were calibrated for {self.noise[0]:.1%} to {self.noise[-1]:.1%}"
        if kernel.coefficient is not None and not self.strata[0][0].material:
            yield "bands of the coefficient were not calibrated for this prior"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild from JSON form."""
        return dataclass_from_json(record, cls, name="calibration")

    def _table(self, name: str) -> Float[np.ndarray, "pairs noise number"]:
        return np.array([[getattr(stratum, name) for stratum in row] for row in self.strata])

    def _interpolated(
        self, name: str, pairs: int, noise: Float[np.ndarray, "*batch"], *, logarithmic: bool = False
    ) -> Float[Tensor, "*batch number"]:
        table = np.log(np.maximum(self._table(name), SMALLEST)) if logarithmic else self._table(name)
        row = np.tensordot(_shares(np.log(pairs), np.log(self.pairs)), table, 1)
        row = np.exp(row) if logarithmic else row
        return torch.as_tensor(_shares(np.sqrt(noise), np.sqrt(self.noise)) @ row)


def signature(kernel: ConditionedKernel, share: Float[Tensor, "*batch"]) -> dict[str, Float[Tensor, "*batch"]]:
    """Numbers that describe a context, invariant to order and rotation of its pairs.

    Stiffness: log of load per response. Misfit: log of the prior's residual over the noise, 0 where it is smaller.
    Contrast, where a coefficient is inferred: the range of its logarithm, without the outermost nodes.
    """
    subspace, floor = kernel.subspace, MISFIT_FLOOR**2
    assert subspace is not None
    with torch.no_grad():
        statistics = {
            "stiffness": subspace.stiffness_scale.log(),
            "misfit": ((subspace.misfit.square() + floor) / (share.square() + floor)).log().clamp(min=0) / 2,
        }
        if kernel.coefficient is not None:
            log = kernel.coefficient.log()
            values = log[..., torch.tensor(kernel.grid.unknown, device=log.device)].sort(-1).values
            low, high = (round(end * (values.shape[-1] - 1)) for end in CONTRAST_ENDS)
            statistics["contrast"] = values[..., high] - values[..., low]
    return statistics


def _on_host(share: Float[Tensor, "*batch"]) -> Float[np.ndarray, "*batch"]:
    return np.asarray(share.detach().cpu().double().numpy())


def noise_share(noise: Float[Tensor, " system"], responses: Tensor) -> Float[Tensor, " system"]:
    """Noise over root mean square of the responses."""
    return noise / responses.square().flatten(1).mean(1).sqrt()


def _shares(at: Any, points: Float[np.ndarray, " point"]) -> Float[np.ndarray, "*at point"]:
    """How much every point counts in between: linear interpolation, constant beyond the ends."""
    return np.stack([np.interp(at, points, row) for row in np.eye(len(points))], -1)
