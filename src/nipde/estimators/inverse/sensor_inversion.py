"""A material from sensors, on grids of the computation's own: smooth or of few phases, whichever explains them better.

1. A Matérn field is fitted: first to a tenth of the responses' size, then closer, then to the noise.
2. From it start materials of two and of three phases, interfaces as level sets.
3. The model of least n log χ² + F log n is taken: F = tr (JᵀwJ + R)⁻¹ JᵀwJ, its effective parameters.
4. Models that explain the readings as well widen the bands by how far they are from it.
5. Where χ² is still above what n readings allow, the grid of the material is made finer, once.

The error of the solver is estimated from two grids and added to the noise. Noise that is not stated is estimated from
the residuals of the smooth field, which hold both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from typing import ClassVar

import numpy as np
import scipy.linalg as dense
import torch
from jaxtyping import Float

from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.discretisation.interpolation import Interpolation, isolated
from nipde.errors import PairsError
from nipde.estimators.inverse.material_models import MaterialModel, Parameters, Phases, Smooth
from nipde.estimators.inverse.output_error import Fit, Linearised, SensorSystem, Solver, Values, fit
from nipde.estimators.inverse.sensor_posterior import SensorPosterior
from nipde.estimators.inverse.systems import check_law
from nipde.grid import Grid
from nipde.kernels.prediction_bands import OutlierTest, PredictionBands
from nipde.kernels.refined import RefinedKernel, RefinedLaw

#: Intervals per axis, geometric mean over the axes: of the material and of derivatives; of the solver at least.
MATERIAL, SOLVER = 40, 140
#: Deviations that a fit passes through before those of the data, as shares of the responses' root mean square.
STAGES = (0.1, 0.03)
#: A phase model is given up if its misfit is larger after a few steps, over the noise or this share of the responses.
HOPELESS, SHARE = 1.5, 0.01
#: No further phases are tried if the misfit over the noise is below this.
ENOUGH = 1.1
#: The error of a solver falls at least with this power of the spacing.
ORDER = 1.5
#: Refined is where χ² is so many deviations above 1, and by so much.
SIGNIFICANT, FINER = 3.0, 1.5
#: χ² may be off by so much without a cause; z-scores above the limit are outliers.
ALLOWED, LIMIT = 0.03, 4.0
LEVELS = (0.5, 0.8, 0.9, 0.95)
NORMAL = (0.674, 1.282, 1.645, 1.960)


@dataclass(frozen=True)
class SensorInversion:
    """Pairs to the kernel of Darcy's law, from any sensors; nodes that the mask hides are none.

    `phases` are the numbers of phases that are tried besides a smooth material; `material` and `solver` the intervals
    of the computation's grids.
    """

    #: Takes readings of sensors as they are.
    from_sensors: ClassVar[bool] = True
    phases: tuple[int, ...] = (2, 3)
    steps: int = 10
    material: int = MATERIAL
    solver: int = SOLVER

    def __call__(self, pairs: Pairs | SensorPairs) -> RefinedKernel:
        """The kernel of the fitted laws."""
        if isinstance(pairs, SensorPairs):
            return RefinedKernel(pairs.grid, (self.law(pairs),), torch.ones((), dtype=torch.float64))
        check_law(pairs.grid, pairs.components)
        pairs.check_finite()
        flat = replace(pairs, load_noise=None).along_one_axis()
        laws = tuple(self.law(SensorPairs.of(flat.system(number))) for number in range(flat.batch[0]))
        return RefinedKernel(pairs.grid, laws, pairs.responses.new_ones(pairs.batch))

    def law(self, pairs: SensorPairs) -> RefinedLaw:
        """Of one system."""
        check_law(pairs.grid, (1, 1))
        computation = Computation.of(pairs, material=self.material, solver=self.solver)
        smooth, computation = self._smooth(computation)
        candidates = {"smooth": smooth, **self._phases(computation, smooth)}
        name = min(candidates, key=lambda one: candidates[one].criterion)
        best, criteria = candidates[name], {one: found.criterion for one, found in candidates.items()}
        if best.excess(computation.count) > SIGNIFICANT * sqrt(2 / computation.count):
            finer = computation.refined(FINER)
            model, parameters = best.fit.model.moved(best.fit.parameters, to=finer.nodes)
            other = finer.candidate(model, parameters, steps=self.steps)
            if other.criterion < best.criterion:
                best, computation, candidates = other, finer, {name: other}
        others = [
            found.fit for one, found in candidates.items()
            if one != name and found.excess(computation.count) < SIGNIFICANT * sqrt(2 / computation.count)
        ]  # fmt: skip
        return law_of(best, computation, criteria, name, others=others)

    def _smooth(self, computation: "Computation") -> tuple["Candidate", "Computation"]:
        """A Matérn field whose deviation the data choose; and the computation with noise and interpolation chosen."""
        model: MaterialModel = Smooth(computation.nodes)
        parameters = np.full(computation.nodes.size, computation.log_constant())
        for stage in STAGES:
            coarse = stage == STAGES[0]
            roughly = computation.with_noise(np.full(computation.values.shape, stage * computation.size))
            parameters = roughly.minimised(model, parameters, steps=4, tolerance=0.02, coarse=coarse).parameters
        computation = computation.with_better_interpolation(model, parameters).with_discretisation(model, parameters)
        state = computation.minimised(model, parameters, steps=6)
        computation, parameters = computation.reconsidered(state)
        found = computation.candidate(model, parameters, steps=3)
        deviation = sqrt(2 * found.fit.penalty / max(found.effective_dof, 1.0))
        computation = computation.with_discretisation(model, found.fit.parameters, effective_dof=found.effective_dof)
        model = Smooth(computation.nodes, deviation=float(np.clip(deviation, 0.05, 3.0)))
        return computation.candidate(model, found.fit.parameters, steps=self.steps), computation

    def _phases(self, computation: "Computation", smooth: "Candidate") -> dict[str, "Candidate"]:
        """Materials of few phases that are not hopeless."""
        found = {}
        roughly = computation.with_noise(np.maximum(computation.deviation, SHARE * computation.size))
        field = smooth.fit.model.at_nodes(smooth.fit.parameters)
        for count in self.phases:
            model = Phases(computation.nodes, interfaces=count - 1)
            begun = roughly.minimised(model, model.start(field), steps=6)
            if begun.chi_square < HOPELESS:
                found[f"{count} phases"] = one = computation.candidate(model, begun.parameters, steps=self.steps)
                if min(begun.chi_square, one.fit.chi_square) < ENOUGH:
                    break
        return found


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted model, its derivatives, and its Bayesian information criterion."""

    fit: Fit
    near: Linearised
    #: JᵀwJ and R on the active parameters.
    curvature: Float[np.ndarray, "active active"]
    precision: Float[np.ndarray, "active active"]
    effective_dof: float
    criterion: float

    def excess(self, count: int) -> float:
        """log of χ² over its expectation for so many readings, 1 - F/n."""
        return log(self.fit.chi_square / max(1 - self.effective_dof / count, 0.05))


