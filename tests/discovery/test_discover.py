"""From a measurement to what is inside: the bundled sample is solved, and odd measurements are not turned away."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import nipde
from nipde.boundary import Neumann
from nipde.discovery.discover import discover
from nipde.discovery.held_out import split
from nipde.discovery.phases import agreement
from nipde.errors import NipdeError, PairsError
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Measurement, Source
from nipde.measurements.units import Units
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

GRID = Grid.uniform(9)
STEPS = ["held-out pairs", "kernel", "material", "next load"]


@pytest.fixture(scope="module")
def found():
    """What is said of the bundled membrane, and what was heard meanwhile."""
    heard = []
    discovery = discover(nipde.read(nipde.sample()), nipde.load("darcy-two-phase"), progress=heard.append)
    return discovery, heard


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return ConditionedNIPS(dimension=2, channels=8).eval().requires_grad_(False)


def measured(grid=GRID, *, count=6, noise=0.0, mask=None, seed=0):
    """A measurement of a rock of two phases, without any file."""
    rng = np.random.default_rng(seed)
    rock = TwoPhase()(GaussianField(4.0, waves=6).sample(grid, rng=rng, count=1)[0])
    loads = GaussianField(1.0, waves=6, rms=1.0).sample(grid, rng=rng, count=count)
    pairs = nipde.Pairs.from_arrays(loads, Darcy(grid, rock).solve(loads), grid=grid, noise=noise, mask=mask)
    source = Source("rock.npz", "npz", "0" * 64)
    return Measurement(pairs, Units("mm", "N/mm^2", "mm"), (0.0,) * grid.dimension, (source,), ())


# The bundled sample


def test_the_phases_of_the_membrane_are_found(found):
    discovery, truth = found[0], nipde.sample_truth()
    free = discovery.kernel.grid.unknown
    assert agreement(discovery.phases.labels, (truth > 6).astype(int), among=free) >= 0.99
    assert discovery.phases.levels == pytest.approx((3, 12), rel=0.05)
    assert 3 < discovery.phases.thresholds[0] < 12
    assert np.mean(discovery.phases.uncertain[free]) <= 0.05


def test_bands_hold_about_their_share_of_the_membrane(found):
    material, truth = found[0].material, nipde.sample_truth()
    free = found[0].kernel.grid.unknown
    assert np.mean(((material.low <= truth) & (truth <= material.high))[free]) >= 0.75
    assert np.median((material.high / material.low)[free]) <= 1.1  # and they are narrow
    assert (material.level, material.unit) == (0.9, "N/mm")


def test_held_out_pairs_are_answered_and_were_not_told(found):
    discovery = found[0]
    held_out = discovery.held_out
    assert len(set(held_out.indices)) == len(held_out.indices) == 4
    assert held_out.errors.shape == (4,)
    assert float(held_out.errors.max()) <= 0.01
    loads = discovery.measurement.pairs.loads[:, 0].numpy()
    assert held_out.loads == pytest.approx(loads[list(held_out.indices)])
    assert not held_out.mask.all()  # gaps of the sample


def test_rivals_have_names_fields_and_errors_of_their_own(found):
    tikhonov, variation = found[0].rivals
    assert (tikhonov.name, variation.name) == ("Tikhonov", "total variation")
    for one in (tikhonov, variation):
        assert np.isfinite(one.values).all()
        assert 0 < one.held_out_error < 0.1


def test_the_verdict_is_plain_sentences_with_the_material_first(found):
    verdict = found[0].verdict
    assert len(verdict) >= 5
    for sentence in verdict:
        assert sentence.endswith(".")
        assert "nan" not in sentence
    assert verdict[0].startswith("2 phases: b is 3 N/mm")
    assert "best classical inversion" in verdict[1]
    assert any("kept out are answered to" in sentence for sentence in verdict)


def test_few_gaps_leave_an_alarm_that_is_not_raised(found):
    assert not bool(found[0].kernel.alarm.raised)
    assert found[0].kernel.alarm.reasons() in found[0].verdict


def test_what_was_done_is_written_down_and_told_meanwhile(found):
    discovery, heard = found
    assert heard == [*STEPS[:3], "Tikhonov", "total variation", STEPS[3]]
    provenance = discovery.provenance
    assert provenance["files"][0]["name"] == "membrane.npz"
    assert (provenance["weights"], discovery.weights) == ("darcy-two-phase", "darcy-two-phase")
    assert provenance["pairs"] == 20
    assert provenance["seconds"] > 0
    assert len(provenance["weights_sha256"]) == 64


# Other measurements


def test_a_whole_measurement_with_calibrated_weights_can_raise_an_alarm_but_not_for_its_units():
    model = nipde.load("darcy-two-phase")
    measurement = measured(count=8)
    discovery = discover(measurement, model, rivals=(), sharp=False)
    other = replace(measurement, pairs=measurement.pairs.scaled(load=1e6))
    again = discover(other, model, rivals=(), sharp=False)
    for one in (discovery, again):
        assert "stiffness" not in one.kernel.alarm.scores
        assert one.kernel.alarm.reasons() in one.verdict
    assert bool(again.kernel.alarm.raised) == bool(discovery.kernel.alarm.raised)
    assert again.material.values == pytest.approx(1e6 * discovery.material.values, rel=1e-2)


def test_many_gaps_leave_no_alarm_to_give():
    mask = np.random.default_rng(0).random((2, *GRID.shape)) > 0.5
    discovery = discover(measured(count=2, mask=mask), nipde.load("darcy-two-phase"), rivals=())
    assert discovery.kernel.trust is None
    assert not discovery.material.calibrated
    assert any("No alarm can be given" in sentence for sentence in discovery.verdict)


def test_other_weights_have_another_digest(model):
    torch.manual_seed(1)
    other = ConditionedNIPS(dimension=2, channels=8).eval().requires_grad_(False)
    digests = {
        discover(measured(count=2), one, rivals=()).provenance["weights_sha256"] for one in (model, other, model)
    }
    assert len(digests) == 2


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("rivals", [(), ("Tikhonov",)], ids=["alone", "compared"])
def test_one_or_two_pairs_are_enough_to_say_something(model, count, rivals):
    discovery = discover(measured(count=count), model, rivals=rivals)
    assert discovery.held_out is None
    assert any("Too few pairs" in sentence for sentence in discovery.verdict)
    assert np.isfinite(discovery.material.values).all()
    for one in discovery.rivals:
        assert np.isnan(one.held_out_error)


def test_without_rivals_none_is_spoken_of(model):
    heard = []
    discovery = discover(measured(count=4), model, rivals=(), progress=heard.append)
    assert heard == STEPS
    assert discovery.rivals == ()
    assert not any("classical" in sentence for sentence in discovery.verdict)


def test_whether_b_jumps_may_be_told_or_is_tried(model):
    measurement = measured(noise=0.001)
    told = [discover(measurement, model, rivals=(), sharp=sharp) for sharp in (False, True)]
    assert [one.provenance["sharp"] for one in told] == [False, True]
    tried = discover(measurement, model, rivals=())
    errors = [float(one.held_out.errors.mean()) for one in (*told, tried)]
    assert errors[2] == pytest.approx(min(errors[:2]), rel=1e-5)
    assert not model.sharp


def test_an_even_material_is_one_phase(model):
    grid = Grid.uniform(9)
    measurement = measured(grid)
    answers = Darcy(grid, np.full(grid.shape, 3.0)).solve(measurement.pairs.loads[:, 0].numpy())
    even = replace(measurement, pairs=nipde.Pairs.from_arrays(measurement.pairs.loads, answers, grid=grid, noise=0.0))
    discovery = discover(even, model, rivals=(), sharp=True)
    assert discovery.phases.levels == pytest.approx((3,), rel=0.01)
    assert discovery.verdict[0].startswith("One material, b = 3 N/mm")


def test_phases_are_as_many_as_asked_for_at_most(model):
    discovery = discover(measured(count=8), model, rivals=(), phases=3, sharp=True)
    assert 2 <= len(discovery.phases.levels) <= 3
    assert np.isfinite(discovery.phases.levels).all()


def test_a_pair_without_load_or_response_spoils_nothing(model):
    measurement = measured(count=6)
    kept_out = split(measurement.pairs)[2][0]
    loads, responses = measurement.pairs.loads.clone(), measurement.pairs.responses.clone()
    loads[kept_out], responses[kept_out] = 0, 0
    idle = replace(measurement, pairs=nipde.Pairs(measurement.pairs.grid, loads, responses, noise=0.0))
    discovery = discover(idle, model, rivals=())
    assert np.isfinite(discovery.held_out.errors).all()
    assert not any("nan" in sentence for sentence in discovery.verdict)


def test_a_sliding_side_and_a_long_plate_are_no_obstacle(model):
    grid = Grid((Axis(9, 40.0), Axis(11, 200.0, Neumann())))
    discovery = discover(measured(grid, count=4), model, rivals=())
    assert discovery.material.values.shape == grid.shape
    assert (discovery.material.low > 0).all()


def test_what_cannot_be_discovered_is_refused_with_a_reason(model):
    measurement = measured()
    fields = torch.ones(3, 2, 9, 9, dtype=torch.float64)
    two = replace(measurement, pairs=nipde.Pairs(measurement.pairs.grid, fields, fields))
    with pytest.raises(PairsError, match="components"):
        discover(two, model, rivals=())
    pairs = measurement.pairs
    batch = nipde.Pairs(pairs.grid, pairs.loads[None], pairs.responses[None], noise=0.0)
    with pytest.raises(PairsError, match="the pairs of one system"):
        discover(replace(measurement, pairs=batch), model)
    with pytest.raises(PairsError, match="expected 2 axes"):
        discover(measured(Grid((Axis(9),))), model, rivals=())
    gated = ConditionedNIPS(dimension=2, channels=4, prior="gated", terms=2).eval().requires_grad_(False)
    for count in (2, 6):
        with pytest.raises(NipdeError, match="weights that infer a material"):
            discover(measured(count=count), gated, rivals=())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"level": 0.42}, "a level among"),
        ({"phases": 0}, "1 or more phases"),
        ({"rivals": ("guess",)}, "guess"),
    ],
    ids=["level", "phases", "rival"],
)
def test_wishes_that_cannot_be_met_are_refused_before_anything_is_computed(model, options, text):
    heard = []
    with pytest.raises(NipdeError, match=text):
        discover(measured(count=2), model, **{"rivals": (), **options}, progress=heard.append)
    assert heard == []
