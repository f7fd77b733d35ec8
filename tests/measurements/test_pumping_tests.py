import zipfile
from math import pi

import numpy as np
import pytest

from nipde.errors import MeasurementError, NipdeError
from nipde.grid import Grid
from nipde.measurements.late_drawdown import Drawdown, late_drawdown
from nipde.measurements.pumping_tests import PumpingCampaign
from nipde.measurements.read import read
from nipde.measurements.sandbox import Limits
from tests.measurements.campaign_files import (
    RATE,
    STORATIVITY,
    TIMES,
    TRANSMISSIVITY,
    WELLS,
    homogeneous_campaign,
    info,
    theis,
    well,
    write_campaign,
    zipped,
)
from tests.measurements.damaged_files import mutated


@pytest.mark.parametrize("version", ["", "1.2.0"], ids=["first layout", "with a version"])
def test_a_campaign_comes_back_as_it_was_written(tmp_path, version):
    campaign = PumpingCampaign.read(homogeneous_campaign(tmp_path / "site.cmp", version=version))
    assert campaign.wells == WELLS
    assert [(test.name, test.well, test.rate) for test in campaign.tests] == [
        ("test_a", "a", RATE), ("test_b", "b", RATE), ("test_c", "c", RATE),
    ]  # fmt: skip
    seen = campaign.tests[1].drawdowns["e"]
    np.testing.assert_array_equal(seen.time, TIMES)
    np.testing.assert_array_equal(seen.drawdown, theis(campaign.distance("b", "e"), TIMES))


def test_units_are_those_of_the_file(tmp_path):
    metres, centimetres = (
        PumpingCampaign.read(homogeneous_campaign(tmp_path / f"{unit}.cmp", unit=unit)) for unit in ("m", "cm")
    )
    first, second = (one.tests[0].drawdowns["b"].drawdown for one in (metres, centimetres))
    np.testing.assert_allclose(first, 100 * second)


def test_late_drawdowns_have_the_slope_of_the_aquifer_and_differences_of_steady_flow(tmp_path):
    campaign = PumpingCampaign.read(homogeneous_campaign(tmp_path / "site.cmp"))
    late = campaign.tests[0].late(since=2000)
    assert "a" not in late
    slope = RATE / (4 * pi * TRANSMISSIVITY)
    assert late["b"].common_slope == pytest.approx(slope, rel=2e-3)
    assert all(one.steady for one in late.values())
    ratio = campaign.distance("a", "e") / campaign.distance("a", "b")
    assert late["b"].level - late["e"].level == pytest.approx(2 * slope * np.log(ratio), rel=2e-3)
    assert late["b"].at(5000.0) == pytest.approx(float(theis(campaign.distance("a", "b"), np.array(5000.0))), rel=1e-3)


def test_a_well_that_still_waits_for_the_drawdown_is_not_steady(tmp_path):
    far = {**WELLS, "far": (300.0, 0.0)}
    seen = {name: (TIMES, theis(max(float(np.hypot(*place)), 0.1), TIMES)) for name, place in far.items()}
    campaign = PumpingCampaign.read(write_campaign(tmp_path / "far.cmp", far, {"one": ("a", RATE, seen)}))
    late = campaign.tests[0].late(since=2000)
    assert 300.0**2 * STORATIVITY / (4 * TRANSMISSIVITY * 7200) > 0.03
    assert [name for name, one in late.items() if not one.steady] == ["far"]
    assert late["far"].deviation > 10 * late["b"].deviation


def test_deviations_of_levels_are_at_least_those_of_repeated_tests(tmp_path):
    noise = 5e-4
    found = [
        PumpingCampaign.read(homogeneous_campaign(tmp_path / f"{seed}.cmp", noise=noise, seed=seed)).tests[0]
        for seed in range(12)
    ]
    late = [test.late(since=2000) for test in found]
    spread = np.std([one["b"].level - one["c"].level for one in late])
    assert spread == pytest.approx(noise * np.sqrt(2 / late[0]["b"].readings), rel=0.5)
    assert spread < np.sqrt(2 * np.mean([one["b"].deviation ** 2 for one in late]))  # it also holds what still changes


