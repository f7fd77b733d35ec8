"""Where fields live: nodes, boundary kind per axis, and the quadrature ∫ u dx ≈ Σ w u, Σ w = the volume."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import inf
from numbers import Real
from typing import Any, Self, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from nipde.boundary import BOUNDARIES, Boundary, Dirichlet
from nipde.errors import GridError, ShapeError

#: Names of the axes, in their order.
AXES = ("x", "y", "z")
#: A NumPy array or a torch tensor: the grid's arithmetic works on both and stays on the tensor's device.
Field = TypeVar("Field", bound=Any)


@dataclass(frozen=True)
class Axis:
    """Equally spaced nodes along one direction; `length` in the unit of length of the problem."""

    nodes: int
    length: float = 1.0
    boundary: Boundary = Dirichlet()

    def __post_init__(self) -> None:
        if not (isinstance(self.nodes, int | np.integer) and self.nodes >= 3):
            raise GridError(expected="a whole number of nodes >= 3", got=self.nodes, remedy="use a finer grid")
        if not (isinstance(self.length, Real) and 0 < self.length < inf):
            raise GridError(expected="a finite axis length > 0", got=self.length, remedy="give the length of the axis")

    @property
    def intervals(self) -> int:
        """Number of spacings along the length."""
        return self.nodes if self.boundary.periodic else self.nodes - 1

    @property
    def spacing(self) -> float:
        """Distance between neighbouring nodes."""
        return self.length / self.intervals

    @property
    def coordinates(self) -> Float[np.ndarray, " node"]:
        """Position of every node; the first one is at 0."""
        return np.arange(self.nodes) * (self.length / self.intervals)

    @property
    def weights(self) -> Float[np.ndarray, " node"]:
        """Trapezoid weights: they sum to the length."""
        weights = np.full(self.nodes, self.spacing)
        if not self.boundary.periodic:
            weights[[0, -1]] /= 2
        return weights

    @property
    def unknown(self) -> Bool[np.ndarray, " node"]:
        """False on nodes whose value the boundary fixes."""
        unknown = np.ones(self.nodes, dtype=bool)
        if self.boundary.essential:
            unknown[[0, -1]] = False
        return unknown

    def resampled(self, intervals: int) -> Self:
        """The same length with another number of spacings."""
        return replace(self, nodes=intervals if self.boundary.periodic else intervals + 1)


@dataclass(frozen=True)
class Grid:
    """A box of nodes, the product of its axes; space is always the trailing axes of a field."""

    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.axes) <= 3:
            raise GridError(expected="1 to 3 axes", got=len(self.axes), remedy="build the grid from Axis objects")

    @classmethod
    def uniform(
        cls,
        nodes: int | Sequence[int],
        *,
        dimension: int = 2,
        length: float | Sequence[float] = 1.0,
        boundary: Boundary = Dirichlet(),
    ) -> Self:
        """The same boundary in every direction: `Grid.uniform(21)` is the unit square with 21 × 21 nodes.

        Nodes and lengths are one number for all axes, or one for each.
        """
        counts = [int(nodes)] * dimension if isinstance(nodes, int | np.integer) else list(nodes)
        lengths = list(length) if isinstance(length, Sequence | np.ndarray) else [length] * len(counts)
        if len(lengths) != len(counts):
            raise GridError(expected=f"one length, or {len(counts)}", got=length, remedy="give one for each axis")
        return cls(tuple(Axis(count, one, boundary) for count, one in zip(counts, lengths, strict=True)))

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return len(self.axes)

    @property
    def axis_names(self) -> tuple[str, ...]:
        """x, y, z, as many as there are axes."""
        return AXES[: self.dimension]

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes per axis."""
        return tuple(axis.nodes for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(np.prod(self.shape))

    @property
    def spacing(self) -> tuple[float, ...]:
        """Node distance per axis."""
        return tuple(axis.spacing for axis in self.axes)

    @property
    def volume(self) -> float:
        """Length, area or volume of the box."""
        return float(np.prod([axis.length for axis in self.axes]))

    @property
    def coordinates(self) -> tuple[Float[np.ndarray, "*space"], ...]:
        """Position of every node, one array per axis, each of the grid's shape."""
        return tuple(np.meshgrid(*(axis.coordinates for axis in self.axes), indexing="ij"))

    @cached_property
    def weights(self) -> Float[np.ndarray, "*space"]:
        """Quadrature weights: the tensor product of the axes' trapezoid rules."""
        return _locked(reduce(np.multiply.outer, (axis.weights for axis in self.axes)))

    @cached_property
    def unknown(self) -> Bool[np.ndarray, "*space"]:
        """True at every node that no Dirichlet condition fixes."""
        return _locked(reduce(np.logical_and.outer, (axis.unknown for axis in self.axes)))

    @property
    def inner(self) -> tuple[slice, ...]:
        """Slices that cut the Dirichlet end nodes off: `field[(..., *grid.inner)]` holds the unknowns."""
        return tuple(slice(1, -1) if axis.boundary.essential else slice(None) for axis in self.axes)

    @cached_property
    def corners(self) -> Bool[np.ndarray, "*space"]:
        """Nodes on two or more Dirichlet sides at once: no stencil reads a coefficient there."""
        fixed = [np.broadcast_to(self.along(place, ~axis.unknown), self.shape) for place, axis in enumerate(self.axes)]
        return _locked(np.sum(fixed, axis=0) >= 2)

    @cached_property
    def edge(self) -> Bool[np.ndarray, "*space"]:
        """Unknown nodes next to a Dirichlet side."""
        near = np.zeros(self.shape, dtype=bool)
        for place, axis in enumerate(self.axes):
            if axis.boundary.essential:
                np.moveaxis(near, place, 0)[[1, -2]] = True
        return _locked(near & self.unknown)

    @cached_property
    def interior(self) -> Bool[np.ndarray, "*space"]:
        """Unknown nodes that are not on the edge."""
        return _locked(self.unknown & ~self.edge)

    def along(self, place: int, values: Field) -> Field:
        """Values along one axis, shaped to broadcast over the others."""
        return values.reshape([-1 if other == place else 1 for other in range(self.dimension)])

    def integrate(self, field: Field, *, mask: Any = None) -> Field:
        """∫ field dx over the box, or over the nodes where `mask` is true; leading axes stay."""
        self.check(field)
        weights = _like(self.weights, field)
        if mask is not None:
            weights = weights * mask
        return (field * weights).sum(tuple(range(-self.dimension, 0)))

    def norm(self, field: Field, *, mask: Any = None) -> Field:
        """L² norm (∫ field² dx)^½; leading axes stay."""
        return self.integrate(field * field, mask=mask) ** 0.5

    def refine(self, factor: int = 2) -> Self:
        """The grid with every spacing cut into `factor`: its nodes contain the old ones."""
        return replace(self, axes=tuple(axis.resampled(axis.intervals * factor) for axis in self.axes))

    def stretched(self, factor: float) -> Self:
        """The same nodes on a box `factor` times as long in every direction: lengths in another unit."""
        return replace(self, axes=tuple(replace(axis, length=axis.length * factor) for axis in self.axes))

    def ratio(self, other: "Grid") -> float:
        """Length of the box of `other` over this one's, geometric mean over directions."""
        return (other.volume / self.volume) ** (1 / self.dimension)

    def restrict(self, field: Field, *, to: "Grid") -> Field:
        """Values of a field of this grid at the nodes of the coarser nested grid `to`."""
        self.check(field)
        self._check_same_box(to)
        steps = []
        for place, (fine, coarse) in enumerate(zip(self.axes, to.axes, strict=True)):
            step, rest = divmod(fine.intervals, coarse.intervals)
            if rest:
                raise GridError(
                    f"axis {AXES[place]} is not nested",
                    expected=f"a divisor of {fine.intervals} intervals",
                    got=coarse.intervals,
                    remedy="use grid.interpolate(field, to=...)",
                )
            steps.append(slice(None, None, step))
        return field[(..., *steps)]

    def interpolate(self, field: Field, *, to: "Grid") -> Field:
        """Multilinear values of a field of this grid at the nodes of any grid on the same box."""
        self.check(field)
        self._check_same_box(to)
        for place, (source, target) in enumerate(zip(self.axes, to.axes, strict=True)):
            position = np.clip(target.coordinates / source.spacing, 0, source.intervals)
            left = np.minimum(position.astype(int), source.intervals - 1)
            behind = (slice(None),) * (self.dimension - 1 - place)
            share = _like((position - left).reshape(-1, *(1,) * len(behind)), field)
            right = (left + 1) % source.nodes
            field = field[(..., left, *behind)] * (1 - share) + field[(..., right, *behind)] * share
        return field

    def check(self, field: Any, *, leading: tuple[int, ...] | None = None) -> None:
        """Raise unless the trailing axes of `field` are this grid's, and those before them `leading`, if given."""
        shape = tuple(field.shape)
        fits = shape[-self.dimension :] == self.shape if leading is None else shape == (*leading, *self.shape)
        if not fits:
            raise ShapeError(
                "field does not live on this grid",
                expected=f"trailing axes {self.shape}" if leading is None else f"shape {(*leading, *self.shape)}",
                got=f"shape {shape}",
                remedy="put space last, or move the field with grid.restrict / grid.interpolate",
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON form; `Grid.from_dict` reads it back."""
        return {"axes": [{"nodes": a.nodes, "length": a.length, "boundary": a.boundary.name} for a in self.axes]}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild a grid from its JSON form."""
        axes = []
        for axis in record["axes"]:
            if axis["boundary"] not in BOUNDARIES:
                raise GridError(
                    expected=f"a boundary among {sorted(BOUNDARIES)}", got=axis["boundary"], remedy="use a newer nipde"
                )
            axes.append(Axis(int(axis["nodes"]), float(axis["length"]), BOUNDARIES[axis["boundary"]]))
        return cls(tuple(axes))

    def __str__(self) -> str:
        nodes = " × ".join(str(axis.nodes) for axis in self.axes)
        return f"{nodes} nodes on {' × '.join(f'{axis.length:g}' for axis in self.axes)}"

    def _check_same_box(self, other: "Grid") -> None:
        mine, theirs = ([(axis.length, axis.boundary) for axis in grid.axes] for grid in (self, other))
        if mine != theirs:
            raise GridError(
                expected=f"a grid on the box {mine}", got=theirs, remedy="use the same lengths and boundaries"
            )


def _like(values: np.ndarray, field: Any) -> Any:
    """`values` in the array kind and device of `field`, and in its precision if it has one (counts have none)."""
    if hasattr(field, "new_tensor"):
        return (field if field.is_floating_point() else field.double()).new_tensor(values)
    return values.astype(field.dtype, copy=False) if np.issubdtype(field.dtype, np.floating) else values


def _locked(values: np.ndarray) -> np.ndarray:
    """Cached arrays are shared, so they are read-only."""
    values.flags.writeable = False
    return values
