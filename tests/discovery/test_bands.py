"""Bands on the material hold what calibration promises on systems that it has not seen."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.context.pairs import Pairs
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.discovery.coverage import coverage_of
from nipde.discovery.material import NORMAL, material_of
from nipde.errors import KernelError
from nipde.estimators.conditioned.calibration import Calibration
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.evaluation.calibrate import calibrated, contexts
from nipde.evaluation.protocol import choose
from nipde.kernels.prediction_bands import SAME_DISCRETISATION
from nipde.weights import checkpoint, load
from nipde.weights.models import SHELF

CONTEXT, NOISE = 10, 0.02


def untrained(**options):
    torch.manual_seed(0)
    return ConditionedNIPS(dimension=2, channels=8, **options).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Twenty systems for calibration, ten for the test."""
    plan = Plan(DarcyRecipe(nodes=9, pairs=14), systems=30, seed=3, split=(0.0, 2 / 3, 1 / 3))
    return generate(plan, tmp_path_factory.mktemp("bands") / "darcy", workers=1)


@pytest.fixture(scope="module")
def model(archive):
    return calibrated(untrained(), archive, pairs=(CONTEXT,), noise=(NOISE,))


@pytest.fixture(scope="module")
def tested(archive):
    """Pairs of the test systems, and their permeabilities."""
    drawn = [pairs for pairs, _ in contexts(archive, part="test", context=CONTEXT, noise=NOISE)]
    pairs = [one.to(dtype=torch.float32).system(number) for one in drawn for number in range(one.batch[0])]
    systems = choose(archive, part="test", context=CONTEXT, loads="test", systems=None, seed=0).systems
    return list(zip(pairs, archive.read(systems).hidden[:, 0], strict=True))


@pytest.fixture(scope="module")
def pairs(tested):
    return tested[0][0]


def test_calibrated_bands_hold_their_share_of_new_systems(model, tested):
    shares = []
    for own, hidden in tested:
        found, _ = material_of(model(own), level=0.9)
        assert found.calibrated
        shares.append(((found.low <= hidden) & (hidden <= found.high))[own.grid.unknown].mean())
    assert np.mean(shares) == pytest.approx(0.94, abs=0.02)  # of bands of 90 %, over few systems


def widened_deviation(kernel):
    return kernel.posterior.widening * kernel.posterior.deviation().double().numpy()


def test_sharp_weights_have_factors_of_their_own(model, pairs):
    (stratum,) = model.calibration.strata[0]
    assert stratum.piecewise_constant == ()
    assert not material_of(model.with_piecewise_constant_prior()(pairs))[0].calibrated
    factors = tuple(3 * factor for factor in stratum.material)
    both = untrained()
    both.calibration = replace(model.calibration, strata=((replace(stratum, piecewise_constant=factors),),))
    piecewise_constant = both.with_piecewise_constant_prior()
    found, _ = material_of(piecewise_constant(pairs), level=0.8)
    assert found.calibrated
    posterior = widened_deviation(piecewise_constant(pairs))
    assert np.log(found.high / found.values) == pytest.approx(factors[1] * posterior, rel=1e-3)


def test_factors_come_from_the_truth_of_the_archive_and_survive_json(model):
    (stratum,) = model.calibration.strata[0]
    assert len(stratum.material) == len(model.calibration.levels)
    assert (np.diff(stratum.material) > 0).all()
    assert Calibration.from_dict(json.loads(json.dumps(model.calibration.to_dict()))) == model.calibration


def test_weights_without_a_law_get_no_factors(archive):
    found = calibrated(untrained(prior="gated", terms=2), archive, pairs=(5,), noise=(0.0,))
    assert found.calibration.strata[0][0].material == ()


def test_the_band_of_the_table_is_the_band_of_the_material(model, pairs):
    kernel = model(pairs)
    found, deviation = material_of(kernel, level=0.9, unit="N/mm")
    factor = model.calibration.strata[0][0].material[model.calibration.levels.index(0.9)]
    posterior = widened_deviation(kernel)
    assert np.log(found.high / found.values) == pytest.approx(factor * posterior, rel=1e-3)
    assert found.low * found.high == pytest.approx(found.values**2)
    assert deviation == pytest.approx(factor / NORMAL[0.9] * posterior, rel=1e-3)
    assert (found.unit, found.level) == ("N/mm", 0.9)


def test_without_calibration_bands_are_those_of_the_posterior(pairs):
    model = untrained()
    kernel = model(pairs)
    widths = []
    for level, factor in NORMAL.items():
        found, deviation = material_of(kernel, level=level)
        assert not found.calibrated
        assert np.log(found.high / found.low) == pytest.approx(2 * factor * deviation)
        widths.append(np.median(found.high / found.low))
    assert widths == sorted(widths)
    assert deviation == pytest.approx(widened_deviation(kernel), rel=1e-6)


def test_a_misfit_over_the_stated_noise_widens_the_band(pairs):
    kernels = [untrained()(replace(pairs, noise=noise)) for noise in (0.1 * pairs.noise, pairs.noise)]
    widenings = [kernel.posterior.widening for kernel in kernels]
    assert widenings[0] > 3 * widenings[1] >= 3
    alone = [kernel.posterior.deviation().median() for kernel in kernels]
    bands = [np.median(np.log(found.high / found.low)) for found, _ in map(material_of, kernels)]
    assert alone[0] < alone[1]  # the posterior believes the stated noise
    assert bands[0] > bands[1]


