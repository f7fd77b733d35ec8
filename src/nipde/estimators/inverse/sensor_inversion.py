"""A material from sensors, on grids of the problem's own: smooth or of few phases, whichever explains them better.

1. A Matérn field is fitted: first to a tenth of the responses' size, then closer, then to the noise.
2. From it start materials of two and of three phases, interfaces as level sets; and if it varies in one direction more
   than in the other, materials that vary in one direction only.
3. If two phases do not explain the readings, phases in which the material varies: level sets and a Matérn field.
4. If the Matérn field explains the readings, longer correlations are tried.
5. The model of least n log (χ² / (1 - F/n)) + F log n is taken: F = tr (JᵀwJ + R)⁻¹ JᵀwJ, its effective parameters.
6. Models that explain the readings as well widen the bands by how far they are from it.
7. Where χ² is still above what n readings allow, the grid of the material is made finer, once; of layers that of the
   solver; and both grids at the start where the solver's error is as large as the noise.
8. Sensors and pairs that are explained much worse than the others are left out if these contradict them, see
   `faulty_readings`.

The error of the solver is estimated from two grids and added to the noise. Noise that is not stated is estimated from
the residuals of the smooth field, which hold both.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

import numpy as np
import torch

from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.faulty_readings import (
    Suspects,
    any_marked,
    contradicted_pairs,
    contradicted_sensors,
    doubtful_pairs,
    is_doubtful,
    suspects,
)
from nipde.estimators.inverse.fitted_law import Choice, law_of
from nipde.estimators.inverse.inverse_problem import FINER, InverseProblem
from nipde.estimators.inverse.islands import without_islands
from nipde.estimators.inverse.layers import Graded, Layers
from nipde.estimators.inverse.level_sets import LevelSetPhases, variance_between_clusters
from nipde.estimators.inverse.material_models import (
    Homogeneous,
    JumpPenalty,
    MaterialModel,
    MaternField,
    Penalty,
)  # fmt: skip
from nipde.estimators.inverse.nuisance import NuisanceKind
from nipde.estimators.inverse.one_direction import along_one_direction
from nipde.estimators.inverse.sensor_posterior import SensorPosterior
from nipde.estimators.inverse.systems import check_law
from nipde.estimators.inverse.varying_phases import VaryingPhases, with_empirical_deviation
from nipde.kernels.refined import RefinedKernel, RefinedLaw

#: Intervals per axis, geometric mean over the axes: of the material and of derivatives; of the solver at least.
MATERIAL, SOLVER = 40, 140
#: The same over three axes.
MATERIAL_3D, SOLVER_3D = 12, 32
#: Least and largest deviation of a Matérn field of log b.
DEVIATIONS = (0.05, 3.0)
#: So often a correlation's deviation is estimated.
SETTLED = 3
#: Deviations that a fit passes through before those of the data, as shares of the responses' root mean square.
STAGES = (0.1, 0.03)
#: Deviations that phases pass through before those of the data, as shares of the responses' root mean square. With the
#: first they are given up if their misfit is larger than this after a few steps.
SHARES, HOPELESS = (0.01, 0.003, 0.001), 1.5
#: The first of them where phases start from a fit of total variation.
FIRST_SHARE = 0.03
#: No further phases are tried if the misfit over the noise is below this, or that of layers,
ENOUGH = 1.1
#: and if phases have fewer effective parameters than this share of those of the material that they start from. Two of
#: three phases need as many: islands and thin rims of them stand for the third one.
SIMPLER = 0.5
#: A model is left out of the bands if its criterion is larger by this, unless that of Akaike prefers it. Between right
#: and wrong models it was above 300 for full fields and for 30 sensors, and 60 where 30 points misled it.
DECISIVE = 150.0
#: The grid of a material is made finer where χ² is above its expectation. Phases are before they are compared, if χ² is
#: below this: readings with little noise need interfaces of a finer grid.
NEAR = 4.0
#: Two phases may vary if the clusters of a smooth field make up more than this share of its variance: 0.64 of normal
#: values, 0.75 of even ones.
CLUSTERED = 0.8
#: Two of three phases are similar if the ratio of the steps between phases is below this.
SIMILAR = 0.6
#: κ of the field within phases, in units of 1 / length, that are compared.
CORRELATIONS = (6.0, 3.0, 1.5)
#: Searches for faulty readings: the second is among those that the first has left.
SEARCHES = 2
#: χ² of a law without faulty sensors is below this, or none is left out: the law itself may be wrong.
EXPLAINS = 2.0
#: ε and the weights τ that are compared.
PATHS: dict[Penalty, tuple[float, tuple[float, ...]]] = {
    "tikhonov": (1.0, (1000.0, 300.0, 100.0, 30.0, 10.0)),
    "total-variation": (0.01, (1.0, 0.5, 0.2, 0.1, 0.05)),
    "edges": (0.03, (4.0, 2.0, 1.0, 0.5, 0.25)),
}


@dataclass(frozen=True)
class SensorInversion:
    """Pairs to the kernel of Darcy's law, from any sensors; nodes that the mask hides are none.

    `phases` are the numbers of phases that are tried besides a smooth material; `material` and `solver` the intervals
    of the problem's grids, by default those that suit the number of axes and the solver's error.
    """

    #: Takes readings of sensors as they are.
    from_sensors: ClassVar[bool] = True
    phases: tuple[int, ...] = (2, 3)
    #: True: phases wherever they can be fitted. False: smooth. None: what the readings prefer.
    piecewise_constant: bool | None = None
    #: Whether a material that varies within two phases is tried where uniform ones do not explain the readings.
    varying: bool = True
    #: Errors that the readings may have beside noise.
    nuisance: tuple[NuisanceKind, ...] = ()
    #: Whether sensors and pairs that all others contradict are left out.
    faults: bool = True
    #: Whether one value everywhere is tried as well; then no phases are if it explains the readings.
    homogeneous: bool = False
    #: κ of Matérn fields, in units of 1 / length, that are tried one after the other if the material is smooth.
    longer_correlations: tuple[float, ...] = (3.0, 1.5)
    #: Fit this classical penalty instead, for comparison.
    penalty: Penalty | None = None
    steps: int = 10
    material: int | None = None
    solver: int | None = None

    def __call__(self, pairs: Pairs | SensorPairs) -> RefinedKernel:
        """The kernel of the fitted laws."""
        if isinstance(pairs, SensorPairs):
            return _kernel_of_one(self.law(pairs))
        check_law(pairs.grid, pairs.components)
        pairs.check_finite()
        flat = replace(pairs, load_noise=None).along_one_axis()
        laws = tuple(self.law(SensorPairs.of(flat.system(number))) for number in range(flat.batch[0]))
        return RefinedKernel(pairs.grid, laws, pairs.responses.new_ones(pairs.batch))

    def continued(self, before: RefinedKernel, pairs: Pairs | SensorPairs) -> RefinedKernel:
        """From the fit to a part of these pairs of one system: its model, all readings but the faulty ones."""
        every = pairs if isinstance(pairs, SensorPairs) else SensorPairs.of(replace(pairs, load_noise=None))
        law, posterior = before.laws[0], before.laws[0].posterior
        assert isinstance(posterior, SensorPosterior)
        sensors = every.numbers_at(law.faulty_positions)
        doubted = every.without_sensors_at(law.faulty_positions)
        tests = doubtful_pairs(law, doubted) if self._seeks_faults(every) else sensors[:0]
        wrong = contradicted_pairs(law, doubted, tests)
        readings = doubted.without_pairs([one.number for one in wrong])
        found, name = posterior.best, law.summary["model"]
        best = found.problem.with_pairs(readings, found).candidate(
            found.fit.model, found.fit.parameters, steps=self.steps
        )
        criteria = {**law.summary["criteria"], name: best.criterion}
        after = law_of(Choice(best, name, criteria, posterior.others))
        dead = contradicted_sensors(after, every.without_pairs([one.number for one in wrong]), sensors)
        return _kernel_of_one(after.stating(faulty_sensors=dead, faulty_pairs=wrong))

    def law(self, pairs: SensorPairs) -> RefinedLaw:
        """Of one system."""
        return self._law(pairs, searches=SEARCHES if self._seeks_faults(pairs) else 0)

    def _law(self, pairs: SensorPairs, *, searches: int) -> RefinedLaw:
        """With so many searches for faulty readings, each among what the one before left."""
        if pairs.specimen is None:
            check_law(pairs.grid, (1, 1))
        material, solver = (MATERIAL_3D, SOLVER_3D) if pairs.grid.dimension == 3 else (MATERIAL, SOLVER)
        problem = InverseProblem.of(
            pairs, material=self.material or material, solver=self.solver or solver, nuisance=self.nuisance
        )
        smooth, fitted = self._smooth(problem)
        doubted = searches > 0 and is_doubtful(smooth)
        law = self._without_faulty(pairs, problem, searches) if doubted else None
        if law is None:
            choice = self._chosen(smooth, fitted)
            law = law_of(choice)
            alarm = bool(law.bands.outlier_test.is_outlier)
            if searches > 0 and not doubted and alarm and is_doubtful(choice.best):
                law = self._without_faulty(pairs, problem, searches) or law
        return law

    def chosen(self, problem: InverseProblem) -> Choice:
        """The model that explains the readings best, and those that explain them as well."""
        return self._chosen(*self._smooth(problem))

    def _seeks_faults(self, pairs: SensorPairs) -> bool:
        """Not where readings are expected to have other errors, or a penalty is fitted for comparison."""
        return self.faults and not self.nuisance and self.penalty is None and pairs.covariance is None

    def _without_faulty(self, pairs: SensorPairs, problem: InverseProblem, searches: int) -> RefinedLaw | None:
        """The law by all readings but the faulty ones; None if there are none. A smooth material mostly shows them."""
        robust = replace(self, nuisance=("outliers",))
        smooth, fitted = robust._smooth(replace(problem, nuisance=robust.nuisance))
        if not any_marked(smooth):
            return None
        law = self._by_others(pairs, suspects(smooth), searches)
        return law or self._by_others(pairs, suspects(robust._chosen(smooth, fitted).best), searches)

    def _by_others(self, pairs: SensorPairs, doubted: Suspects, searches: int) -> RefinedLaw | None:
        """The law by the other readings, if it contradicts these, or some of them, and explains the rest.

        Among the others further ones may be left out: some faults show only without the rest.
        """
        while doubted.count:
            law = self._law(doubted.others_of(pairs), searches=searches - 1)
            doubted = doubted.joined(law, pairs)
            if not doubted.are_few_of(pairs):
                return None
            sensors = contradicted_sensors(law, pairs.without_pairs(doubted.pairs), doubted.sensors)
            tests = contradicted_pairs(law, pairs.without_sensors(doubted.sensors), doubted.pairs)
            if len(sensors) + len(tests) == doubted.count:
                explained = law.summary["chi_square"] < EXPLAINS
                return law.stating(faulty_sensors=sensors, faulty_pairs=tests) if explained else None
            doubted = Suspects(*(np.array([one.number for one in each], dtype=int) for each in (sensors, tests)))
        return None

    def _chosen(self, smooth: Candidate, problem: InverseProblem) -> Choice:
        candidates = self._candidates(problem, smooth)
        if "smooth" in candidates and not smooth.significant:
            below = min(one.criterion for one in candidates.values()) + DECISIVE
            candidates["smooth"] = self._with_longer_correlation(smooth, below=below)
        criteria = {one: found.criterion for one, found in candidates.items()}
        name = min(criteria, key=lambda one: criteria[one])
        best = candidates.pop(name)
        finest = needs_finer_interfaces(best) and best.problem.nodes.size > problem.nodes.size
        if best.significant and isinstance(best.fit.model, Layers):  # straight interfaces need no nodes, but cells
            best = best.refined(solver=2, steps=self.steps)
        elif best.significant and not (isinstance(best.fit.model, Graded) or finest):
            best = best.refined(FINER, steps=self.steps)
        others = [
            one.fit.moved(to=best.problem.nodes) for one in candidates.values()
            if not one.significant and (
                one.criterion < best.criterion + DECISIVE or one.akaike_criterion < best.akaike_criterion
            )
        ]  # fmt: skip
        return Choice(best, name, criteria, tuple(others))

    def _candidates(self, problem: InverseProblem, smooth: Candidate) -> dict[str, Candidate]:
        """Fitted models by name."""
        if self.penalty is not None:
            return {self.penalty: self._penalised(self.penalty, problem, smooth)}
        if self.piecewise_constant is False:
            return {"smooth": smooth, **self._along_one_direction(problem, smooth)}
        if self.homogeneous:
            log = float(np.mean(smooth.fit.model.at_nodes(smooth.fit.parameters)))
            one = problem.candidate(Homogeneous(problem.nodes), np.array([log]), steps=self.steps)
            if not one.significant:
                return {"homogeneous": one, "smooth": smooth}
        layered = self._along_one_direction(problem, smooth)
        by_layers = any(not one.significant or one.fit.chi_square < ENOUGH for one in layered.values())
        phases = self._phases(problem, smooth, SHARES, finer=not by_layers)
        if not phases and smooth.significant and not by_layers:  # a smooth field is too far from them to start from
            varied = self._penalised("total-variation", problem, smooth)
            phases = self._phases(problem, varied, (FIRST_SHARE, *SHARES))
        found = {**layered, **phases, **({} if by_layers else self._varying(problem, smooth, phases))}
        return found if phases and self.piecewise_constant else {"smooth": smooth, **found}

    def _penalised(self, penalty: Penalty, problem: InverseProblem, smooth: Candidate) -> Candidate:
        """From strong to weak, the weight of least criterion."""
        best, parameters = None, smooth.fit.parameters
        scale, weights = PATHS[penalty]
        for weight in weights:
            model = JumpPenalty(problem.nodes, kind=penalty, weight=weight, scale=scale)
            one = problem.candidate(model, parameters, steps=self.steps)
            parameters = one.fit.parameters
            if best is None or one.criterion < best.criterion:
                best = one
        assert best is not None
        return best

    def _smooth(self, problem: InverseProblem) -> tuple[Candidate, InverseProblem]:
        """A Matérn field whose deviation the data choose; and the problem with noise and interpolation chosen."""
        model: MaterialModel = MaternField(problem.nodes)
        parameters = np.full(problem.nodes.size, problem.log_constant())
        for stage in STAGES:
            coarse = stage == STAGES[0]
            roughly = problem.with_noise(np.full(problem.values.shape, stage * problem.size))
            parameters = roughly.minimised(model, parameters, steps=4, tolerance=0.02, coarse=coarse).parameters
        problem = problem.with_better_interpolation(model, parameters).with_errors_beside(model, parameters)
        if problem.too_coarse and self.material is None and self.solver is None:
            problem = problem.refined(FINER, solver=2)
            model, parameters = model.moved(parameters, to=problem.nodes)
            problem = problem.with_errors_beside(model, parameters)
        state = problem.minimised(model, parameters, steps=6)
        problem, parameters = problem.reconsidered(state)
        found = problem.candidate(model, parameters, steps=3)
        deviation = sqrt(2 * found.fit.penalty / max(found.effective_dof, 1.0))
        problem = problem.with_errors_beside(model, found.fit.parameters, effective_dof=found.effective_dof)
        model = MaternField(problem.nodes, deviation=float(np.clip(deviation, *DEVIATIONS)))
        return problem.candidate(model, found.fit.parameters, steps=self.steps), problem

    def _with_longer_correlation(self, smooth: Candidate, *, below: float) -> Candidate:
        """Of the longest correlation for which the criterion falls, if it may come `below` that of others.

        The data choose the deviation of each; only the last of them is fitted.
        """
        best = smooth
        for correlation in self.longer_correlations:
            before = best.fit.model
            assert isinstance(before, MaternField)
            model = replace(before, correlation=correlation)
            for _ in range(SETTLED):
                other = smooth.under(model)
                deviation = model.deviation * sqrt(2 * other.fit.penalty / max(other.effective_dof, 1.0))
                model = replace(model, deviation=float(np.clip(deviation, *DEVIATIONS)))
            if other.criterion >= best.criterion:
                break
            best = other
        if best is smooth or best.criterion > below:
            return smooth
        fitted = smooth.problem.candidate(best.fit.model, best.fit.parameters, steps=self.steps)
        return min(smooth, fitted, key=lambda one: one.criterion)

    def _along_one_direction(self, problem: InverseProblem, smooth: Candidate) -> dict[str, Candidate]:
        """Where phases may be tried."""
        layers = self.piecewise_constant is not False
        return along_one_direction(problem, smooth, layers=layers, steps=self.steps) if self.phases else {}

    def _phases(
        self, problem: InverseProblem, near: Candidate, shares: tuple[float, ...], *, finer: bool = True
    ) -> dict[str, Candidate]:
        """Materials of few phases near another one that are not hopeless; `shares` as of `SHARES`.

        Their grid is made `finer` where they nearly explain the readings.
        """
        found = {}
        stages = [problem.roughly(share) for share in shares]
        field = near.fit.model.at_nodes(near.fit.parameters)
        for count in self.phases:
            model = LevelSetPhases(problem.nodes, interfaces=count - 1)
            begun = stages[0].minimised(model, model.start(field), steps=6)
            if begun.chi_square < HOPELESS:
                parameters = begun.parameters
                for share, stage in list(zip(shares, stages, strict=True))[1:]:
                    if share * problem.size > 2 * problem.usual_deviation:
                        parameters = stage.minimised(model, parameters, steps=6).parameters
                one = without_islands(problem.candidate(model, parameters, steps=self.steps), steps=self.steps)
                if finer and needs_finer_interfaces(one):
                    one = one.refined(FINER, steps=self.steps)
                found[f"{count} phases"] = one
                if one.fit.chi_square < ENOUGH and one.effective_dof < SIMPLER * near.effective_dof:
                    break
        return found

    def _varying(
        self, problem: InverseProblem, smooth: Candidate, phases: dict[str, Candidate]
    ) -> dict[str, Candidate]:
        """Two phases in which the material varies, where uniform ones do not explain the readings, nor three."""
        uniform, field = phases.get("2 phases"), smooth.fit.model.at_nodes(smooth.fit.parameters)
        enough = uniform is not None and uniform.fit.chi_square < ENOUGH
        likely = (
            smooth.significant
            or variance_between_clusters(field) > CLUSTERED
            or any(map(has_two_similar_phases, phases.values()))
        )
        if not (self.varying and 2 in self.phases and self.piecewise_constant is None) or enough or not likely:
            return {}
        if uniform is not None:
            parameters = uniform.fit.moved(to=problem.nodes).parameters
        else:
            parameters = LevelSetPhases(problem.nodes).start(field)
        model = VaryingPhases(problem.nodes)
        parameters = model.start(parameters)
        for share in SHARES if uniform is None else ():
            if share == SHARES[0] or share * problem.size > 2 * problem.usual_deviation:
                parameters = problem.roughly(share).minimised(model, parameters, steps=6).parameters
        found = problem.candidate(model, parameters, steps=self.steps)
        others = [found.under(with_empirical_deviation(found, correlation)) for correlation in CORRELATIONS]
        best = min(others, key=lambda one: one.criterion)
        assert isinstance(best.fit.model, VaryingPhases)
        again = with_empirical_deviation(best, best.fit.model.correlation)
        # From the fit itself: to second order levels that few loads tell go anywhere.
        best = problem.candidate(again, found.fit.parameters, steps=self.steps)
        return {"2 varying phases": min(found, best, key=lambda one: one.criterion)}


def _kernel_of_one(law: RefinedLaw) -> RefinedKernel:
    return RefinedKernel(law.grid, (law,), torch.ones((), dtype=torch.float64))


def has_two_similar_phases(found: Candidate) -> bool:
    """Whether two of three phases differ much less than the third from them: they may be one that varies."""
    assert isinstance(found.fit.model, LevelSetPhases)
    steps = np.abs(found.fit.model.parts(found.fit.parameters)[1][1:])
    return len(steps) > 1 and bool(steps.min() < SIMILAR * steps.max())


def needs_finer_interfaces(found: Candidate) -> bool:
    """Phases that explain the readings nearly."""
    return isinstance(found.fit.model, LevelSetPhases) and found.significant and found.fit.chi_square < NEAR
