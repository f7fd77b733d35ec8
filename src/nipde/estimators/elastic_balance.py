"""What a plane body is made of, from forces that must balance: a matrix in every cell and, if the pairs say so, fibres.

    Π = ∫ μ(x) ψ_μ + κ(x) ψ_κ + Σ_n k_n(x) ⟨|F n|² - 1⟩²/2 - b·u dx,   ∂Π/∂u = 0 for every pair

No law is told beyond this form: a matrix alone, a fan of fibres in eight directions, and one family whose direction is
free are fitted by least squares of the forces, and the one whose responses would be off least is kept.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.inversion.force_balance import ForceBalance
from nipde.grid import Grid
from nipde.kernels.body import BodyAtRest, BodyPredictor
from nipde.physics.cellwise import CellwiseBody
from nipde.physics.quadrilaterals import Quadrilaterals, mesh_of
from nipde.physics.unit_stresses import fibre_stress, matrix_stresses

#: Share of its own weight with which a coefficient is drawn to that of an even body: what nothing else determines.
PULL, FAN_PULL, TURN_PULL = 1e-9, 1e-6, 1e-3
#: Largest turn of a fibre in one step, radians; steps.
TURN, STEPS = 0.2, 6
#: A law with more coefficients must be better by this factor at least.
WORTH = 0.8
#: A matrix whose responses are off by less than this share needs no fibres.
EXPLAINED = 1e-3
#: Softest matrix, as a share of the even body's.
SOFTEST = 1e-3


@dataclass(frozen=True)
class ElasticBalance:
    """`fan` directions are tried for fibres, none if 0; `finite=False` takes strains for small: linear elasticity."""

    fan: int = 8
    finite: bool = True

    def __call__(self, pairs: Pairs) -> BodyPredictor | BodyAtRest:
        """The body of every system, which answers loads by Newton's method; its kernel at rest if strains are small."""
        bodies = [self.body(one) for one in systems_of(pairs)]
        found = BodyPredictor.of(bodies, like=pairs.loads.new_ones(pairs.batch))
        return found if self.finite else found.kernel

    def body(self, pairs: Pairs) -> CellwiseBody:
        """Of one system."""
        check_held(pairs)
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
    """A body, and how far its responses are off: ‖K₀⁻¹ (M b_i - ∂W/∂u(u_i))‖ / ‖u_i‖ over all pairs, to first order."""

    body: CellwiseBody
    score: float

    @classmethod
    def judged(cls, body: CellwiseBody, loads: np.ndarray, responses: np.ndarray) -> "Fit":
        """Measured on the pairs themselves: they are many more than coefficients."""
        return cls(body, float(np.linalg.norm(body.shortfall(loads, responses)) / np.linalg.norm(responses)))


def _matrix(grid: Grid, loads: np.ndarray, responses: np.ndarray, *, finite: bool) -> Fit:
    mesh = mesh_of(grid, 1, 1)
    balance = ForceBalance.of(
        mesh, lambda gradient: matrix_stresses(gradient, finite=finite), loads=loads, responses=responses
    )
    even = _even(balance)
    found = balance.solve(np.tile(even, (_cells(mesh), 1)), pull=PULL)
    nothing = np.zeros((0, *mesh.cells))
    return Fit.judged(_body(grid, found, even, angles=nothing, stiffness=nothing), loads, responses)


def _fan(grid: Grid, loads: np.ndarray, responses: np.ndarray, *, count: int) -> Fit:
    """Fibres in fixed directions."""
    mesh, directions = mesh_of(grid, 1, 1), np.arange(count) * np.pi / count

    def stresses(gradient: np.ndarray) -> np.ndarray:
        fibres = [fibre_stress(gradient, np.asarray(angle))[0] for angle in directions]
        return np.concatenate([matrix_stresses(gradient), np.stack(fibres)])

    balance = ForceBalance.of(mesh, stresses, loads=loads, responses=responses)
    even = _even(balance)
    found = balance.solve(np.tile(even, (_cells(mesh), 1)), pull=FAN_PULL)
    angles = np.broadcast_to(directions[:, None, None], (count, *mesh.cells))
    stiffness = found[:, 2:].T.reshape(count, *mesh.cells)
    return Fit.judged(_body(grid, found, even, angles=angles, stiffness=stiffness), loads, responses)