def test_factors_of_older_weights_are_for_the_posterior_alone(model, pairs):
    older = untrained()
    older.calibration = replace(model.calibration, widened=False)
    kernel = older(pairs)
    factor = model.calibration.strata[0][0].material[model.calibration.levels.index(0.9)]
    found, _ = material_of(kernel)
    alone = kernel.posterior.deviation().double().numpy()
    assert np.log(found.high / found.values) == pytest.approx(factor * alone, rel=1e-3)


def test_what_the_calibration_systems_do_not_cover_is_said(model, pairs):
    def first_reason(given, *, reference=(9, 9), change=lambda model: model):
        other = untrained()
        other.calibration = replace(model.calibration, reference=reference)
        return next(iter(coverage_of(change(other)(given)).reasons), None)

    assert first_reason(pairs) is None
    assert first_reason(pairs, reference=()) == SAME_DISCRETISATION
    assert "coarser than the 17 × 17 nodes" in first_reason(pairs, reference=(17, 17))
    assert first_reason(pairs.take(slice(5))) == f"5 pairs: bands were calibrated for {CONTEXT} to {CONTEXT}"
    assert "noise: bands were calibrated" in first_reason(replace(pairs, noise=3 * pairs.noise))
    sharp = first_reason(pairs, change=ConditionedNIPS.with_piecewise_constant_prior)
    assert "not calibrated for this prior" in sharp


def test_the_table_of_the_finest_grid_that_covers_a_context_counts(model, pairs):
    coarse = replace(model.calibration, reference=(5, 5), pairs=(3,), threshold=11.0)
    fine = replace(model.calibration, reference=(9, 9), threshold=12.0)
    finest = replace(model.calibration, reference=(17, 17), threshold=13.0)
    many = untrained()
    many.calibration = coarse.with_finer(fine).with_finer(finest)
    assert many.calibration == Calibration.from_dict(json.loads(json.dumps(many.calibration.to_dict())))
    assert many(pairs).bands.outlier_test.threshold == 12.0
    assert many(pairs.take(slice(3))).bands.outlier_test.threshold == 11.0  # only that table has so few pairs
    assert many.with_piecewise_constant_prior().calibration.finer.strata[0][0].material == ()
    assert fine.with_finer(coarse) == coarse
    assert fine.with_finer(model.calibration) == model.calibration  # of the same discretisation: it replaces


def test_a_level_or_weights_without_a_band_are_refused(pairs):
    for kernel, level in ((untrained()(pairs), 0.42), (untrained(prior="gated", terms=2)(pairs), 0.9)):
        with pytest.raises(KernelError) as error:
            material_of(kernel, level=level)
        assert error.value.remedy


def test_cards_written_before_materials_were_calibrated_still_load(tmp_path, pairs):
    tensors, record = checkpoint.load(SHELF / "darcy-two-phase.safetensors")
    for row in record["calibration"]["strata"]:
        for stratum in row:
            stratum.pop("material", None)
            stratum.pop("piecewise_constant", None)
    checkpoint.save(tmp_path / "old.safetensors", tensors, record)
    model = load(tmp_path / "old.safetensors")
    with torch.no_grad():
        kernel = model(pairs)
    assert model.calibration.strata[0][0].material == ()
    assert kernel.bands.material is None
    assert not material_of(kernel)[0].calibrated
    assert model.with_piecewise_constant_prior().calibration.strata[0][0].material == ()
    assert model.calibration.strata[0][0].piecewise_constant == ()


def with_gaps(pairs, share):
    mask = torch.rand(pairs.responses.shape, generator=torch.Generator().manual_seed(0)) > share
    return Pairs(pairs.grid, pairs.loads, torch.where(mask, pairs.responses, torch.nan), mask, pairs.noise)


def test_few_gaps_keep_the_factors_and_many_leave_the_posterior_alone(model, pairs):
    for share, trusted in ((0.1, True), (0.6, False)):
        holed = with_gaps(pairs, share)
        found, _ = material_of(model(holed))
        assert found.calibrated == trusted
        assert (found.low < found.values).all()
        assert (found.values < found.high).all()


def test_gaps_of_one_system_do_not_widen_the_bands_of_another(model, pairs):
    (stratum,) = model.calibration.strata[0]
    wider = replace(stratum, material=tuple(5 * factor for factor in stratum.material))
    graded = untrained()
    graded.calibration = replace(model.calibration, noise=(0.0, 0.1), strata=((stratum, wider),))
    few, many = with_gaps(pairs, 0.02), with_gaps(pairs, 0.25)
    fields = [torch.stack([getattr(one, name) for one in (few, many)]) for name in ("loads", "responses", "mask")]
    both = Pairs(pairs.grid, *fields, noise=pairs.noise)
    alone, together = graded(few).bands.material, graded(both).bands.material[0]
    assert together.numpy() == pytest.approx(alone.numpy(), rel=1e-2)
