"""Energy, nodal forces ∂W/∂u and tangent ∂²W/∂u² of W = ∫ ψ dx, element by element, compiled.

With H = ∇u, e = J - 1, G = F⁻ᵀ and h_a = G ∇N_a, m = F n, n_a = n·∇N_a:

    P = μ (F - G) + κ/2 (J² - 1) G + 2k₁ S exp(k₂S²) m⊗n
    K_ab = μ (∇N_a·∇N_b) I + (μ - κ/2 (J² - 1)) h_b⊗h_a + κJ² h_a⊗h_b
         + n_a n_b [4k₁ exp(k₂S²)(1 + 2k₂S²) m⊗m + 2k₁ S exp(k₂S²) I]

All is written in H, not F: nothing cancels at small strains.
"""

from collections.abc import Callable
from math import exp, expm1, inf, log1p
from typing import Any, TypeVar, cast

import numba
import numpy as np
from jaxtyping import Float, Int

from nipde.physics.materials import PointMaterial

Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    """Compiled once per machine and kept beside the source; one thread, IEEE arithmetic."""
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # nowhere to keep it: every process compiles its own
        return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


@_compiled
def add_forces(
    displacement: Float[np.ndarray, "node 2"],
    elements: Int[np.ndarray, "element local"],
    gradients: Float[np.ndarray, "point local 2"],
    weights: Float[np.ndarray, " point"],
    material: PointMaterial,
    forces: Float[np.ndarray, "node 2"],
) -> tuple[float, float]:
    """Energy and smallest J; adds the nodal forces to `forces`. Infinite energy where an element is inverted."""
    energy, smallest = 0.0, inf
    for element in range(elements.shape[0]):
        for point in range(weights.shape[0]):
            a, b, c, d = _gradient(displacement, elements[element], gradients[point])
            change = a + d + a * d - b * c
            smallest = min(smallest, change + 1)
            if not change > -1:
                return inf, smallest
            density, p00, p01, p10, p11 = _stress(a, b, c, d, change, material, element, point)
            weight = weights[point]
            energy += weight * density
            for local in range(elements.shape[1]):
                x, y = gradients[point, local, 0] * weight, gradients[point, local, 1] * weight
                node = elements[element, local]
                forces[node, 0] += p00 * x + p01 * y
                forces[node, 1] += p10 * x + p11 * y
    return energy, smallest


@_compiled
def add_tangent(
    displacement: Float[np.ndarray, "node 2"],
    elements: Int[np.ndarray, "element local"],
    gradients: Float[np.ndarray, "point local 2"],
    weights: Float[np.ndarray, " point"],
    material: PointMaterial,
    slots: Int[np.ndarray, "element entry"],
    band: Float[np.ndarray, " slot"],
) -> None:
    """Add the tangent to the flat `band`: `slots` holds the place of each entry of an element's lower blocks."""
    nodes = elements.shape[1]
    block, pushed = np.empty(2 * nodes * (nodes + 1)), np.empty((nodes, 2))
    for element in range(elements.shape[0]):
        block[:] = 0.0
        for point in range(weights.shape[0]):
            a, b, c, d = _gradient(displacement, elements[element], gradients[point])
            change = a + d + a * d - b * c
            weight, jacobian = weights[point], 1 + change
            shear, bulk = weight * material.shear[element, point], weight * material.bulk[element, point]
            crossed = shear - bulk / 2 * change * (2 + change)
            straight = bulk * jacobian * jacobian
            for local in range(nodes):
                x, y = gradients[point, local, 0], gradients[point, local, 1]
                pushed[local, 0] = ((1 + d) * x - c * y) / jacobian
                pushed[local, 1] = ((1 + a) * y - b * x) / jacobian
            entry = 0
            for first in range(nodes):
                gx, gy = gradients[point, first, 0], gradients[point, first, 1]
                hx, hy = pushed[first, 0], pushed[first, 1]
                for second in range(first + 1):
                    kx, ky = pushed[second, 0], pushed[second, 1]
                    same = shear * (gx * gradients[point, second, 0] + gy * gradients[point, second, 1])
                    block[entry] += same + (crossed + straight) * hx * kx
                    block[entry + 1] += crossed * kx * hy + straight * hx * ky
                    block[entry + 2] += crossed * ky * hx + straight * hy * kx
                    block[entry + 3] += same + (crossed + straight) * hy * ky
                    entry += 4
            for family in range(material.directions.shape[2]):
                _add_fibre(a, b, c, d, weight, gradients[point], material, element, point, family, block)
        for entry in range(block.shape[0]):
            band[slots[element, entry]] += block[entry]