@dataclass(frozen=True, eq=False)
class Computation:
    """One system on the grids that it is computed on."""

    pairs: SensorPairs
    #: Nodes of the material.
    nodes: Grid
    coarse: Solver
    fine: Solver
    #: Standard deviation of every reading, and that of the solver's error in it.
    deviation: Values
    discretisation: Values

    @classmethod
    def of(cls, pairs: SensorPairs, *, material: int, solver: int) -> "Computation":
        """On grids with so many intervals."""
        grid = pairs.grid
        mean = float(np.prod([axis.intervals for axis in grid.axes]) ** (1 / grid.dimension))
        readings = pairs.readings.T.numpy().astype(np.float64)
        measured = np.isfinite(readings)
        if not np.any(readings[measured]):
            raise PairsError(expected="readings other than 0", got="zeros", remedy="check the readings")
        whitening = None
        if pairs.covariance is not None:
            root = np.linalg.cholesky(pairs.covariance.numpy())
            whitening = np.linalg.inv(root)
            readings = whitening @ readings
        values, loads = np.where(measured, readings, 0.0), pairs.loads[:, 0].numpy().astype(np.float64)
        system = SensorSystem(grid, loads, pairs.sensors, values, measured.astype(float), whitening)
        nodes, fine = _resampled(grid, material / mean), grid.refine(max(1, ceil(solver / mean)))
        kind: Interpolation = "points" if np.array_equal(isolated(loads, grid), loads != 0) else "spline"
        return _on(pairs, system, nodes, fine, kind, np.ones(values.shape), np.zeros(values.shape))

    @property
    def values(self) -> Values:
        """Readings, 0 where there is none."""
        return self.fine.system.values

    @property
    def measured(self) -> Values:
        """Where there is one."""
        return self.fine.system.weights > 0

    @property
    def count(self) -> int:
        """Number of readings."""
        return self.fine.system.count

    @property
    def size(self) -> float:
        """Root mean square of the readings."""
        return float(np.sqrt(np.sum(self.values**2) / self.count))

    def refined(self, factor: float) -> "Computation":
        """On a finer grid of the material."""
        grid, system = _resampled(self.nodes, factor), self.fine.system
        fine, kind = self.fine.grid, self.fine.interpolation
        return _on(self.pairs, system, grid, fine, kind, self.deviation, self.discretisation)

    def with_noise(self, deviation: Values) -> "Computation":
        """With other deviations."""
        system = replace(self.fine.system, weights=np.where(self.measured, 1 / deviation**2, 0.0))
        coarse, fine = self.coarse.with_system(system), self.fine.with_system(system)
        return replace(self, coarse=coarse, fine=fine, deviation=deviation)

    def with_better_interpolation(self, model: MaterialModel, parameters: Parameters) -> "Computation":
        """Loads by cosines instead of splines where the readings fit better with them."""
        if self.fine.interpolation == "points":
            return self
        other = self._interpolating("cosine")
        return min(self, other, key=lambda one: one.misfit(model, parameters) * (1.0 if one is other else 0.98))

    def reconsidered(self, state: Fit) -> tuple["Computation", Parameters]:
        """The other interpolation of the loads if the readings fit better with it, after a few steps of its own."""
        if self.fine.interpolation == "points":
            return self, state.parameters
        other = self._interpolating("cosine" if self.fine.interpolation == "spline" else "spline")
        moved = other.minimised(state.model, state.parameters, steps=3)
        return (other, moved.parameters) if moved.chi_square < 0.98 * state.chi_square else (self, state.parameters)

    def _interpolating(self, kind: Interpolation) -> "Computation":
        system, grid = self.fine.system, self.fine.grid
        return _on(self.pairs, system, self.nodes, grid, kind, self.deviation, self.discretisation)

    def with_discretisation(
        self, model: MaterialModel, parameters: Parameters, *, effective_dof: float = 0.0
    ) -> "Computation":
        """Deviations as stated or from the residuals, and the solver's error: from its difference to a coarser one."""
        apart = self.coarse.predicted(model, parameters) - self.fine.predicted(model, parameters)
        share = float(np.mean(np.array(self.fine.grid.spacing) / np.array(self.nodes.spacing))) ** ORDER
        usual = 1.5 * float(np.median(np.abs(apart[self.measured])))
        error = np.hypot(apart, usual) * share / (1 - share)
        if self.pairs.covariance is not None:
            deviation = np.hypot(1.0, error)
        elif self.pairs.noise is not None:
            stated = torch.as_tensor(self.pairs.noise, dtype=torch.float64).expand(self.pairs.readings.shape).T.numpy()
            deviation = np.hypot(stated, error)
        else:
            variance = self.misfit(model, parameters) / max(self.count - effective_dof, 0.1 * self.count)
            deviation = np.full(error.shape, sqrt(variance))  # the solver's error is in the residuals
        return replace(self.with_noise(np.maximum(deviation, 1e-9 * self.size)), discretisation=error)

    def log_constant(self) -> float:
        """log b of the best constant coefficient: u ≈ u₁/b."""
        unit = self.coarse.predicted(Smooth(self.nodes), np.zeros(self.nodes.size)) * self.measured
        own, across = float(np.sum(unit**2)), float(np.sum(unit * self.values))
        if not own > 0:
            raise PairsError(expected="loads that reach a sensor", got="none", remedy="check the loads")
        return log(own / across if across > 0 else sqrt(own / float(np.sum(self.values**2))))

    def misfit(self, model: MaterialModel, parameters: Parameters) -> float:
        """Sum of squared residuals."""
        return float(np.sum(np.where(self.measured, self.values - self.fine.predicted(model, parameters), 0.0) ** 2))

    def minimised(
        self, model: MaterialModel, start: Parameters, *, steps: int, tolerance: float = 1e-4, coarse: bool = False
    ) -> Fit:
        """The nearest minimum, or so many steps towards it."""
        fine = self.coarse if coarse else self.fine
        return fit(model, start, coarse=self.coarse, fine=fine, steps=steps, tolerance=tolerance)

    def candidate(self, model: MaterialModel, start: Parameters, *, steps: int) -> Candidate:
        """The minimum with its curvature."""
        state = self.minimised(model, start, steps=steps)
        near = self.coarse.linearised(model, state.parameters)
        curvature = near.curvature(self.fine.system.weights)
        precision = model.quadratic(state.parameters)[0][near.active][:, near.active].toarray()
        held = np.trace(dense.solve(curvature + precision, precision, assume_a="pos"))
        effective_dof = len(curvature) - float(held)
        criterion = self.count * log(max(state.chi_square, 1e-3)) + effective_dof * log(self.count)
        return Candidate(state, near, curvature, precision, effective_dof, criterion)


