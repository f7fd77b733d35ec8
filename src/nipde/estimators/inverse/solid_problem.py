"""Output error for plane solids: E(x) from displacements at points, by the machinery of sensors.

    A = Bᵀ diag(c) B,   c = weight · E · factor(ν)

What is unknown beside the material is linearised and integrated out: rigid motions of the camera, and ν, around which
the problem is linearised anew as it is found. Equal tension in two directions tells E / (1 - ν) and little of either.
Along such a valley a linearisation leads astray, so that meanwhile E follows ν: displacements keep their size. Tests
that leave ν open are fitted with the one that is expected.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import log
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float
from scipy.sparse.linalg import SuperLU

from nipde.context.solid_tests import UNKNOWN_POISSON, SolidTests
from nipde.discretisation.interpolation import Interpolation, multilinear
from nipde.discretisation.solid_load import SolidLoad
from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.inverse_problem import USUAL_POINTS, InverseProblem, resampled
from nipde.estimators.inverse.linearised_readings import Solver
from nipde.estimators.inverse.load_errors import LoadError, load_errors
from nipde.estimators.inverse.material_grid import material_grid
from nipde.estimators.inverse.material_models import Homogeneous, MaterialModel, Parameters
from nipde.estimators.inverse.nuisance import LinearErrors, NuisanceKind
from nipde.estimators.inverse.readings import Readings, Values
from nipde.grid import Grid
from nipde.physics.plane_elements import PlaneElements, rigid_motions, stiffness_factors
from nipde.physics.triangles import smaller_at_singular_points, triangulated

#: Triangles of derivatives are larger than cells of the material by this.
COARSER = 2.2
#: Backward step of ν for its derivative, and bounds of its estimate.
STEP, LEAST, MOST = 0.01, -0.5, 0.499
#: ν moves by this at most until it is linearised anew, which ends after so many times or a change below the last.
LONGEST, ROUNDS, SETTLED = 0.1, 10, 1e-4
#: Prior deviation of rigid motions, in units of the readings.
FREE = 100.0
#: They tell ν apart from E if this share of its effect is not one of E. In trials it was below 0.1 under equal tension
#: in two directions, which errors of the material's model outweigh, and above 0.5 in all other tests.
APART = 0.2
#: Displacements tell E if their squares change by this with it, in units of themselves.
TOLD = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class SolidSystem(Readings):
    """Displacements at points: x of all points, then y."""

    tests: SolidTests


@lru_cache(maxsize=8)
def _elements(tests: SolidTests, spacing: float) -> PlaneElements:
    mesh, _ = smaller_at_singular_points(triangulated(tests.specimen.shape, spacing), tests.specimen)
    return PlaneElements(mesh, tests.specimen)


class SolidSolver(Solver):
    """Of one mesh; E is interpolated from nodes on the box around the specimen."""

    explicit: ClassVar[bool] = True

    def __init__(self, grid: Grid, system: SolidSystem, *, nodes: Grid, poisson: float) -> None:
        tests = system.tests
        self.grid, self.system, self.poisson = grid, system, poisson
        #: log E is larger by this than that of a model.
        self.raised = 0.0
        self.elements = _elements(tests, float(np.prod(grid.spacing) ** 0.5))
        self.supported = self.elements.supported
        at = self.elements.at(tests.points)
        if system.whitening is not None:
            at = sparse.csr_array(system.whitening @ at)
        self.at, self.difference = at, self.supported.strain
        self.sensors = sparse.csr_array(at @ self.supported.reduced)
        self.forces, self.outline = self.supported.forces(tests.loads), self.supported.given(tests.loads)
        self.given = 0.0 if self.outline is None else -(self.elements.strain @ self.outline)
        self.offset = 0.0 if self.outline is None else at @ self.outline
        ends = [axis.length for axis in nodes.axes]
        self.interpolation = multilinear(nodes, np.clip(self.elements.points - tests.origin, 0, ends))

    def with_poisson(self, poisson: float, *, raised: float = 0.0) -> Self:
        """With another ratio, log E `raised` above that of models."""
        other = copy(self)
        other.poisson, other.raised = poisson, raised
        return other

    def conductances(self, model: MaterialModel, parameters: Parameters) -> Float[np.ndarray, " row"]:
        """Three of every point."""
        log_modulus, _ = model.log_coefficient(parameters, self.interpolation)
        return self._scaled(log_modulus)

    def slopes(self, model: MaterialModel, parameters: Parameters) -> tuple[np.ndarray, sparse.csr_array]:
        """c is its own derivative by log E."""
        log_modulus, by_parameters = model.log_coefficient(parameters, self.interpolation)
        conductances = self._scaled(log_modulus)
        rows = by_parameters[np.repeat(np.arange(len(log_modulus)), 3)]
        return conductances, sparse.csr_array(sparse.diags_array(conductances) @ rows)

    def factor(self, conductances: Float[np.ndarray, " row"]) -> SuperLU:
        """By minimum degree."""
        return self.supported.factor(conductances)

    def inflow(self, conductances: Float[np.ndarray, " row"]) -> Float[np.ndarray, "unknown pair"]:
        """Forces, and what given displacements bring."""
        if self.outline is None:
            return self.forces
        return np.asarray(self.forces + self.difference.T @ (conductances[:, None] * self.given))

    def answers(
        self, loads: Sequence[SolidLoad], model: MaterialModel, parameters: Parameters
    ) -> Float[np.ndarray, "sensor load"]:
        """Readings of other loads."""
        conductances, given = self.conductances(model, parameters), self.supported.given(loads)
        right = self.supported.forces(loads)
        if given is not None:
            right = right - self.difference.T @ (conductances[:, None] * (self.elements.strain @ given))
        answers = self.sensors @ self.factor(conductances).solve(right)
        return answers if given is None else answers + self.at @ given

    def _scaled(self, log_modulus: Float[np.ndarray, " point"]) -> Float[np.ndarray, " row"]:
        factors = stiffness_factors(self.poisson, plane=self.system.tests.plane)
        return ((self.elements.weights * np.exp(log_modulus + self.raised))[:, None] * factors).ravel()


@dataclass(frozen=True, eq=False)
class SolidProblem(InverseProblem):
    """One specimen on its meshes."""

    #: Where ν is unknown: E follows it; or the curvature has what both have in common; or it is as it is expected.
    ratio: Literal["followed", "free", "expected"] = "followed"

    @classmethod
    def of_tests(cls, tests: SolidTests, *, material: int, solver: int) -> Self:
        """With so many intervals across the specimen: of the material's nodes, of the mesh of residuals."""
        grids = [material_grid(tests.specimen.shape, count) for count in (material, solver)]
        system = _system(tests)
        solvers = cls.solvers(system, grids[0], grids[1], "spline", USUAL_POINTS)
        shape = system.values.shape
        outliers: tuple[NuisanceKind, ...] = ("outliers",) if "outliers" in tests.uncertain else ()
        return cls(tests, grids[0], *solvers, np.ones(shape), np.zeros(shape), outliers)  # type: ignore[arg-type]

    @staticmethod
    def solvers(
        system: Any, nodes: Grid, fine: Grid, interpolation: Interpolation, points: int
    ) -> tuple[Solver, Solver]:
        """Of derivatives and of residuals."""
        poisson = UNKNOWN_POISSON[0] if system.tests.poisson is None else system.tests.poisson
        coarse = resampled(nodes, 1 / COARSER)
        return tuple(SolidSolver(grid, system, nodes=nodes, poisson=poisson) for grid in (coarse, fine))  # type: ignore[return-value]

    @property
    def tests(self) -> SolidTests:
        """What was measured."""
        found: Any = self.pairs
        return found

    @property
    def poisson(self) -> float:
        """As it is known, or as it was found."""
        assert isinstance(self.fine, SolidSolver)
        return self.fine.poisson

    @property
    def interpolation_is_known(self) -> bool:
        """Loads are given as they are."""
        return True

    @property
    def places(self) -> Float[np.ndarray, "sensor axis"]:
        """Of the points; far apart for the two components."""
        points = self.tests.points
        return np.concatenate([points, points + 10 * np.ptp(points, axis=0)])

    @property
    def stated(self) -> Values | None:
        """Deviations of the readings."""
        tests = self.tests
        if tests.noise is None:
            return None
        noise = np.broadcast_to(np.asarray(tests.noise, dtype=np.float64), tests.readings.shape)
        return noise.reshape(len(noise), -1).T

    @property
    def raised(self) -> float:
        """By which log E is larger than that of a model."""
        assert isinstance(self.fine, SolidSolver)
        return self.fine.raised

    def with_poisson(self, poisson: float, *, raised: float = 0.0) -> Self:
        """With another ratio, log E `raised` above that of models."""
        assert isinstance(self.coarse, SolidSolver)
        assert isinstance(self.fine, SolidSolver)
        coarse, fine = (one.with_poisson(poisson, raised=raised) for one in (self.coarse, self.fine))
        return replace(self, coarse=coarse, fine=fine)

    @property
    def too_coarse(self) -> bool:
        """Bands of solids are calibrated on the grids as they are."""
        return False

    def _on(self, nodes: Grid, interpolation: Interpolation, *, solver: int = 1) -> Self:
        return super()._on(nodes, interpolation, solver=solver).with_poisson(self.poisson)

    def candidate(self, model: MaterialModel, start: Parameters, *, steps: int) -> Candidate:
        """The minimum with its curvature; its model has all of E."""
        found = super().candidate(model, start, steps=steps)
        fit = replace(found.fit, parameters=model.raised(found.fit.parameters, self.raised))
        return replace(found, problem=self.with_poisson(self.poisson), fit=fit)

    def with_errors_beside(
        self, model: MaterialModel, parameters: Parameters, *, effective_dof: float = 0.0
    ) -> "SolidProblem":
        """With ν as its prior and the residuals have it."""
        problem = self.with_poisson(self.poisson)
        if not self.finds_ratio:
            return InverseProblem.with_errors_beside(problem, model, parameters, effective_dof=effective_dof)  # type: ignore[return-value]
        problem, (expected, deviation) = problem._with_values(_system(self.tests).values), UNKNOWN_POISSON
        for _ in range(ROUNDS):
            predicted = problem.fine.predicted(model, parameters)
            patterns, by_ratio = problem._errors(model, parameters, predicted)
            assert patterns is not None
            weights, before = problem.fine.system.weights, problem.poisson
            forms = patterns.columns.T @ (weights * (problem.values - predicted)).ravel()
            forms[-1] += (expected - before) / deviation**2
            change = float(np.clip((patterns.covariance(weights) @ forms)[-1], -LONGEST, LONGEST))
            poisson = float(np.clip(before + change, LEAST, MOST))
            problem = problem.with_poisson(poisson, raised=problem.raised + by_ratio * (poisson - before))
            if abs(poisson - before) < SETTLED:
                break
        found = InverseProblem.with_errors_beside(problem, model, parameters, effective_dof=effective_dof)
        assert isinstance(found, SolidProblem)
        assert isinstance(found.fine.system.nuisance, LinearErrors)
        # Sizes of patterns are expected to be 0: readings are what they were if ν were as it is expected.
        return found._with_values(found.values - (expected - found.poisson) * found.fine.system.nuisance.patterns[-1])

    @property
    def finds_ratio(self) -> bool:
        """Whether ν is unknown and found."""
        return self.tests.poisson is None and self.ratio != "expected"

    def tells_ratio(self, model: MaterialModel, parameters: Parameters) -> bool:
        """Whether ν changes the displacements otherwise than another E would."""
        by_ratio, by_level = self._slopes(model, parameters, self.fine.predicted(model, parameters))
        apart = by_ratio + self._balance(by_ratio, by_level) * by_level
        size, rest = (float(np.sum((self.distinct(values) * self.measured) ** 2)) for values in (by_ratio, apart))
        return rest > APART**2 * size

    def with_expected_ratio(self, *, more: float = 0.0) -> "SolidProblem":
        """ν as it is expected, or by so many of its deviations larger."""
        poisson, deviation = UNKNOWN_POISSON
        problem = replace(self, ratio="expected")._with_values(_system(self.tests).values)
        return problem.with_poisson(poisson + more * deviation)

    def _with_values(self, values: Values) -> Self:
        return self._with_system(replace(self.fine.system, values=values))

    def patterns(self, model: MaterialModel, parameters: Parameters, predicted: Values) -> LinearErrors | None:
        """Of rigid motions, of tractions and supports, and of ν, which is the last."""
        return self._errors(model, parameters, predicted)[0]

    def _errors(
        self, model: MaterialModel, parameters: Parameters, predicted: Values
    ) -> tuple[LinearErrors | None, float]:
        """And the derivative by ν of log E, if it follows."""
        assert isinstance(self.fine, SolidSolver)
        known, by_ratio = rigid_errors(self.fine.system), 0.0
        found = [] if known is None else [(known.patterns, known.deviations)]
        if errors := self.load_errors:
            answers = self.fine.answers([one.load for one in errors], model, parameters)
            columns = np.zeros((len(errors), *predicted.shape))
            for number, one in enumerate(errors):
                columns[number, :, one.test] = answers[:, number]
            found.append((columns, np.ones(len(errors))))
        if self.finds_ratio:
            column, of_level = self._slopes(model, parameters, predicted)
            if self.ratio == "followed":
                by_ratio = self._balance(column, of_level)
                column = column + by_ratio * of_level
            found.append((column[None], np.array([UNKNOWN_POISSON[1]])))
        errors_beside = LinearErrors(*(np.concatenate(each) for each in zip(*found, strict=True))) if found else None
        return errors_beside, by_ratio

    @cached_property
    def load_errors(self) -> list[LoadError]:
        """Of tractions and supports."""
        assert isinstance(self.fine, SolidSolver)
        return load_errors(self.tests, self.fine.supported)

    def _slopes(self, model: MaterialModel, parameters: Parameters, predicted: Values) -> tuple[Values, Values]:
        """Of the readings, by ν and by log E; without given displacements they fall as E rises."""
        assert isinstance(self.fine, SolidSolver)
        other = self.fine.with_poisson(self.poisson - STEP, raised=self.raised)
        by_ratio = (predicted - other.predicted(model, parameters)) / STEP
        if not self.outline_given:
            return by_ratio, -predicted
        softer = self.fine.with_poisson(self.poisson, raised=self.raised - STEP)
        return by_ratio, (predicted - softer.predicted(model, parameters)) / STEP

    def _balance(self, by_ratio: Values, by_level: Values) -> float:
        """What log E changes by with ν for displacements of the same size; 0 where they do not tell it."""
        ratio, level = (self.distinct(values) * self.measured for values in (by_ratio, by_level))
        own = float(np.sum(level**2))
        return -float(np.sum(ratio * level)) / own if own > TOLD * float(np.sum(self.values**2)) else 0.0

    def log_constant(self) -> float:
        """log E of the best constant, rigid motions aside."""
        model = Homogeneous(self.nodes)
        unit, half = (self.coarse.predicted(model, np.array([size])) * self.measured for size in (0.0, log(2)))
        fixed, unit = (2 * half - unit, 2 * (unit - half)) if self.outline_given else (0.0, unit)
        unit, shown = (self.distinct(values) for values in (unit, self.values - fixed))
        own, across = float(np.sum(unit**2)), float(np.sum(unit * shown))
        if not own > 1e-12 * float(np.sum(shown**2)):
            return 0.0
        return log(own / across) if across > 0 else log(own / float(np.sum(shown**2))) / 2

    def distinct(self, difference: Values) -> Values:
        """All but rigid motions, where the camera may have moved."""
        values = difference
        known = rigid_errors(self.fine.system)
        if known is None:
            return values
        columns = known.columns * (self.measured.ravel()[:, None])
        return values - (columns @ np.linalg.lstsq(columns, values.ravel(), rcond=None)[0]).reshape(values.shape)