def test_readings_are_differences_and_the_pumped_well_is_a_gap(tmp_path):
    campaign = PumpingCampaign.read(homogeneous_campaign(tmp_path / "site.cmp"))
    grid = Grid.uniform(41, length=80.0)
    pairs = campaign.sensor_pairs(grid, origin=(-40.0, -40.0), since=2000, error=0.3)
    readings = pairs.readings.numpy()
    np.testing.assert_array_equal(np.isnan(readings), np.arange(6) == np.arange(3)[:, None])
    np.testing.assert_allclose(np.nanmean(readings, axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(grid.integrate(pairs.loads[:, 0].numpy()), RATE)
    assert float(pairs.noise.min()) >= 0.3 * RATE
    np.testing.assert_allclose(pairs.sensors.points - 40, list(WELLS.values()))


def test_rounded_readings_that_stand_still_have_the_error_of_their_last_digit():
    rounded = Drawdown(np.arange(1.0, 9), np.array([0.0, 0.1, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5]))
    late = late_drawdown({"a": rounded, "b": rounded}, since=4.0)
    assert late["a"].deviation == pytest.approx(0.1 / np.sqrt(12 * 5))


@pytest.mark.parametrize("since", [0.0, -1.0, 7200.0, 6000.0, np.nan], ids=str)
def test_too_few_late_readings_are_refused(tmp_path, since):
    campaign = PumpingCampaign.read(homogeneous_campaign(tmp_path / "site.cmp"))
    with pytest.raises(MeasurementError):
        campaign.tests[0].late(since=since)


def changed(path, **members):
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist()}
    path.write_bytes(zipped({**kept, **members}))
    return path


HOSTILE = {
    "parent": {"../x.wel": b""},
    "absolute": {"/etc/x.wel": b""},
    "below": {"a/x.wel": b""},
    "backslash": {"a\\x.wel": b""},
    "pickle": {"x.pkl": b"cos\nsystem\n"},
    "no info": {"a.wel": zipped({})},
    "bomb": {"a.wel": zipped({"info.csv": "0" * 2**26})},
    "another kind": {"a.wel": zipped({"info.csv": info(("Campaign", None))})},
    "later version": {"a.wel": well("a", (0.0, 0.0), version="2.0.0")},
    "no number": {
        "a.wel": zipped({"info.csv": info(("Well", None), ("radius", "r.var")), "r.var": '"Variable"\n"value",x'})
    },
    "no archive": {"a.wel": b"PK nothing"},
    "endless list": {"info.csv": info(("Campaign", None), ("Wells", 10**9), ("Tests", 0))},
    "negative list": {"info.csv": info(("Campaign", None), ("Wells", -1), ("Tests", 1), ("t", "info.csv"))},
    "itself": {"info.csv": info(("Campaign", None), ("Wells", 1), ("a", "info.csv"), ("Tests", 0))},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_campaigns_are_refused(tmp_path, name):
    path = changed(homogeneous_campaign(tmp_path / "site.cmp"), **HOSTILE[name])
    with pytest.raises(MeasurementError):
        PumpingCampaign.read(path, limits=Limits(seconds=5, memory=2**30, values=2**20))


def test_damaged_campaigns_are_read_or_refused(tmp_path):
    path, rng = homogeneous_campaign(tmp_path / "site.cmp"), np.random.default_rng(0)
    content, refused = path.read_bytes(), 0
    for _ in range(60):
        path.write_bytes(mutated(content, rng))
        try:
            PumpingCampaign.read(path)
        except NipdeError:
            refused += 1
    assert refused > 20


def test_too_many_values_are_refused(tmp_path):
    path = homogeneous_campaign(tmp_path / "site.cmp")
    with pytest.raises(MeasurementError):
        PumpingCampaign.read(path, limits=Limits(values=200))


def test_a_test_of_an_unknown_well_is_refused(tmp_path):
    path = write_campaign(tmp_path / "x.cmp", {"a": (0.0, 0.0)}, {"one": ("a", 1.0, {"b": (TIMES, TIMES)})})
    with pytest.raises(MeasurementError) as error:
        PumpingCampaign.read(path)
    assert error.value.got == "b"


def test_reading_a_campaign_as_arrays_says_how_it_is_read(tmp_path):
    with pytest.raises(MeasurementError) as error:
        read(homogeneous_campaign(tmp_path / "site.cmp"))
    assert "PumpingCampaign" in error.value.remedy
