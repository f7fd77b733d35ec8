"""The loads of one test on a plane solid: what acts on parts of its outline, and a force per area."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from nipde.discretisation.parts import ClampedPart, Condition, GripPart, NeumannPart, RollerPart, check_loads
from nipde.errors import PhysicsError

Vector = tuple[float, float]
#: Of x and y, one row per point.
VectorFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SolidLoad:
    """Loads of one test, by part: numbers (x, y), or a function of x and y with one row per point.

    `tractions`, forces per length of a part and per thickness, on free parts; `forces`, the resultant on a grip, per
    thickness; `displacements` of clamped parts and rollers; `body`, a force per area and thickness. What is not named
    is 0.
    """

    tractions: Mapping[str, Vector | VectorFunction] = field(default_factory=dict)
    forces: Mapping[str, Vector] = field(default_factory=dict)
    displacements: Mapping[str, Vector | VectorFunction] = field(default_factory=dict)
    body: Vector | VectorFunction | None = None

    def check(self, conditions: Mapping[str, Condition]) -> None:
        """Raise unless every part has the condition that its load belongs to."""
        allowed = {"tractions": (NeumannPart,), "forces": (GripPart,), "displacements": (ClampedPart, RollerPart)}
        check_loads({kind: getattr(self, kind) for kind in allowed}, allowed, conditions)

    def scaled(self, factor: float) -> "SolidLoad":
        """All of it times a factor."""

        def times(each: Mapping[str, Any]) -> dict[str, Any]:
            return {part: _scaled(value, factor) for part, value in each.items()}

        body = None if self.body is None else _scaled(self.body, factor)
        return SolidLoad(times(self.tractions), times(self.forces), times(self.displacements), body)

    @property
    def has_force(self) -> bool:
        """Whether anything but displacements acts: without it a modulus is known up to a factor."""
        return bool(self.tractions or self.forces or self.body is not None)


def _scaled(value: Any, factor: float) -> Any:
    if callable(value):
        return lambda x, y: factor * np.asarray(value(x, y))
    return (factor * value[0], factor * value[1])


def vectors_at(value: Vector | VectorFunction, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 2"]:
    """Of a pair of numbers, or of a function of x and y."""
    values = np.asarray(value(points[:, 0], points[:, 1]) if callable(value) else value, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        raise PhysicsError(expected="finite loads", got="others", remedy="check the numbers or the function")
    try:
        return np.broadcast_to(values, (len(points), 2))
    except ValueError:
        raise PhysicsError(
            expected="two components, one row per point", got=f"an array {values.shape}", remedy="stack x and y last"
        ) from None
