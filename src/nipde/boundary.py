"""What a field does at the two ends of an axis."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Boundary(ABC):
    """One kind of boundary, the same at both ends of an axis."""

    name: ClassVar[str]
    #: The last node's right neighbour is the first node.
    periodic: ClassVar[bool] = False
    #: The end nodes carry the value 0 and are not unknowns.
    essential: ClassVar[bool] = False


@dataclass(frozen=True)
class Dirichlet(Boundary):
    """u = 0 at both ends."""

    name = "dirichlet"
    essential = True


@dataclass(frozen=True)
class Neumann(Boundary):
    """∂u/∂n = 0 at both ends."""

    name = "neumann"


@dataclass(frozen=True)
class Periodic(Boundary):
    """u(0) = u(length); the end node is not stored twice."""

    name = "periodic"
    periodic = True


BOUNDARIES: dict[str, Boundary] = {kind.name: kind for kind in (Dirichlet(), Neumann(), Periodic())}
