"""Equilibrium gap of plane bodies: a matrix in every cell and, where the pairs need them, fibres, by least squares.

    Π = ∫ μ(x) ψ_μ + κ(x) ψ_κ + Σ_n k_n(x) ⟨|F n|² - 1⟩²/2 - b·u dx,   ∂Π/∂u = 0 for every pair

Nothing is assumed beyond this form: a matrix alone, a fan of fibres in eight directions, and one family of unknown
direction are fitted by least squares of the nodal forces. Taken is the one of least error of the responses.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.inverse.equilibrium_gap import EquilibriumGap
from nipde.grid import Grid
from nipde.kernels.body import BodyPredictor, LinearElasticKernel
from nipde.physics.cellwise import CellwiseBody
from nipde.physics.materials import fibre_stress, matrix_stresses
from nipde.physics.quadrilaterals import Quadrilaterals, mesh_of

#: A coefficient is drawn to that of the homogeneous body with this share of its own weight.
PULL, FAN_PULL, ROTATION_PULL = 1e-9, 1e-6, 1e-3
#: Largest rotation of a fibre in one step, radians; steps.
ROTATION, STEPS = 0.2, 6
#: A law with more coefficients must be better by this factor at least.
WORTH = 0.8
#: A matrix whose responses are off by less than this share needs no fibres.
EXPLAINED = 1e-3
#: Softest matrix, as a share of the homogeneous body's.
SOFTEST = 1e-3


@dataclass(frozen=True)
class ElasticBalance:
    """`fan` directions are tried for fibres, none if 0; `finite=False` takes strains for small: linear elasticity."""

    fan: int = 8
    finite: bool = True

    def __call__(self, pairs: Pairs) -> BodyPredictor | LinearElasticKernel:
        """The body of every system, which predicts by Newton's method; its linear kernel if strains are small."""
        bodies = [self.body(one) for one in systems_of(pairs)]
        predictor = BodyPredictor.of(bodies, like=pairs.loads.new_ones(pairs.batch))
        return predictor if self.finite else predictor.kernel

    def body(self, pairs: Pairs) -> CellwiseBody:
        """Of one system."""
        check_elastic_pairs(pairs)
        grid = pairs.grid
        loads, responses = (field.double().cpu().numpy() for field in (pairs.loads, pairs.responses))
        best = _matrix(grid, loads, responses, finite=self.finite)
        if self.fan and self.finite and best.score > EXPLAINED:
            fan = _fan(grid, loads, responses, count=self.fan)
            for other in (fan, _one_family(grid, loads, responses, start=fan)):
                best = other if other.score < WORTH * best.score else best
        return best.body


@dataclass(frozen=True, eq=False)
class Fit:
    """A body, and the error of its responses: ‖K₀⁻¹ (M b_i - ∂W/∂u(u_i))‖ / ‖u_i‖ over all pairs, to first order."""

    body: CellwiseBody
    score: float

    @classmethod
    def judged(cls, body: CellwiseBody, loads: np.ndarray, responses: np.ndarray) -> "Fit":
        """Measured on the pairs themselves: they are many more than coefficients."""
        return cls(body, float(np.linalg.norm(body.equilibrium_gap(loads, responses)) / np.linalg.norm(responses)))


def _matrix(grid: Grid, loads: np.ndarray, responses: np.ndarray, *, finite: bool) -> Fit:
    mesh = mesh_of(grid, 1, 1)
    gap = EquilibriumGap.of(
        mesh, lambda gradient: matrix_stresses(gradient, finite=finite), loads=loads, responses=responses
    )
    homogeneous = _homogeneous(gap)
    coefficients = gap.solve(np.tile(homogeneous, (_cells(mesh), 1)), pull=PULL)
    nothing = np.zeros((0, *mesh.cells))
    return Fit.judged(_body(grid, coefficients, homogeneous, angles=nothing, stiffness=nothing), loads, responses)


def _fan(grid: Grid, loads: np.ndarray, responses: np.ndarray, *, count: int) -> Fit:
    """Fibres in fixed directions."""
    mesh, directions = mesh_of(grid, 1, 1), np.arange(count) * np.pi / count

    def stresses(gradient: np.ndarray) -> np.ndarray:
        fibres = [fibre_stress(gradient, np.asarray(angle))[0] for angle in directions]
        return np.concatenate([matrix_stresses(gradient), np.stack(fibres)])

    gap = EquilibriumGap.of(mesh, stresses, loads=loads, responses=responses)
    homogeneous = _homogeneous(gap)
    coefficients = gap.solve(np.tile(homogeneous, (_cells(mesh), 1)), pull=FAN_PULL)
    angles = np.broadcast_to(directions[:, None, None], (count, *mesh.cells))
    stiffness = coefficients[:, 2:].T.reshape(count, *mesh.cells)
    return Fit.judged(_body(grid, coefficients, homogeneous, angles=angles, stiffness=stiffness), loads, responses)