@_compiled
def _gradient(displacement: np.ndarray, nodes: np.ndarray, gradients: np.ndarray) -> tuple[float, float, float, float]:
    """∇u, row by row."""
    a = b = c = d = 0.0
    for local in range(nodes.shape[0]):
        x, y = gradients[local, 0], gradients[local, 1]
        u, v = displacement[nodes[local], 0], displacement[nodes[local], 1]
        a += u * x
        b += u * y
        c += v * x
        d += v * y
    return a, b, c, d


@_compiled
def _stress(
    a: float, b: float, c: float, d: float, change: float, material: PointMaterial, element: int, point: int
) -> tuple[float, float, float, float, float]:
    """ψ and the four entries of P."""
    shear, bulk = material.shear[element, point], material.bulk[element, point]
    jacobian, logarithm = 1 + change, log1p(change)
    density = shear / 2 * (a * a + b * b + c * c + d * d + 2 * (a + d) - 2 * logarithm)
    density += bulk / 2 * (change + change * change / 2 - logarithm)
    pressure = bulk / 2 * change * (2 + change)
    # F - G = (F - cof F + e F)/J, and F - cof F has no large part.
    p00 = (shear * (a - d + change * (1 + a)) + pressure * (1 + d)) / jacobian
    p01 = (shear * (b + c + change * b) - pressure * c) / jacobian
    p10 = (shear * (b + c + change * c) - pressure * b) / jacobian
    p11 = (shear * (d - a + change * (1 + d)) + pressure * (1 + a)) / jacobian
    for family in range(material.directions.shape[2]):
        x, y = material.directions[element, point, family, 0], material.directions[element, point, family, 1]
        u, v = a * x + b * y, c * x + d * y
        stretch = 2 * (x * u + y * v) + u * u + v * v
        if stretch > 0 or material.both_signs:
            power, stiffness = material.exponent * stretch * stretch, material.stiffness[element, point, family]
            density += stiffness / (2 * material.exponent) * expm1(power)
            pull = 2 * stiffness * stretch * exp(power)
            p00 += pull * (x + u) * x
            p01 += pull * (x + u) * y
            p10 += pull * (y + v) * x
            p11 += pull * (y + v) * y
    return density, p00, p01, p10, p11


@_compiled
def _add_fibre(
    a: float, b: float, c: float, d: float, weight: float, gradients: np.ndarray,
    material: PointMaterial, element: int, point: int, family: int, block: np.ndarray,
) -> None:  # fmt: skip
    """One family's part of an element's tangent."""
    x, y = material.directions[element, point, family, 0], material.directions[element, point, family, 1]
    u, v = a * x + b * y, c * x + d * y
    stretch = 2 * (x * u + y * v) + u * u + v * v
    if not (stretch > 0 or material.both_signs):
        return
    power = material.exponent * stretch * stretch
    spread = 2 * weight * material.stiffness[element, point, family] * exp(power)
    along, same = 2 * spread * (1 + 2 * power), spread * stretch
    m, n = x + u, y + v
    entry = 0
    for first in range(gradients.shape[0]):
        mine = gradients[first, 0] * x + gradients[first, 1] * y
        for second in range(first + 1):
            both = mine * (gradients[second, 0] * x + gradients[second, 1] * y)
            block[entry] += both * (along * m * m + same)
            block[entry + 1] += both * along * m * n
            block[entry + 2] += both * along * m * n
            block[entry + 3] += both * (along * n * n + same)
            entry += 4
