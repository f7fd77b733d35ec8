"""Pairs (f_i, u_i), i = 1 … d: loads that were applied to one system and the responses that were measured.

Fields are `(*batch, pair, component, *space)`; a batch holds several systems, each with its own d pairs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from nipde.errors import PairsError, ShapeError
from nipde.grid import Grid


@dataclass(frozen=True, eq=False)
class Pairs:
    """Loads and responses in physical units; `mask` is true where a response was measured, `noise` its error.

    `noise` is the standard deviation of the responses' error in the unit of the response: 0 means exact, None unknown.
    `load_noise` is that of the loads, in theirs; None means that they are what was applied.
    """

    grid: Grid
    loads: Float[Tensor, "*batch_pair_component_space"]
    responses: Float[Tensor, "*batch_pair_component_space"]
    mask: Bool[Tensor, "*batch_pair_component_space"] | None = None
    noise: Float[Tensor, "*batch"] | float | None = None
    load_noise: Float[Tensor, "*batch"] | float | None = None

    def __post_init__(self) -> None:
        for name in ("loads", "responses"):
            _check_field(name, getattr(self, name), self.grid)
        leading = [field.shape[: -self.grid.dimension - 1] for field in (self.loads, self.responses)]
        if leading[0] != leading[1]:
            raise ShapeError(
                "loads and responses do not pair up",
                expected=f"equal axes before the component, as in loads {tuple(leading[0])}",
                got=f"responses {tuple(leading[1])}", remedy="give one response per load, in the same order",
            )  # fmt: skip
        if self.loads.dtype != self.responses.dtype or self.loads.device != self.responses.device:
            kinds = [f"{field.dtype} on {field.device}" for field in (self.loads, self.responses)]
            raise PairsError(expected=f"responses like the loads, {kinds[0]}", got=kinds[1], remedy="use .to(loads)")
        for noise in (self.noise, self.load_noise):
            if noise is None:
                continue
            if not bool(noise >= 0 if isinstance(noise, float | int) else (noise >= 0).all()):
                got = noise.tolist() if isinstance(noise, Tensor) else noise
                raise PairsError(expected="a noise level >= 0", got=got, remedy="give a standard deviation, or None")
            if (shape := tuple(np.shape(noise))) not in ((), self.batch):
                raise ShapeError("noise does not fit", expected=f"one level, or one per system {self.batch}", got=shape)
        if self.mask is not None:
            self._check_mask(self.mask)

    @classmethod
    def from_arrays(
        cls, loads: Any, responses: Any, *, grid: Grid, mask: Any = None, noise: float | None = None
    ) -> Self:
        """Pairs from NumPy arrays or tensors; scalar fields may come without a component axis: `(pair, *space)`."""
        scalar = grid.dimension + 1
        fields = [_as_float(name, values) for name, values in (("loads", loads), ("responses", responses))]
        fields = [field.unsqueeze(1) if field.ndim == scalar else field for field in fields]
        precision = torch.promote_types(fields[0].dtype, fields[1].dtype)
        fields = [field.to(device=fields[0].device, dtype=precision) for field in fields]
        if mask is not None:
            mask = mask if isinstance(mask, Tensor) else _copied(mask)
            mask = mask.unsqueeze(1) if mask.ndim == scalar else mask
        pairs = cls(grid, fields[0], fields[1], mask, noise)
        pairs.check_finite()
        return pairs

    @property
    def count(self) -> int:
        """d, the number of pairs."""
        return int(self.loads.shape[self._component - 1])

    @property
    def batch(self) -> tuple[int, ...]:
        """Axes in front of the pairs."""
        return tuple(self.loads.shape[: self._component - 1])

    @property
    def components(self) -> tuple[int, int]:
        """Components of a response and of a load."""
        return int(self.responses.shape[self._component]), int(self.loads.shape[self._component])

    def take(self, pairs: Any) -> Self:
        """Some of the pairs, by index, slice or permutation."""
        pairs = [int(pairs)] if getattr(pairs, "ndim", None) == 0 or isinstance(pairs, int) else pairs
        index = (..., pairs, *(slice(None),) * (self.grid.dimension + 1))
        mask = self.mask
        if mask is not None and mask.ndim >= self.grid.dimension + 2 and mask.shape[-self.grid.dimension - 2] != 1:
            mask = mask[index]
        return replace(self, loads=self.loads[index], responses=self.responses[index], mask=mask)

    def system(self, number: int) -> Self:
        """One of a batch with one axis."""

        def own(value: Any, axes: int) -> Any:
            """What all systems share stays as it is."""
            if not isinstance(value, Tensor) or value.ndim <= axes:
                return value
            return value[0 if len(value) == 1 else number]

        mask, noise, load_noise = own(self.mask, self.grid.dimension + 2), own(self.noise, 0), own(self.load_noise, 0)
        return type(self)(self.grid, self.loads[number], self.responses[number], mask, noise, load_noise)

    def along_one_axis(self) -> Self:
        """All systems along one axis, one system as a batch of one; a mask that hides nothing is none."""
        fields, mask = len(self.batch), self.mask
        if mask is not None:
            mask = None if bool(mask.all()) else mask.expand_as(self.responses)

        def flat(value: Any) -> Any:
            """Numbers and what is not there stay as they are."""
            given = isinstance(value, Tensor) and (value.ndim > 0 or not fields)
            return value.reshape(-1, *value.shape[fields:]) if given else value

        return replace(self, mask=mask)._each(flat)

    def mixed(self, mixing: Float[Tensor, "pair new"]) -> Self:
        """The same system by other pairs, (F Q, U Q): for a linear law nothing is gained or lost."""
        if self.mask is not None:
            raise PairsError("masked pairs cannot be mixed", expected="responses measured everywhere", got="a mask")

        place = self._component - 1
        fields = (field.movedim(place, -1) @ mixing.to(field) for field in (self.loads, self.responses))
        loads, responses = (field.movedim(-1, place) for field in fields)
        return replace(self, loads=loads, responses=responses)

    def scaled(self, *, load: Any = 1.0, response: Any = 1.0) -> Self:
        """The same pairs in other units: loads times `load`, responses and their noise times `response`."""
        noise = None if self.noise is None else self.noise * abs(response)
        load_noise = None if self.load_noise is None else self.load_noise * abs(load)
        loads, responses = self.loads * self._per_system(load), self.responses * self._per_system(response)
        return replace(self, loads=loads, responses=responses, noise=noise, load_noise=load_noise)

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Self:
        """Another precision or device."""

        def moved(value: Any) -> Any:
            kind = dtype if isinstance(value, Tensor) and value.is_floating_point() else None
            return value.to(device=device, dtype=kind) if isinstance(value, Tensor) else value

        return self._each(moved)

    def check_finite(self) -> None:
        """Raise if a load, or a response that counts as measured, holds NaN or infinity."""
        for name in ("loads", "responses"):
            bad = ~torch.isfinite(getattr(self, name))
            if name == "responses" and self.mask is not None:
                bad = bad & self.mask
            if bool(bad.any()):
                axes = [*(f"batch axis {place}" for place in range(len(self.batch))), "pair", "component"]
                where = dict(zip([*axes, *self.grid.axis_names], torch.nonzero(bad)[0].tolist(), strict=True))
                raise PairsError(
                    f"{name} hold values that are not numbers",
                    expected="finite values" if name == "loads" else "finite values wherever the mask is true",
                    got=f"{int(bad.sum())} others, the first at {where}",
                    remedy="mark missing responses with mask=False",
                )

    def refuse_mask(self, who: str) -> None:
        """Raise if some responses were not measured: for estimators that need all of them."""
        if self.mask is not None and not bool(self.mask.all()):
            raise PairsError(
                f"{who} cannot use partly measured responses", expected="every node measured",
                got=f"{float(self.mask.double().mean()):.1%} measured",
                remedy="use SensorInversion (output-error) or weights with a law, or Ridge if nothing is known",
            )  # fmt: skip

    @property
    def _component(self) -> int:
        """Place of the component axis."""
        return self.loads.ndim - self.grid.dimension - 1

    def _each(self, change: Callable[[Any], Any]) -> Self:
        """Every field and level changed."""
        parts = (self.loads, self.responses, self.mask, self.noise, self.load_noise)
        return type(self)(self.grid, *map(change, parts))

    def _per_system(self, factor: Any) -> Tensor:
        value = torch.as_tensor(factor, dtype=self.loads.dtype, device=self.loads.device)
        return value.reshape(*value.shape, *(1,) * (self.grid.dimension + 2)) if value.ndim else value

    def _check_mask(self, mask: Tensor) -> None:
        try:
            fits = np.broadcast_shapes(mask.shape, self.responses.shape) == self.responses.shape
        except ValueError:
            fits = False
        if mask.dtype != torch.bool or not fits:
            raise ShapeError(
                "mask does not fit the responses", expected=f"booleans that broadcast to {tuple(self.responses.shape)}",
                got=f"{mask.dtype} of shape {tuple(mask.shape)}", remedy="mask is True where a response was measured",
            )  # fmt: skip


def _copied(values: Any) -> Tensor:
    """A copy in native byte order without negative strides: torch knows neither."""
    array = np.asarray(values)
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def _as_float(name: str, values: Any) -> Tensor:
    tensor = values if isinstance(values, Tensor) else _copied(values)
    if tensor.is_complex():
        raise PairsError(f"{name} are complex", expected="real numbers", got=tensor.dtype, remedy="split the parts")
    return tensor if tensor.is_floating_point() else tensor.double()


def _check_field(name: str, field: Tensor, grid: Grid) -> None:
    """Errors that name the axis, so that a swapped or missing one shows."""
    wanted = f"(*batch, pair, component, {', '.join(grid.axis_names)})"
    if field.ndim < grid.dimension + 2:
        raise ShapeError(
            f"{name} lack axes", expected=f"{wanted}: {grid.dimension + 2} axes or more",
            got=f"shape {tuple(field.shape)}", remedy="Pairs.from_arrays accepts scalar fields as (pair, *space)",
        )  # fmt: skip
    for place, (axis, nodes) in enumerate(zip(grid.axis_names, grid.shape, strict=True)):
        nodes_of_field = field.shape[place - grid.dimension]
        if nodes_of_field != nodes:
            raise ShapeError(
                f"{name}: axis {axis} does not fit the grid", expected=f"{nodes} nodes along {axis}",
                got=f"{nodes_of_field} in shape {tuple(field.shape)}, read as {wanted}",
                remedy="put space last, or use grid.restrict / grid.interpolate",
            )  # fmt: skip
    for place, axis in ((-grid.dimension - 2, "pair"), (-grid.dimension - 1, "component")):
        if field.shape[place] == 0:
            raise ShapeError(f"{name}: axis {axis} is empty", expected=f"at least one {axis}", got=0)
