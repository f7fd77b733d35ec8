import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import nn

from nipde.data.archive import open_archive
from nipde.data.generation import generate
from nipde.data.problems import AdvectionRecipe
from nipde.errors import NipdeError, SolverError
from nipde.estimators.regression.ridge import MinimumNorm
from nipde.evaluation import evaluate as evaluate_module
from nipde.evaluation.evaluate import MEASURES, Mean, evaluate
from nipde.evaluation.named import named
from nipde.evaluation.protocol import choose
from nipde.evaluation.truth import true_kernels
from nipde.kernels.base import Predictor
from nipde.kernels.dense import DenseKernel
from nipde.kernels.nonlinear import AffinePredictor


@dataclass(frozen=True, eq=False)
class Listening(Predictor):
    """Remembers what it was asked, answers nothing."""

    asked: list = field(default_factory=list)
    linear = False
    components = (1, 1)

    def predict(self, loads):
        self.asked.append(loads)
        return torch.zeros_like(loads)


class Network(nn.Module):
    """The minimum norm kernel in the clothes of a network."""

    def __init__(self, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=dtype))
        self.subspace = []

    def forward(self, pairs):
        self.subspace.append((pairs.batch, pairs.loads.dtype, self.training))
        return MinimumNorm()(pairs) * self.weight


def nothing(pairs):
    return DenseKernel(pairs.grid, pairs.loads.new_zeros(*pairs.batch, pairs.grid.size, pairs.grid.size))


def test_knowing_the_law_leaves_no_error(own):
    found = evaluate(named("equation-error", own), own, context=10)
    for name in ("held_out", "in_context", "held_out_interior", "held_out_edge", "kernel", "worst_decile"):
        assert getattr(found, name).high < 1e-8, name
    assert found.microstructure.mean < 0.05  # a checkerboard is left open by harmonic means
    assert found.phase_accuracy == Mean(1.0, 1.0, 1.0, 0.0)
    assert found.microstructure_failed == 0


def test_an_answer_a_tenth_too_large_is_a_tenth_wrong_everywhere(own):
    exact = named("equation-error", own)
    found = evaluate(lambda pairs: exact(pairs) * 1.1, own, context=10, systems=2)
    for name in ("held_out", "in_context", "held_out_interior", "held_out_edge", "kernel"):
        assert getattr(found, name).mean == pytest.approx(0.1, rel=1e-6), name


def test_a_hopeless_kernel_is_counted_not_raised(own):
    found = evaluate(nothing, own, context=10)
    for name in ("held_out", "in_context", "kernel", "worst_decile"):
        assert getattr(found, name) == Mean(1.0, 1.0, 1.0, 0.0), name
    assert found.microstructure_failed == 4
    assert found.microstructure is found.phase_accuracy is found.phase_accuracy_inside is None


def test_some_hopeless_kernels_leave_the_others_counted(own, monkeypatch):
    kept = evaluate_module.permeability_of
    answers = iter([SolverError("lost"), np.linalg.LinAlgError("singular"), None, None])

    def sometimes(kernel, **options):
        error = next(answers)
        if error is not None:
            raise error
        return kept(kernel, **options)

    monkeypatch.setattr(evaluate_module, "permeability_of", sometimes)
    found = evaluate(MinimumNorm(), own, context=13)
    assert found.microstructure_failed == 2
    assert found.microstructure.mean > 0
    assert len(found.per_system["held_out"]) == 4


@pytest.mark.parametrize(("loads", "context"), [("test", 5), ("train", 5)])
def test_the_estimator_gets_the_chosen_pairs_and_is_asked_for_others(shared, loads, context):
    seen, asked = [], []

    def estimator(pairs):
        seen.append(pairs)
        return Listening(pairs.grid, asked)

    found = evaluate(estimator, shared, context=context, loads=loads)
    draw = choose(shared, part="test", context=context, loads=loads)
    every = shared.read(draw.systems)
    source = shared.load_indices(loads)
    for place in range(len(draw.systems)):
        assert set(draw.contexts[place]) <= set(source)
        assert not set(draw.contexts[place]) & set(draw.queries[place])
        assert np.array_equal(seen[place].loads[0], every.loads[place, draw.contexts[place]])
        assert np.array_equal(seen[place].responses[0], every.responses[place, draw.contexts[place]])
        assert np.array_equal(asked[2 * place + 1][0], every.loads[place, draw.queries[place]])
    assert found.queries == {"test": 3, "train": 8}[loads]
    assert found.loads == loads
    assert found.kernel is found.microstructure is found.microstructure_failed is None  # no kernel to ask
    assert found.held_out.mean == 1


def test_a_network_works_in_batches_and_in_its_own_precision(own):
    network, narrow = Network(torch.float64), Network(torch.float32)
    alone = evaluate(MinimumNorm(), own, context=10, noise=0.05, inversion=False)
    together = evaluate(network, own, context=10, noise=0.05, inversion=False)
    assert network.subspace == [((4,), torch.float64, False)]
    assert network.training
    for name in ("held_out", "in_context", "kernel"):
        assert getattr(together, name).mean == pytest.approx(getattr(alone, name).mean, rel=1e-9)
    assert together.per_system["held_out"] == pytest.approx(alone.per_system["held_out"], rel=1e-9)
    rounded = evaluate(narrow, own, context=10, noise=0.05, inversion=False)
    assert narrow.subspace[0][1] == torch.float32
    assert rounded.held_out.mean == pytest.approx(alone.held_out.mean, rel=1e-4)  # the same noise, too


