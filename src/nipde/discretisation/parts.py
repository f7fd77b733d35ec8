"""What holds on a part of a specimen's outline. The data of a part, such as its value or flux, are loads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from nipde.errors import GridError, PhysicsError
from nipde.shape import Shape


@dataclass(frozen=True)
class Condition:
    """One kind of condition."""

    name: ClassVar[str]
    #: Whether it gives u or a displacement: beside parts that do not, responses are singular.
    holds: ClassVar[bool] = False


@dataclass(frozen=True)
class DirichletPart(Condition):
    """u is given."""

    name, holds = "Dirichlet", True


@dataclass(frozen=True)
class NeumannPart(Condition):
    """The flux b ∂u/∂n into the specimen is given; 0 where nothing is said."""

    name = "Neumann"


@dataclass(frozen=True)
class RobinPart(Condition):
    """The flux into the specimen is coefficient · (surroundings - u); the surroundings are given."""

    name = "Robin"
    coefficient: float

    def __post_init__(self) -> None:
        _check_positive(self.coefficient, "coefficient")

    @property
    def resistance(self) -> float:
        """Of a unit of length."""
        return 1 / self.coefficient


@dataclass(frozen=True)
class Terminal(Condition):
    """An electrode, or a well with a screen: one potential U, flux (U - u) / impedance; the total flow is given."""

    name = "terminal"
    impedance: float

    def __post_init__(self) -> None:
        _check_positive(self.impedance, "contact impedance")

    @property
    def resistance(self) -> float:
        """Of a unit of length."""
        return self.impedance


@dataclass(frozen=True)
class ClampedPart(Condition):
    """Of a solid: both components of the displacement are given."""

    name, holds = "clamped", True


@dataclass(frozen=True)
class RollerPart(Condition):
    """Of a solid: the displacement along x or along y is given, the other component is free."""

    name, holds = "roller", True
    direction: Literal["x", "y"]

    def __post_init__(self) -> None:
        if self.direction not in ("x", "y"):
            raise GridError(
                expected="x or y, along which it cannot move", got=repr(self.direction), remedy="choose one"
            )


@dataclass(frozen=True)
class GripPart(Condition):
    """Of a solid: held by something rigid that moves under the force on it, and turns if it `rotates`."""

    name, holds = "grip", True
    rotates: bool = False


@dataclass(frozen=True, eq=False)
class Specimen:
    """A shape, and the conditions on parts of its outline; parts that are not named are insulated."""

    shape: Shape
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    def condition(self, part: str) -> Condition:
        """Of a part of the outline."""
        return self.conditions.get(part, NeumannPart())


def _check_positive(value: float, name: str) -> None:
    if not 0 < value < float("inf"):
        raise GridError(expected=f"a finite {name} > 0", got=value, remedy="state it in the units of the specimen")


def check_loads(
    loads: Mapping[str, Mapping[str, object]], allowed: Mapping[str, tuple[type[Condition], ...]],
    conditions: Mapping[str, Condition],
) -> None:  # fmt: skip
    """Raise unless every part has a condition that its loads, by kind, belong to."""
    for kind, by_part in loads.items():
        for part in by_part:
            condition = conditions.get(part)
            if not isinstance(condition, allowed[kind]):
                got = "no such part" if condition is None else f"{part!r}, a {type(condition).__name__}"
                raise PhysicsError(
                    expected=f"{kind} on a {' or '.join(one.__name__ for one in allowed[kind])}", got=got,
                    remedy="change the condition of the part, or name another",
                )  # fmt: skip
