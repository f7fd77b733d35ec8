"""One hidden field and the pairs it produced: what physics makes, what an archive stores, what estimators see."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, UInt64

from nipde.errors import ShapeError
from nipde.grid import Grid


@dataclass(frozen=True)
class Quantity:
    """Name, unit and component names of a field."""

    name: str
    unit: str = "1"
    components: tuple[str, ...] = ("value",)


@dataclass(frozen=True)
class Quantities:
    """The three fields of every problem."""

    load: Quantity
    response: Quantity
    hidden: Quantity


@dataclass(frozen=True, eq=False)
class System:
    """One system, or several stacked along leading batch axes, in physical units."""

    grid: Grid
    loads: Float[np.ndarray, "*batch_pair_component_space"]
    responses: Float[np.ndarray, "*batch_pair_component_space"]
    hidden: Float[np.ndarray, "*batch_component_space"]
    #: One number per system: with the recipe it gives the system back, bit for bit.
    seed: UInt64[np.ndarray, "*batch"]
    #: Numbers that describe the system, by name.
    parameters: dict[str, Float[np.ndarray, "*batch"]] = field(default_factory=dict)
    #: Numbers that describe each solve, by name; `residual` is always among them.
    diagnostics: dict[str, Float[np.ndarray, "*batch pair"]] = field(default_factory=dict)
    #: The hidden field in the cells of a finer mesh that it was solved on; None where that is the grid itself.
    fine: Float[np.ndarray, "*batch_component_cell"] | None = None

    def __post_init__(self) -> None:
        for name in ("loads", "responses", "hidden"):
            self.grid.check(getattr(self, name))
        pairs = [np.shape(array)[-self.grid.dimension - 2] for array in (self.loads, self.responses)]
        if pairs[0] != pairs[1]:
            raise ShapeError(
                "pairs do not match", expected=f"{pairs[0]} responses, one per load", got=pairs[1], remedy="drop extras"
            )

    @property
    def pairs(self) -> int:
        """Number of (load, response) pairs."""
        return int(np.shape(self.loads)[-self.grid.dimension - 2])