def law_of(
    best: Candidate, computation: Computation, criteria: dict[str, float], name: str, *, others: Sequence[Fit] = ()
) -> RefinedLaw:
    """With posterior and bands; `others` explain the readings, too."""
    model, parameters, solver = best.fit.model, best.fit.parameters, computation.fine
    at_points, _ = model.log_coefficient(parameters, solver.subcells.interpolation)
    usual = float(np.median(computation.discretisation[computation.measured]))
    widened = max(1.0, best.fit.chi_square) ** 0.5
    posterior = SensorPosterior(best, computation.pairs.grid, solver.interpolation, usual, widened, tuple(others))
    factors = torch.tensor([[value] * 2 for value in NORMAL], dtype=torch.float64)
    score = best.excess(computation.count) / sqrt(2 / computation.count + ALLOWED**2)
    test = OutlierTest({"misfit": torch.tensor(max(score, 0.0))}, LIMIT)
    stated = computation.pairs.noise is not None or computation.pairs.covariance is not None
    summary = {
        "model": name, "chi_square": best.fit.chi_square, "effective_dof": best.effective_dof,
        "readings": computation.count, "noise_stated": stated, "noise": float(np.median(computation.deviation)),
        "discretisation": usual,
        "interpolation": solver.interpolation, "undecided": len(others) > 0,
        "criteria": criteria, "material_nodes": list(computation.nodes.shape),
    }  # fmt: skip
    return RefinedLaw(
        computation.pairs.grid, solver.grid, solver.subcells.conductances(at_points)[0], solver.interpolation,
        lambda points: model.at(parameters, points), posterior, PredictionBands(LEVELS, factors, test),
        summary,
    )  # fmt: skip


def _on(
    pairs: SensorPairs, system: SensorSystem, nodes: Grid, fine: Grid, kind: Interpolation, deviation: Values,
    discretisation: Values,
) -> Computation:  # fmt: skip
    return Computation(
        pairs, nodes, Solver(nodes, system, nodes=nodes, per_axis=3, interpolation=kind),
        Solver(fine, system, nodes=nodes, per_axis=2, interpolation=kind), deviation, discretisation,
    )  # fmt: skip


def _resampled(grid: Grid, factor: float) -> Grid:
    """The same box with about `factor` times as many intervals."""
    return replace(grid, axes=tuple(axis.resampled(max(8, round(axis.intervals * factor))) for axis in grid.axes))
