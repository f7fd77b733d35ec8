"""Bands hold what they promise on systems that calibration has not seen, and the alarm tells strangers from family."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe
from nipde.errors import ArchiveError, PairsError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.evaluation.calibrate import FALSE_ALARMS, calibrated, conformal_quantile, contexts

PAIRS, NOISE = (3, 12), (0.0, 0.02)


def untrained(**options):
    torch.manual_seed(0)
    return ConditionedNIPS(dimension=2, channels=8, **options).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Forty systems for calibration, forty for the test, forty strangers."""
    folder, split = tmp_path_factory.mktemp("systems"), (0.0, 0.5, 0.5)
    recipes = {
        "family": DarcyRecipe(nodes=9, pairs=20),
        "contrast": DarcyRecipe(nodes=9, pairs=20, phases=(48.0, 3.0)),
        "advection": AdvectionRecipe(nodes=9, pairs=20, speed=15.0),
    }
    return {
        name: generate(Plan(recipe, systems=80, seed=3, split=split), folder / name, workers=1)
        for name, recipe in recipes.items()
    }


@pytest.fixture(scope="module")
def model(made):
    return calibrated(untrained(), made["family"], pairs=PAIRS, noise=NOISE)


def asked(model, archive, *, change=lambda pairs: pairs, **options):
    """Kernels and queries of the test systems."""
    for context, queries in contexts(archive, part="test", seed=9, **options):
        yield model(change(context.to(dtype=torch.float32))), queries.to(dtype=torch.float32)


def raised(model, archive, **options):
    return np.concatenate(
        [kernel.outlier_test.is_outlier.numpy() for kernel, _ in asked(model, archive, **options)]
    ).mean()


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [3, 6, 12])
@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
def test_bands_hold_their_share_of_new_systems(model, made, pairs, noise):
    held = {0.5: [], 0.9: []}
    for kernel, queries in asked(model, made["family"], context=pairs, noise=noise):
        for level, found in held.items():
            low, high = kernel.band(queries.loads, level=level)
            within = (low <= queries.responses) & (queries.responses <= high)
            found.append(within[..., torch.tensor(kernel.grid.unknown)].flatten())
    for level, found in held.items():
        share = float(torch.cat(found).double().mean())
        assert share > level - 0.1
        if pairs in PAIRS and noise in NOISE:  # between the strata bands may be wider than they need to be
            assert share < level + 0.07


@pytest.mark.slow
def test_few_systems_of_the_family_raise_the_alarm(model, made):
    rates = [raised(model, made["family"], context=pairs, noise=noise) for pairs in (3, 7, 12) for noise in NOISE]
    assert np.mean(rates) <= 0.08
    assert model.calibration.threshold < 10
    assert FALSE_ALARMS <= 0.04


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("pairs", PAIRS)
def test_strangers_raise_the_alarm(model, made, pairs, noise):
    options = {"context": pairs, "noise": noise, "systems": 20}
    assert raised(model, made["contrast"], **options) >= 0.95
    assert raised(model, made["advection"], **options) >= 0.95
    changes = {
        "loads in other units": lambda pairs: pairs.scaled(load=1e3),
        "responses in other units": lambda pairs: pairs.scaled(response=1e3),
        "swapped axes": lambda pairs: replace(pairs, responses=pairs.responses.mT.contiguous()),
    }
    for what, change in changes.items():
        assert raised(model, made["family"], change=change, **options) >= 0.95, what


def test_loads_in_another_unit_have_an_outlying_stiffness(model, made):
    (kernel, _), *_ = asked(model, made["family"], context=12, noise=0.0, change=lambda pairs: pairs.scaled(load=1e3))
    scores = {name: float(score[0].abs()) for name, score in kernel.outlier_test.scores.items()}
    assert max(scores, key=scores.get) == "stiffness"


def test_noise_that_nobody_gives_raises_no_alarm(model, made):
    kernels = asked(model, made["family"], context=12, noise=0.02, change=lambda pairs: replace(pairs, noise=None))
    assert np.concatenate([kernel.outlier_test.is_outlier.numpy() for kernel, _ in kernels]).mean() <= 0.2


def test_calibration_changes_no_answer_and_leaves_the_model_alone(made):
    before = untrained()
    after = calibrated(before, made["family"], pairs=(5,), noise=(0.0,))
    assert before.calibration is None
    assert after.calibration.systems == 40
    (context, queries), *_ = contexts(made["family"], part="test", context=5, noise=0.0)
    context = context.to(dtype=torch.float32)
    assert torch.equal(before(context).predict(queries.loads), after(context).predict(queries.loads))
    again = calibrated(after, made["family"], pairs=(5,), noise=(0.0,))
    assert again.calibration == after.calibration


def test_a_prior_without_a_law_is_calibrated_too(made):
    model = calibrated(untrained(prior="gated", terms=4), made["family"], pairs=(10,), noise=(0.0,))
    assert model.calibration.names == ("stiffness", "misfit")
    assert raised(model, made["family"], context=10, noise=0.0, change=lambda pairs: pairs.scaled(load=1e3)) == 1


def test_quantiles_count_one_more_system_as_missed():
    ratios = np.arange(1.0, 101.0).reshape(20, 5)
    assert conformal_quantile(ratios, 0.5) == 53  # ⌈0.5 · 21 · 5⌉
    assert conformal_quantile(ratios, 0.95) == 100
    with pytest.raises(ArchiveError) as error:
        conformal_quantile(ratios[:18], 0.95)
    assert error.value.got == 18


def test_too_little_data_is_refused(made):
    with pytest.raises(ArchiveError) as error:
        calibrated(untrained(), made["family"], pairs=(5,), noise=(0.0,), systems=10)
    assert error.value.got == 10
    with pytest.raises(PairsError) as error:
        calibrated(untrained(), made["family"], pairs=(20,), noise=(0.0,))
    assert "20" in error.value.got


def test_the_noise_of_contexts_is_that_asked_for(made):
    (noisy, queries), *_ = contexts(made["family"], part="test", context=10, noise=0.02, seed=1)
    (exact, same), *_ = contexts(made["family"], part="test", context=10, noise=0.0, seed=1)
    assert torch.equal(queries.responses, same.responses)
    error = (noisy.responses - exact.responses).square().mean() / exact.responses.square().mean()
    assert float(error.sqrt()) == pytest.approx(0.02, rel=0.1)
