"""A cylindrical core heated at its rim: temperatures by trilinear elements of scikit-fem, on a mesh that follows it.

The lower end is held at 0, all else is insulated but for a heater of Gaussian profile. Materials are an inclined layer,
a ball, or a smooth one; where and how much are drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from nipde.errors import needing

#: In metres: radius, height, and the corner of the box around it.
RADIUS, HEIGHT, CENTRE, LOW = 0.04, 0.12, 0.05, 0.01
#: Elements across and along the core.
ELEMENTS = (40, 56)
#: Width of a heater, and its flux.
WIDTH, FLUX = 0.02, 2e4
#: Points per axis of an element where the conductivity is sampled.
SAMPLES = 6
Field = Callable[..., np.ndarray]
KINDS = ("layer", "ball", "smooth")


@dataclass(frozen=True)
class Heater:
    """Flux into the rim around an angle and a height above the lower end."""

    angle: float
    height: float

    def __call__(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """At places on the rim."""
        apart = (np.arctan2(y - CENTRE, x - CENTRE) - self.angle + np.pi) % (2 * np.pi) - np.pi
        squares = (RADIUS * apart) ** 2 + (z - LOW - self.height) ** 2
        return np.asarray(FLUX * np.exp(-squares / (2 * WIDTH**2)))


def material(kind: str, rng: Generator) -> Field:
    """Conductivity by place."""
    low, contrast = rng.uniform(1.5, 4.0), rng.uniform(2.0, 5.0)
    slope, height = rng.uniform(-0.5, 0.5, 2), rng.uniform(0.04, 0.08)
    centre, size = rng.uniform(-0.012, 0.012, 2), rng.uniform(0.018, 0.026)
    waves, phase = rng.uniform(-50, 50, (2, 3)), rng.uniform(0, 2 * np.pi, 2)

    def layer(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        above = z - LOW + slope[0] * (x - CENTRE) + slope[1] * (y - CENTRE) > height
        return np.where(above, contrast * low, low)

    def ball(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        squares = (x - CENTRE - centre[0]) ** 2 + (y - CENTRE - centre[1]) ** 2 + (z - LOW - height) ** 2
        return np.where(squares < size**2, contrast * low, low)

    def smooth(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        sines = [np.sin(a * (x - CENTRE) + b * (y - CENTRE) + c * (z - LOW) + p) for (a, b, c), p in
                 zip(waves.tolist(), phase.tolist(), strict=True)]  # fmt: skip
        return np.asarray(2 * low * np.exp(0.25 * np.log(contrast) * (sines[0] + sines[1])))

    return {"layer": layer, "ball": ball, "smooth": smooth}[kind]


def temperatures(
    conductivity: Field, heaters: list[Heater], points: Float[np.ndarray, "point 3"],
    elements: tuple[int, int] = ELEMENTS,
) -> Float[np.ndarray, "heater point"]:  # fmt: skip
    """At points, with one heater at a time."""
    with needing("pyamg", extra="data"):
        import pyamg
    import skfem
    from skfem.helpers import dot, grad, mul

    across, along = elements
    sides = np.linspace(-1, 1, across + 1)
    square = skfem.MeshHex.init_tensor(sides, sides, np.linspace(0, 1, along + 1))
    x, y, z = square.p
    disc = CENTRE + RADIUS * np.stack([x * np.sqrt(1 - y**2 / 2), y * np.sqrt(1 - x**2 / 2)])
    mesh = skfem.MeshHex(np.stack([*disc, LOW + HEIGHT * z]), square.t)
    basis = skfem.Basis(mesh, skfem.ElementHex1(), intorder=5)
    tensor = _homogenised(conductivity, mesh)[..., None]
    stiffness = skfem.BilinearForm(lambda u, v, w: dot(mul(tensor, grad(u)), grad(v))).assemble(basis)
    outer = square.facets_satisfying(lambda at: np.maximum(np.abs(at[0]), np.abs(at[1])) > 1 - 1e-9, True)
    rim = skfem.FacetBasis(mesh, skfem.ElementHex1(), facets=outer, intorder=5)
    free = np.setdiff1d(np.arange(basis.N), np.flatnonzero(np.isclose(z, 0)))
    solver = pyamg.ruge_stuben_solver(stiffness[free][:, free].tocsr())
    found, probes = np.zeros((len(heaters), basis.N)), basis.probes(points.T)
    for one, heater in zip(found, heaters, strict=True):
        flows = skfem.LinearForm(lambda v, w, heater=heater: heater(*w.x) * v).assemble(rim)
        one[free] = solver.solve(flows[free], tol=1e-10, accel="cg")
    return np.asarray((probes @ found.T).T)


def _homogenised(conductivity: Field, mesh: Any) -> Float[np.ndarray, "3 3 element"]:
    """Of every element: the harmonic mean along the normal of an interface, the arithmetic one in its plane."""
    middles = (np.arange(SAMPLES) + 0.5) / SAMPLES
    places = mesh.mapping().F(np.stack(np.meshgrid(middles, middles, middles)).reshape(3, -1))
    values = conductivity(*places)
    arithmetic, harmonic = values.mean(-1), 1 / (1 / values).mean(-1)
    apart = places - places.mean(-1, keepdims=True)
    moments = np.einsum("iep,jep->eij", apart, apart)
    rise = np.einsum("iep,ep->ei", apart, values - arithmetic[:, None])
    normal = np.linalg.solve(moments, rise[..., None])[..., 0]
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    along_normal = np.einsum("ei,ej->ije", normal, normal)
    return np.asarray(arithmetic * np.eye(3)[..., None] + (harmonic - arithmetic) * along_normal)


def points_inside(rng: Generator, count: int, *, rim: float = 1.0) -> Float[np.ndarray, "point 3"]:
    """Drawn evenly, up to this share of radius and height."""
    angle, away = 2 * np.pi * rng.random(count), rim * RADIUS * np.sqrt(rng.random(count))
    height = LOW + HEIGHT * (0.5 + rim * (rng.random(count) - 0.5))
    return np.stack([CENTRE + away * np.cos(angle), CENTRE + away * np.sin(angle), height], axis=-1)
