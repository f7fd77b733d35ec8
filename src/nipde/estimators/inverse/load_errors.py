"""What loads and supports of a solid may be beside what is said of them: uneven tractions, supports that slip."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from nipde.context.solid_tests import SolidTests
from nipde.discretisation.parts import ClampedPart, RollerPart
from nipde.discretisation.solid_load import SolidLoad, VectorFunction, vectors_at
from nipde.physics.plane_elements import Supported
from nipde.shape import Shape

#: Deviation of tractions along their part, as a share of them, and of supports, as a share of the readings.
UNEVEN = 0.1


@dataclass(frozen=True)
class LoadError:
    """A load of deviation 1 that may have acted in a test, unknown."""

    test: int
    load: SolidLoad


def load_errors(tests: SolidTests, supported: Supported) -> list[LoadError]:
    """What tractions and supports may be beside what is said of them: Legendre polynomials along their parts."""
    found = []
    for number, load in enumerate(tests.loads):
        cases = _uneven(tests, load) if "traction" in tests.uncertain else []
        cases += _slipped(tests) if "support" in tests.uncertain else []
        found += [LoadError(number, case) for case in cases if supported.balanced(case)]
    return found


def _uneven(tests: SolidTests, load: SolidLoad) -> list[SolidLoad]:
    """Tractions along every part, and the same on all parts together: those may balance each other."""
    cases, together = [], [dict[str, VectorFunction](), dict[str, VectorFunction]()]
    for part, traction in load.tractions.items():
        along = _Along(tests.specimen.shape, part)
        strength = float(np.sqrt(np.mean(vectors_at(traction, along.points) ** 2) * 2))
        cases += [SolidLoad(tractions={part: _times(mode, UNEVEN * strength)}) for mode in along.modes(2, first=1)]
        for degree in (1, 2):
            together[degree - 1][part] = along.varied(traction, degree, UNEVEN)
    return [*cases, *(SolidLoad(tractions=each) for each in together if len(each) > 1)]


def _slipped(tests: SolidTests) -> list[SolidLoad]:
    size = UNEVEN * float(np.sqrt(np.nanmean(tests.readings**2)))
    held = [part for part, one in tests.specimen.conditions.items() if isinstance(one, ClampedPart | RollerPart)]
    return [
        SolidLoad(displacements={part: _times(mode, size)})
        for part in held for mode in _Along(tests.specimen.shape, part).modes(2, first=0)
    ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Along:
    """A part of the outline, from one of its ends to the other."""

    shape: Shape
    part: str

    @cached_property
    def points(self) -> Float[np.ndarray, "point 2"]:
        """Corners of the part."""
        return np.concatenate([
            ring[[k, (k + 1) % len(ring)]]
            for ring, sides in zip(self.shape.rings, self.shape.sides, strict=True)
            for k, side in enumerate(sides) if side == self.part
        ])  # fmt: skip

    def position(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """From -1 to 1 along its longest direction, which points to the right or upwards."""
        middle = self.points.mean(axis=0)
        direction = np.linalg.svd(self.points - middle)[2][0]
        direction = direction * np.sign(direction[np.abs(direction).argmax()])
        ends = (self.points - middle) @ direction
        places = (np.stack([x, y], axis=-1) - middle) @ direction
        return np.asarray(2 * (places - ends.min()) / max(np.ptp(ends), 1e-300) - 1)

    def modes(self, highest: int, *, first: int) -> list[VectorFunction]:
        """Legendre polynomials of the position, in x and in y."""

        def mode(degree: int, component: int) -> VectorFunction:
            unit = np.eye(2)[component]
            return lambda x, y: np.polynomial.Legendre.basis(degree)(self.position(x, y))[:, None] * unit

        return [mode(degree, component) for degree in range(first, highest + 1) for component in (0, 1)]

    def varied(self, traction: Any, degree: int, share: float) -> VectorFunction:
        """A traction times a polynomial of the position."""

        def at(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            sizes = share * np.polynomial.Legendre.basis(degree)(self.position(x, y))
            return vectors_at(traction, np.stack([x, y], axis=-1)) * sizes[:, None]

        return at


def _times(mode: VectorFunction, factor: float) -> VectorFunction:
    return lambda x, y: factor * mode(x, y)