def test_noise_is_on_the_context_and_the_truth_is_clean(own):
    exact, noisy = (evaluate(MinimumNorm(), own, context=10, noise=noise, inversion=False) for noise in (0.0, 0.1))
    # the minimum norm reproduces what it was given, so its error in the context is the noise itself
    assert exact.in_context.mean < 1e-10
    assert 0.05 < noisy.in_context.mean < 0.2
    seen = []
    evaluate(lambda pairs: seen.append(pairs) or MinimumNorm()(pairs), own, context=10, noise=0.1, inversion=False)
    draw = choose(own, part="test", context=10)
    for pairs, system, chosen in zip(seen, draw.systems, draw.contexts, strict=True):
        errors = pairs.responses[0].numpy() - own[int(system)].responses[chosen]
        rms = np.sqrt(np.mean(own[int(system)].responses[chosen] ** 2))
        assert np.std(errors) == pytest.approx(0.1 * rms, rel=0.1)
        assert float(pairs.noise[0]) == pytest.approx(0.1 * rms, rel=1e-9)


def test_the_seed_decides_and_the_first_systems_stay_the_first(own):
    def run(**options):
        return evaluate(MinimumNorm(), own, context=8, noise=0.01, inversion=False, **options)

    every, again, few, other = run(), run(), run(systems=2), run(seed=1)
    assert every.per_system == again.per_system
    assert few.per_system["held_out"] == every.per_system["held_out"][:2]
    assert other.per_system["held_out"] != every.per_system["held_out"]


def test_interior_and_edge_are_apart(own):
    def right_inside_only(pairs):
        kernel = named("equation-error", own)(pairs).dense()
        return DenseKernel(own.grid, kernel * torch.tensor(own.grid.interior).reshape(-1, 1))

    found = evaluate(right_inside_only, own, context=10, systems=1, inversion=False)
    assert found.held_out_interior.mean < 1e-8
    assert found.held_out_edge.mean == pytest.approx(1)
    assert own.grid.edge.any()


def test_a_predictor_that_is_not_linear_shows_the_kernel_inside(own):
    def affine(pairs):
        kernel = named("equation-error", own)(pairs)
        return AffinePredictor(own.grid, kernel, pairs.responses.new_full((1, 1, *own.grid.shape), 1e-3))

    found = evaluate(affine, own, context=10, systems=1)
    assert found.kernel.mean < 1e-8
    assert found.microstructure.mean < 0.05
    assert found.held_out.mean > 1e-3


def test_other_laws_have_no_microstructure_and_a_kernel_where_they_state_it(archives, monkeypatch):
    found = evaluate(MinimumNorm(), archives["advection"], context=4)
    assert found.held_out.mean > 0
    assert 0.01 < found.kernel.mean < 1.5
    assert all(getattr(found, name) is None for name in ("microstructure", "phase_accuracy"))
    monkeypatch.setattr(AdvectionRecipe, "law_of", lambda recipe, hidden: None)
    assert evaluate(MinimumNorm(), archives["advection"], context=4).kernel is None


def test_the_true_kernel_of_advection_has_no_error(archives):
    archive = archives["advection"]
    laws = iter([archive.plan.recipe.law_of(archive[int(system)].hidden) for system in archive.indices("test")])
    found = evaluate(lambda pairs: true_kernels([next(laws)]), archive, context=4)
    assert found.kernel.mean < 1e-12
    assert found.held_out.mean < 1e-5  # stored in float32


def test_the_result_is_complete_and_survives_json(own):
    advanced = []
    found = evaluate(MinimumNorm(), own, context=8, systems=3, inversion=False, progress=advanced.append)
    record = found.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert set(MEASURES) < set(record)
    assert record["held_out"]["mean"] == found.held_out.mean
    assert found.microstructure is found.microstructure_failed is None
    expected = {"systems": 3, "pairs": 8, "noise": 0.0, "queries": 6, "loads": "own", "part": "test", "seed": 0,
                "archive": own.digest}  # fmt: skip
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.seconds_per_system > 0
    assert found.held_out.mean == pytest.approx(np.mean(found.per_system["held_out"]))
    assert found.worst_decile.mean == max(found.per_system["held_out"])
    assert found.per_system["system"] == [6, 7, 8]
    assert sum(advanced) == 3


def test_queries_can_be_loads_of_another_law_on_the_same_systems(shared, tmp_path):
    plan = shared.plan
    generate(replace(plan, recipe=replace(plan.recipe, load_alpha=4.0)), tmp_path / "smooth", workers=1)
    smooth = open_archive(tmp_path / "smooth")
    usual = evaluate(MinimumNorm(), shared, context=5, inversion=False)
    other = evaluate(MinimumNorm(), shared, context=5, inversion=False, asked=smooth)
    assert other.kernel == usual.kernel  # the same contexts
    assert other.in_context == usual.in_context
    assert other.held_out.mean < 0.9 * usual.held_out.mean  # smooth loads are easier


def test_queries_of_other_systems_are_refused(shared, tmp_path):
    plan = shared.plan
    generate(replace(plan, seed=plan.seed + 1), tmp_path / "others", workers=1)
    with pytest.raises(NipdeError):
        evaluate(MinimumNorm(), shared, context=5, inversion=False, asked=open_archive(tmp_path / "others"))
