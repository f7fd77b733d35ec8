"""Material identification: the bundled sample is solved, and unusual measurements are not refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import nipde
from nipde.boundary import Neumann
from nipde.discovery.discover import discover, split
from nipde.discovery.held_out_check import HeldOutCheck
from nipde.errors import KernelError, PairsError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.inverse.adjoint import BASELINES
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Measurement, Source
from nipde.measurements.units import Units
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.report.statements import statements

GRID = Grid.uniform(9)
STEPS = ["held-out pairs", "kernel", "material", "recommended loads"]


@pytest.fixture(scope="module")
def found():
    """The discovery of the bundled membrane, and its steps."""
    steps, measurement = [], nipde.read(nipde.sample())
    return discover(
        measurement, SensorInversion(), quantity="tension", baselines=BASELINES, progress=steps.append
    ), steps


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return ConditionedNIPS(dimension=2, channels=8).eval().requires_grad_(False)


def measured(grid=GRID, *, count=6, noise=0.0, mask=None, seed=0):
    """A measurement of a two-phase permeability, without any file."""
    rng = np.random.default_rng(seed)
    permeability = TwoPhase()(GaussianField(4.0, waves=6).sample(grid, rng=rng, count=1)[0])
    loads = GaussianField(1.0, waves=6, rms=1.0).sample(grid, rng=rng, count=count)
    pairs = nipde.Pairs.from_arrays(loads, Darcy(grid, permeability).solve(loads), grid=grid, noise=noise, mask=mask)
    source = Source("heads.npz", "npz", "0" * 64)
    return Measurement(pairs, Units("mm", "N/mm^2", "mm"), (0.0,) * grid.dimension, (source,), ())


# The bundled sample


def test_the_phases_of_the_membrane_are_identified(found):
    discovery, truth = found[0], nipde.measurements.sample_truth()
    free = discovery.kernel.grid.unknown
    assert np.mean((discovery.phases.labels == (truth > 6))[free]) >= 0.98
    assert discovery.phases.medians == pytest.approx((3, 12), rel=0.005)
    assert 3 < discovery.phases.thresholds[0] < 12
    assert np.mean(discovery.phases.uncertain[free]) <= 0.1


def test_bands_hold_about_their_share_of_the_membrane(found):
    material, truth = found[0].material, nipde.measurements.sample_truth()
    free = found[0].kernel.grid.unknown
    within = np.mean(((material.low <= truth) & (truth <= material.high))[free])
    # Of bands of 90 %: levels of two phases are two numbers, and one of them is off by 0.2 %.
    assert within >= 0.6
    assert np.median((material.high / material.low)[free]) <= 1.02  # and they are narrow
    assert found[0].coverage.covered
    assert (material.level, material.unit) == (0.9, "N/mm")


def test_a_discovery_is_not_covered_if_held_out_readings_object(found, tmp_path):
    discovery, _ = found
    assert not discovery.held_out.check.fails
    assert any("as noise and bands allow" in sentence for sentence in statements(discovery))
    failed = replace(discovery, held_out=replace(discovery.held_out, check=HeldOutCheck(7.0, 50.0)))
    assert failed.coverage.reasons == (*discovery.coverage.reasons, failed.held_out.check.reason)
    assert any("more than noise and bands allow" in sentence for sentence in statements(failed))
    summary = json.loads((failed.save(tmp_path / "found") / "summary.json").read_text())
    assert summary["held_out"]["check"] == {"variance_ratio": 7.0, "excess": 50.0, "fails": True}


def test_held_out_pairs_are_predicted(found):
    discovery = found[0]
    held_out = discovery.held_out
    assert len(set(held_out.indices)) == len(held_out.indices) == 4
    assert held_out.errors.shape == (4,)
    assert float(held_out.errors.max()) <= 0.015  # the readings have noise of 1 %
    loads = discovery.measurement.pairs.loads[:, 0].numpy()
    assert held_out.loads == pytest.approx(loads[list(held_out.indices)])
    assert not held_out.mask.all()  # gaps of the sample


def test_baselines_have_names_fields_and_errors(found):
    tikhonov, variation = found[0].baselines
    assert (tikhonov.name, variation.name) == ("Tikhonov", "total variation")
    for one in (tikhonov, variation):
        assert np.isfinite(one.values).all()
        assert 0 < one.held_out_error < 0.1


def test_few_gaps_leave_an_outlier_test_that_passes(found):
    assert not bool(found[0].kernel.outlier_test.is_outlier)


def test_provenance_and_progress(found):
    discovery, steps = found
    assert steps == [*STEPS[:3], "Tikhonov", "total variation", STEPS[3]]
    provenance = discovery.provenance
    assert provenance["files"][0]["name"] == "membrane.npz"
    assert (provenance["weights"], discovery.estimator) == ("SensorInversion", "SensorInversion")
    assert provenance["pairs"] == 20
    assert provenance["seconds"] > 0
    assert len(provenance["weights_sha256"]) == 64


# Other measurements


def test_the_outlier_test_does_not_depend_on_units():
    model = nipde.load("darcy-two-phase")
    measurement = measured(count=8)
    discovery = discover(measurement, model, piecewise_constant=False)
    other = replace(measurement, pairs=measurement.pairs.scaled(load=1e6))
    again = discover(other, model, piecewise_constant=False)
    for one in (discovery, again):
        assert "stiffness" not in one.kernel.outlier_test.scores
    assert bool(again.kernel.outlier_test.is_outlier) == bool(discovery.kernel.outlier_test.is_outlier)
    assert again.material.values == pytest.approx(1e6 * discovery.material.values, rel=1e-2)


def test_many_gaps_leave_no_outlier_test():
    mask = np.random.default_rng(0).random((2, *GRID.shape)) > 0.5
    discovery = discover(measured(count=2, mask=mask), nipde.load("darcy-two-phase"))
    assert discovery.kernel.bands is None
    assert not discovery.material.calibrated
    assert discovery.kernel.outlier_test is None


def test_other_weights_have_another_digest(model):
    torch.manual_seed(1)
    other = ConditionedNIPS(dimension=2, channels=8).eval().requires_grad_(False)
    digests = {discover(measured(count=2), one).provenance["weights_sha256"] for one in (model, other, model)}
    assert len(digests) == 2


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("names", [(), ("Tikhonov",)], ids=["alone", "compared"])
def test_one_or_two_pairs_give_a_coefficient_but_no_held_out_error(model, count, names):
    discovery = discover(measured(count=count), model, baselines={name: BASELINES[name] for name in names})
    assert discovery.held_out is None
    assert np.isfinite(discovery.material.values).all()
    assert tuple(one.name for one in discovery.baselines) == names
    for one in discovery.baselines:
        assert np.isnan(one.held_out_error)


def test_the_prior_is_given_or_selected_by_the_held_out_error(model):
    measurement = measured(noise=0.001)
    given = [
        discover(measurement, model, piecewise_constant=piecewise_constant) for piecewise_constant in (False, True)
    ]
    assert [one.provenance["piecewise_constant"] for one in given] == [False, True]
    selected = discover(measurement, model)
    errors = [float(one.held_out.errors.mean()) for one in (*given, selected)]
    assert errors[2] == pytest.approx(min(errors[:2]), rel=1e-5)
    assert not model.piecewise_constant


def test_a_homogeneous_material_is_one_phase(model):
    grid = Grid.uniform(9)
    measurement = measured(grid)
    responses = Darcy(grid, np.full(grid.shape, 3.0)).solve(measurement.pairs.loads[:, 0].numpy())
    homogeneous = replace(
        measurement, pairs=nipde.Pairs.from_arrays(measurement.pairs.loads, responses, grid=grid, noise=0.0)
    )
    discovery = discover(homogeneous, model, piecewise_constant=True)
    assert discovery.phases.medians == pytest.approx((3,), rel=0.01)


def test_there_are_at_most_so_many_phases(model):
    discovery = discover(measured(count=8), model, phases=3, piecewise_constant=True)
    assert 2 <= len(discovery.phases.medians) <= 3
    assert np.isfinite(discovery.phases.medians).all()


def test_a_pair_without_load_or_response_spoils_nothing(model):
    measurement = measured(count=6)
    kept_out = split(measurement.pairs)[2][0]
    loads, responses = measurement.pairs.loads.clone(), measurement.pairs.responses.clone()
    loads[kept_out], responses[kept_out] = 0, 0
    idle = replace(measurement, pairs=nipde.Pairs(measurement.pairs.grid, loads, responses, noise=0.0))
    discovery = discover(idle, model)
    assert np.isfinite(discovery.held_out.errors).all()
    assert not any("nan" in sentence for sentence in statements(discovery))


def test_a_neumann_side_and_a_long_domain(model):
    grid = Grid((Axis(9, 40.0), Axis(11, 200.0, Neumann())))
    discovery = discover(measured(grid, count=4), model)
    assert discovery.material.values.shape == grid.shape
    assert (discovery.material.low > 0).all()


def test_what_cannot_be_identified_is_refused(model):
    measurement = measured()
    pairs, fields = measurement.pairs, torch.ones(3, 2, 9, 9, dtype=torch.float64)
    two = replace(measurement, pairs=nipde.Pairs(pairs.grid, fields, fields))
    batch = replace(measurement, pairs=nipde.Pairs(pairs.grid, pairs.loads[None], pairs.responses[None], noise=0.0))
    gated = ConditionedNIPS(dimension=2, channels=4, prior="gated", terms=2).eval().requires_grad_(False)
    for given, estimator, kind in (
        (two, model, PairsError),
        (batch, model, PairsError),
        (measured(Grid((Axis(9),))), model, PairsError),
        (measured(count=2), gated, KernelError),
        (measured(count=6), gated, KernelError),
        (measured(count=6), nipde.Ridge(), KernelError),
    ):
        with pytest.raises(kind) as error:
            discover(given, estimator)
        assert error.value.expected


@pytest.mark.parametrize("options", [{"level": 0.42}, {"phases": 0}], ids=["level", "phases"])
def test_wrong_options_are_refused_before_anything_is_computed(model, options):
    steps = []
    with pytest.raises(KernelError):
        discover(measured(count=2), model, **options, progress=steps.append)
    assert steps == []
