"""Virtual fields: E and ν of a homogeneous plane solid from displacements everywhere, without a forward solution.

    a ∫ e₁(u) e₁(v) + b ∫ e₂(u) e₂(v) + e₃(u) e₃(v) = ∫ t·v,   a = E/(1 - ν), b = E/(1 + ν) in plane stress

for virtual displacements v that are 0 on supports: linear in a and b. The measured displacements are smoothed by one
polynomial. The classical method that output error is compared with.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from nipde.context.solid_tests import SolidTests
from nipde.discretisation.parts import ClampedPart, GripPart, RollerPart
from nipde.errors import PairsError
from nipde.physics.plane_elements import PlaneElements
from nipde.physics.triangles import triangulated

#: Elements along the root of the area, for integrals and virtual displacements.
ELEMENTS = 20
#: Degrees of the smoothing polynomial and of the virtual displacements.
SMOOTH, VIRTUAL = 7, 2


@dataclass(frozen=True)
class VirtualFields:
    """Tests of one homogeneous specimen to its two numbers, in plane stress."""

    degree: int = SMOOTH

    def __call__(self, tests: SolidTests) -> tuple[float, float]:
        """E and ν."""
        gripped = any(isinstance(one, GripPart) for one in tests.specimen.conditions.values())
        if not tests.has_force or tests.plane != "stress" or gripped:
            got = "a grip" if gripped else f"plane {tests.plane}" if tests.has_force else "no force"
            raise PairsError(
                expected="plane stress, known tractions and no grips", got=got, remedy="use SolidInversion"
            )
        shape = tests.specimen.shape
        elements = PlaneElements(triangulated(shape, shape.region.area**0.5 / ELEMENTS), tests.specimen)
        virtual = self._virtual(elements)
        strains = (elements.strain @ virtual).reshape(-1, 3, virtual.shape[1])
        rows, right = [], []
        for load, readings in zip(tests.loads, tests.readings, strict=True):
            measured = (elements.strain @ self._smoothed(elements, tests.points, readings)).reshape(-1, 3)
            products = np.einsum("q,qs,qsv->sv", elements.weights, measured, strains)
            rows.append(np.stack([products[0], products[1] + products[2]], axis=-1))
            right.append(virtual.T @ elements.forces(load))
        matrix, forces = np.concatenate(rows), np.concatenate(right)
        if tests.poisson is not None:
            known = matrix @ [1 / (1 - tests.poisson), 1 / (1 + tests.poisson)]
            return float(known @ forces / (known @ known)), tests.poisson
        first, second = np.linalg.lstsq(matrix, forces, rcond=None)[0]
        ratio = float((first - second) / (first + second))
        return float(second * (1 + ratio)), ratio

    def _virtual(self, elements: PlaneElements) -> Float[np.ndarray, "displacement field"]:
        """Polynomials, times the squared distance from what is held."""
        low, high = elements.nodes.min(axis=0), elements.nodes.max(axis=0)
        scaled = 2 * (elements.nodes - low) / (high - low) - 1
        cut = np.ones((len(scaled), 2))
        for part, condition in elements.specimen.conditions.items():
            held = elements.nodes[elements.nodes_of(part)]
            apart = np.linalg.norm(elements.nodes[:, None] - held[None], axis=-1).min(axis=1) / (high - low).max()
            if isinstance(condition, ClampedPart):
                cut = cut * apart[:, None]
            elif isinstance(condition, RollerPart):
                cut[:, "xy".index(condition.direction)] *= apart
        fields = []
        for i in range(VIRTUAL + 1):
            for j in range(VIRTUAL + 1 - i):
                for axis in (0, 1):
                    one = np.zeros((len(scaled), 2))
                    one[:, axis] = scaled[:, 0] ** i * scaled[:, 1] ** j * cut[:, axis]
                    fields.append(one.ravel())
        return np.stack(fields, axis=-1)

    def _smoothed(
        self, elements: PlaneElements, points: Float[np.ndarray, "point 2"], readings: Float[np.ndarray, "2 point"]
    ) -> Float[np.ndarray, " displacement"]:
        """Of all nodes, by least squares."""
        low, high = elements.nodes.min(axis=0), elements.nodes.max(axis=0)

        def basis(places: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point term"]:
            each = [np.polynomial.legendre.legvander(2 * (places[:, k] - low[k]) / (high[k] - low[k]) - 1, self.degree)
                    for k in (0, 1)]  # fmt: skip
            terms = [each[0][:, i] * each[1][:, j] for i in range(self.degree + 1) for j in range(self.degree + 1 - i)]
            return np.stack(terms, axis=-1)

        found, at = [], basis(points)
        for values in readings:
            seen = np.isfinite(values)
            found.append(basis(elements.nodes) @ np.linalg.lstsq(at[seen], values[seen], rcond=None)[0])
        return np.stack(found, axis=-1).ravel()