def _system(tests: SolidTests) -> SolidSystem:
    values = tests.readings.reshape(tests.count, -1).T
    measured, whitening = np.isfinite(values), None
    values = np.where(measured, values, 0.0)
    if tests.covariance is not None:
        whitening = np.kron(np.eye(2), np.linalg.inv(np.linalg.cholesky(tests.covariance)))
        values = whitening @ values
    system = SolidSystem(values=values, weights=measured.astype(float), whitening=whitening, tests=tests)
    motion = rigid_errors(system)
    if motion is None:
        return system
    columns = motion.columns * measured.ravel()[:, None]
    values = values - (columns @ np.linalg.lstsq(columns, values.ravel(), rcond=None)[0]).reshape(values.shape)
    return replace(system, values=values, nuisance=motion)


def rigid_errors(system: Any) -> LinearErrors | None:
    """Motions of the whole specimen, three of every test; None if the camera stands still."""
    tests: SolidTests = system.tests
    if "motion" not in tests.uncertain:
        return None
    centred = tests.points - tests.points.mean(axis=0)
    motions = rigid_motions(centred).transpose(1, 0, 2).reshape(-1, 3)
    motions = motions / np.sqrt(np.mean(motions**2, axis=0))
    if system.whitening is not None:
        motions = system.whitening @ motions
    patterns = np.einsum("sm,pq->mqsp", motions, np.eye(tests.count)).reshape(-1, len(motions), tests.count)
    size = float(np.sqrt(np.nanmean(tests.readings**2)))
    return LinearErrors(patterns, np.full(len(patterns), FREE * size))
