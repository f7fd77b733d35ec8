"""Equilibrium gap of plane bodies: a matrix in every cell and, where the pairs need them, fibres, by least squares.

    Π = ∫ μ(x) ψ_μ + κ(x) ψ_κ + Σ_n k_n(x) ⟨|F n|² - 1⟩²/2 - b·u dx,   ∂Π/∂u = 0 for every pair

Nothing is assumed beyond this form: a matrix alone, a fan of fibres in eight directions, and one family of unknown
direction are fitted by least squares of the nodal forces. Taken is the one of least error of the responses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.estimators.inverse.equilibrium_gap import EquilibriumGap, Stresses
from nipde.kernels.body import BodyPredictor, LinearElasticKernel
from nipde.physics.bodies import CellwiseBody
from nipde.physics.materials import fibre_stress, matrix_stresses
from nipde.physics.quadrilaterals import mesh_of

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
        predictor = predictor_of(pairs, self.body)
        return predictor if self.finite else predictor.kernel

    def body(self, pairs: Pairs) -> CellwiseBody:
        """Of one system."""
        check_elastic_pairs(pairs)
        fits = _Fits(pairs)
        best = fits.matrix(finite=self.finite)
        if self.fan and self.finite and best.score > EXPLAINED:
            fan = fits.fan(self.fan)
            for other in (fan, fits.one_family(start=fan)):
                best = other if other.score < WORTH * best.score else best
        return best.body


#: The equilibrium gap of small strains.
linear_elasticity = partial(ElasticBalance, finite=False)


@dataclass(frozen=True, eq=False)
class Fit:
    """A body, and the error of its responses: ‖K₀⁻¹ (M b_i - ∂W/∂u(u_i))‖ / ‖u_i‖ over all pairs, to first order.

    It is measured on the pairs themselves: they are many more than coefficients.
    """

    body: CellwiseBody
    score: float


class _Fits:
    """Bodies of one system."""

    def __init__(self, pairs: Pairs) -> None:
        self.grid, self.mesh = pairs.grid, mesh_of(pairs.grid, 1, 1)
        self.loads, self.responses = (field.double().cpu().numpy() for field in (pairs.loads, pairs.responses))

    def matrix(self, *, finite: bool) -> Fit:
        """No fibres."""
        gap = self._gap(lambda gradient: matrix_stresses(gradient, finite=finite))
        return self._fit(gap, gap.solve(gap.homogeneous, pull=PULL), angles=np.zeros((0, 1)))

    def fan(self, count: int) -> Fit:
        """Fibres in fixed directions."""
        directions = np.arange(count) * np.pi / count

        def stresses(gradient: np.ndarray) -> np.ndarray:
            fibres = [fibre_stress(gradient, np.asarray(angle))[0] for angle in directions]
            return np.concatenate([matrix_stresses(gradient), np.stack(fibres)])

        gap = self._gap(stresses)
        return self._fit(gap, gap.solve(gap.homogeneous, pull=FAN_PULL), angles=directions[:, None])

    def one_family(self, *, start: Fit) -> Fit:
        """One direction in every cell, rotated to the least equilibrium gap."""
        moment = start.body.fibre_moment.reshape(-1)
        angle, stiffness = np.angle(moment) / 2, np.abs(moment)
        best: Fit | None = None
        for _ in range(STEPS):

            def stresses(gradient: np.ndarray, angle: np.ndarray = angle, own: np.ndarray = stiffness) -> np.ndarray:
                stress, slope = fibre_stress(gradient, angle[:, None])
                return np.concatenate([matrix_stresses(gradient), np.stack([stress, own[:, None, None, None] * slope])])

            gap = self._gap(stresses)
            towards = np.array([*gap.homogeneous[:3], 0.0])
            still = gap.solve(towards, pull=np.array([PULL, PULL, PULL, 1e6]))
            fit = self._fit(gap, still[:, :3], angles=angle[None])
            if best is not None and fit.score > best.score:
                break
            best = fit
            rotated = gap.solve(towards, pull=np.array([PULL, PULL, PULL, ROTATION_PULL]))
            angle = angle + np.clip(rotated[:, 3], -ROTATION, ROTATION)
            stiffness = np.maximum(rotated[:, 2], 1e-2 * abs(towards[2]))
        assert best is not None
        return best

    def _gap(self, stresses: Stresses) -> EquilibriumGap:
        return EquilibriumGap.of(self.mesh, stresses, loads=self.loads, responses=self.responses)

    def _fit(
        self, gap: EquilibriumGap, coefficients: Float[np.ndarray, "cell term"], *, angles: Float[np.ndarray, "fibre *"]
    ) -> Fit:
        """Lifted where it is too soft to stand."""
        least = np.zeros(coefficients.shape[1])
        least[:2] = SOFTEST * gap.homogeneous[:2]
        shear, bulk, *fibres = np.maximum(coefficients, least).T.reshape(-1, *self.mesh.cells)
        angles = np.broadcast_to(angles, (len(fibres), len(coefficients))).reshape(-1, *self.mesh.cells)
        body = CellwiseBody(self.grid, shear, bulk, angles, np.reshape(fibres, angles.shape))
        unbalanced = body.equilibrium_gap(self.loads, self.responses)
        return Fit(body, float(np.linalg.norm(unbalanced) / np.linalg.norm(self.responses)))


def predictor_of(pairs: Pairs, body: Callable[[Pairs], CellwiseBody]) -> BodyPredictor:
    """Of a batch, from the body of every system."""
    flat = pairs.along_one_axis()
    bodies = [body(flat.system(number)) for number in range(flat.batch[0])]
    return BodyPredictor.of(bodies, like=pairs.loads.new_ones(pairs.batch))


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