def _one_family(grid: Grid, loads: np.ndarray, responses: np.ndarray, *, start: Fit) -> Fit:
    """One direction in every cell, turned until forces balance best."""
    mesh, moment = mesh_of(grid, 1, 1), start.body.fibre_moment.reshape(-1)
    angle, stiffness = np.angle(moment) / 2, np.abs(moment)
    best: Fit | None = None
    for _ in range(STEPS):

        def stresses(gradient: np.ndarray, angle: np.ndarray = angle, stiffness: np.ndarray = stiffness) -> np.ndarray:
            stress, slope = fibre_stress(gradient, angle[:, None])
            return np.concatenate(
                [matrix_stresses(gradient), np.stack([stress, stiffness[:, None, None, None] * slope])]
            )

        balance = ForceBalance.of(mesh, stresses, loads=loads, responses=responses)
        even = _even(balance)
        towards = np.tile([*even[:3], 0.0], (_cells(mesh), 1))
        still = balance.solve(towards, pull=np.array([PULL, PULL, PULL, 1e6]))
        fibres = np.maximum(still[:, 2], 0).reshape(1, *mesh.cells)
        body = _body(grid, still, even, angles=angle.reshape(1, *mesh.cells), stiffness=fibres)
        fit = Fit.judged(body, loads, responses)
        if best is not None and fit.score > best.score:
            break
        best = fit
        turned = balance.solve(towards, pull=np.array([PULL, PULL, PULL, TURN_PULL]))
        angle = angle + np.clip(turned[:, 3], -TURN, TURN)
        stiffness = np.maximum(turned[:, 2], 1e-2 * abs(even[2]))
    assert best is not None
    return best


def even_matrix(grid: Grid, loads: np.ndarray, responses: np.ndarray) -> Float[np.ndarray, " term"]:
    """μ and κ of the body that is the same everywhere."""
    return _even(ForceBalance.of(mesh_of(grid, 1, 1), matrix_stresses, loads=loads, responses=responses))


def _even(balance: ForceBalance) -> Float[np.ndarray, " term"]:
    """The even body, its matrix stiffer than nothing."""
    even = balance.even()
    return np.concatenate([np.maximum(even[:2], 1e-3 * np.abs(even[:2]).max()), even[2:]])


def _body(
    grid: Grid, found: Float[np.ndarray, "cell term"], even: np.ndarray, *, angles: np.ndarray, stiffness: np.ndarray
) -> CellwiseBody:
    """Lifted where it is too soft to stand."""
    shear, bulk = (
        np.maximum(values, SOFTEST * least).reshape(mesh_of(grid, 1, 1).cells)
        for values, least in zip(found[:, :2].T, even[:2], strict=True)
    )
    return CellwiseBody(grid, shear, bulk, angles, np.maximum(stiffness, 0.0))


def _cells(mesh: Quadrilaterals) -> int:
    return mesh.cells[0] * mesh.cells[1]


def systems_of(pairs: Pairs) -> list[Pairs]:
    """One by one."""
    flat = pairs.along_one_axis()
    return [flat.system(number) for number in range(flat.batch[0])]


def check_held(pairs: Pairs) -> None:
    """Raise unless pairs are those of a plane body held on all sides, wholly measured."""
    pairs.refuse_mask("an estimator of plane bodies")
    held = all(axis.boundary.clamped for axis in pairs.grid.axes)
    if pairs.grid.dimension != 2 or pairs.components != (2, 2) or not held:
        raise PairsError(
            "no plane body held on all sides",
            expected="2 axes, both Dirichlet, and 2 components of force and of displacement",
            got=f"{pairs.grid.dimension} axes, components {pairs.components}, {pairs.grid}",
            remedy="use an estimator that knows no law",
        )
    if not bool(torch.isfinite(pairs.responses).all()):
        raise PairsError(expected="finite displacements", got="others", remedy="see Pairs.check_finite")
    if not (bool(pairs.loads.any()) and bool(pairs.responses.any())):
        raise PairsError(expected="loads, and displacements under them", got="zeros only", remedy="apply a load")