def _one_family(grid: Grid, loads: np.ndarray, responses: np.ndarray, *, start: Fit) -> Fit:
    """One direction in every cell, rotated to the least equilibrium gap."""
    mesh, moment = mesh_of(grid, 1, 1), start.body.fibre_moment.reshape(-1)
    angle, stiffness = np.angle(moment) / 2, np.abs(moment)
    best: Fit | None = None
    for _ in range(STEPS):

        def stresses(gradient: np.ndarray, angle: np.ndarray = angle, stiffness: np.ndarray = stiffness) -> np.ndarray:
            stress, slope = fibre_stress(gradient, angle[:, None])
            return np.concatenate(
                [matrix_stresses(gradient), np.stack([stress, stiffness[:, None, None, None] * slope])]
            )

        gap = EquilibriumGap.of(mesh, stresses, loads=loads, responses=responses)
        homogeneous = _homogeneous(gap)
        towards = np.tile([*homogeneous[:3], 0.0], (_cells(mesh), 1))
        still = gap.solve(towards, pull=np.array([PULL, PULL, PULL, 1e6]))
        fibres = np.maximum(still[:, 2], 0).reshape(1, *mesh.cells)
        body = _body(grid, still, homogeneous, angles=angle.reshape(1, *mesh.cells), stiffness=fibres)
        fit = Fit.judged(body, loads, responses)
        if best is not None and fit.score > best.score:
            break
        best = fit
        rotated = gap.solve(towards, pull=np.array([PULL, PULL, PULL, ROTATION_PULL]))
        angle = angle + np.clip(rotated[:, 3], -ROTATION, ROTATION)
        stiffness = np.maximum(rotated[:, 2], 1e-2 * abs(homogeneous[2]))
    assert best is not None
    return best


def homogeneous_matrix(grid: Grid, loads: np.ndarray, responses: np.ndarray) -> Float[np.ndarray, " term"]:
    """μ and κ of the body that is the same everywhere."""
    return _homogeneous(EquilibriumGap.of(mesh_of(grid, 1, 1), matrix_stresses, loads=loads, responses=responses))


def _homogeneous(gap: EquilibriumGap) -> Float[np.ndarray, " term"]:
    """The homogeneous body, its matrix of positive stiffness."""
    homogeneous = gap.homogeneous()
    return np.concatenate([np.maximum(homogeneous[:2], 1e-3 * np.abs(homogeneous[:2]).max()), homogeneous[2:]])


def _body(
    grid: Grid,
    coefficients: Float[np.ndarray, "cell term"],
    homogeneous: np.ndarray,
    *,
    angles: np.ndarray,
    stiffness: np.ndarray,
) -> CellwiseBody:
    """Lifted where it is too soft to stand."""
    shear, bulk = (
        np.maximum(values, SOFTEST * least).reshape(mesh_of(grid, 1, 1).cells)
        for values, least in zip(coefficients[:, :2].T, homogeneous[:2], strict=True)
    )
    return CellwiseBody(grid, shear, bulk, angles, np.maximum(stiffness, 0.0))


def _cells(mesh: Quadrilaterals) -> int:
    return mesh.cells[0] * mesh.cells[1]


def systems_of(pairs: Pairs) -> list[Pairs]:
    """One by one."""
    flat = pairs.along_one_axis()
    return [flat.system(number) for number in range(flat.batch[0])]


def check_elastic_pairs(pairs: Pairs) -> None:
    """Raise unless pairs are full fields of a plane body with a Dirichlet boundary."""
    pairs.refuse_mask("an estimator of plane bodies")
    held = all(axis.boundary.essential for axis in pairs.grid.axes)
    if pairs.grid.dimension != 2 or pairs.components != (2, 2) or not held:
        raise PairsError(
            "no plane body with a Dirichlet boundary",
            expected="2 axes, both Dirichlet, and 2 components of force and of displacement",
            got=f"{pairs.grid.dimension} axes, components {pairs.components}, {pairs.grid}",
            remedy="use an estimator that knows no law",
        )
    if not bool(torch.isfinite(pairs.responses).all()):
        raise PairsError(expected="finite displacements", got="others", remedy="see Pairs.check_finite")
    if not (bool(pairs.loads.any()) and bool(pairs.responses.any())):
        raise PairsError(expected="loads, and displacements under them", got="zeros only", remedy="apply a load")
