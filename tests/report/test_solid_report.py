"""What was found of a plane solid as a folder: files that agree with each other, and a page with nothing to fetch."""

import csv
import hashlib
import json
import re
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from scipy.stats import norm

from nipde.context.solid_tests import SolidTests
from nipde.discretisation.parts import ClampedPart, RollerPart, Specimen
from nipde.discretisation.solid_load import SolidLoad
from nipde.errors import NipdeError
from nipde.estimators.inverse.solid_inversion import SolidInversion
from nipde.measurements.bench import Bench
from nipde.measurements.solid_file import SolidMeasurement, read_solid
from nipde.physics.plane_elasticity import PlaneElasticity
from nipde.report.files import DIGESTS
from nipde.report.files import SOLID_NAMES as NAMES
from nipde.report.numbers import percent
from nipde.report.solid_report import ALARMS, SolidDiscovery, modulus, solid_page
from nipde.shape import Shape

HOLE = Shape.disc((40.0, 14.0), 5.0, vertices=48).rings[0]
SHAPE = Shape.polygon([(0, 0), (60, 0), (60, 30), (0, 30)], holes=[HOLE]).with_sides()
LATTICE = np.stack(np.meshgrid(np.arange(3.5, 60, 4.0), np.arange(2.5, 30, 4.0), indexing="ij"), -1).reshape(-1, 2)
POINTS = LATTICE[SHAPE.contains(LATTICE)]
NOISE, MODULUS, POISSON = 0.01, 3000.0, 0.35
PULLED = Bench(clamped=("left",), tractions=({"right": "20 MPa"},))
#: No bold type, no picture and no program.
NAME = '<b>tom & "jerry\'s"<img src=x><script>.csv'
#: Errors of its mesh are a third of the noise.
ONE = SolidInversion(homogeneous=True, material=8, solver=16)


def seen_by_camera(specimen, load, value, *, noise):
    body = PlaneElasticity.of(specimen, value, poisson=POISSON, spacing=1.7)
    exact = body.displacements([load], POINTS)
    return exact + noise * np.random.default_rng(0).standard_normal(exact.shape)


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    """A file of the camera, and the outline."""
    place = tmp_path_factory.mktemp("laboratory")
    load = SolidLoad(tractions={"right": (20.0, 0.0)})
    seen = seen_by_camera(Specimen(SHAPE, {"left": ClampedPart()}), load, MODULUS, noise=NOISE)[0]
    rows = [f"{x},{y},{u},{v}" for (x, y), (u, v) in zip(POINTS.tolist(), seen.T.tolist(), strict=True)]
    (place / NAME).write_text("\n".join(["x,y,U,V", *rows]))
    rings = [[*ring.tolist(), ring[0].tolist()] for ring in SHAPE.rings]
    (place / "plate.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": rings}))
    return place


def read_plate(laboratory, bench=PULLED, **more):
    units = {"x": "mm", "response": "mm"}
    return read_solid([laboratory / NAME], bench, units=units, outline=laboratory / "plate.geojson", **more)


@pytest.fixture(scope="module")
def discovery(laboratory):
    measurement = read_plate(laboratory, noise="10 um", uncertain=("motion",))
    return SolidDiscovery(measurement, ONE(measurement.tests))


@pytest.fixture(scope="module")
def folder(discovery, tmp_path_factory):
    return discovery.save(tmp_path_factory.mktemp("found") / "new" / "modulus")


@pytest.fixture(scope="module")
def summary(folder):
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads((folder / "summary.json").read_text(encoding="utf-8"), parse_constant=refuse)


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


# The folder


def test_every_file_is_there_and_is_what_its_digest_says(folder):
    assert {path.name for path in folder.iterdir()} == {*NAMES, DIGESTS}
    assert {path.name for path in folder.parent.iterdir()} == {folder.name}
    lines = [line.split("  ") for line in (folder / DIGESTS).read_text().splitlines()]
    assert {name: digest for digest, name in lines} == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in NAMES
    }


def test_the_summary_says_what_was_found_and_of_which_files(summary, laboratory, discovery):
    (phase,) = summary["phases"]
    assert phase["low"] < phase["modulus"] < phase["high"]
    assert phase["low"] < MODULUS < phase["high"] < 1.15 * phase["low"]
    assert phase["share"] == 1
    poisson = summary["poisson"]
    assert not poisson["stated"]
    assert abs(poisson["value"] - POISSON) < poisson["half_width"] < 0.05
    (source,) = summary["sources"]
    assert source["sha256"] == hashlib.sha256((laboratory / NAME).read_bytes()).hexdigest()
    assert (source["name"], source["format"]) == (NAME, "csv")
    assert (summary["unit"], summary["length"], summary["level"]) == ("MPa", "mm", 0.9)
    assert (summary["model"], summary["alarms"]) == ("homogeneous", [])
    assert summary["statements"] == discovery.statements()
    assert summary["notes"] == [str(note) for note in discovery.measurement.notes]
    assert summary["fit"]["readings"] == 2 * len(POINTS)
    assert 0.6 < summary["fit"]["chi_square"] < 1.2


def test_fields_are_known_inside_and_nowhere_else(folder, summary):
    with np.load(folder / "modulus.npz", allow_pickle=False) as stored:
        x, y, fields = stored["x"], stored["y"], {name: stored[name] for name in stored.files if "modulus" in name}
        assert str(stored["unit"]) == "MPa"
    assert (x[0], x[-1], y[0], y[-1]) == (0, 60, 0, 30)
    assert np.allclose(np.diff(x), x[1])
    inside = SHAPE.covers(np.stack(np.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 2)).reshape(len(x), len(y))
    assert 0.03 < np.mean(~inside) < 0.06  # the hole
    assert set(fields) == {"modulus", "modulus_low", "modulus_high"}
    for values in fields.values():
        assert np.array_equal(np.isfinite(values), inside)
    low, middle, high = (fields[name][inside] for name in ("modulus_low", "modulus", "modulus_high"))
    assert np.all(low < middle)
    assert np.all(middle < high)
    assert middle == pytest.approx(summary["phases"][0]["modulus"])


def test_the_table_has_a_row_for_every_node_inside(folder, discovery):
    with (folder / "modulus.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["x [mm]", "y [mm]", "modulus", "modulus_low", "modulus_high"]
    table = np.array(rows, dtype=float)
    assert len(table) == discovery.inside.sum() < discovery.inside.size
    assert SHAPE.covers(np.round(table[:, :2], 3)).mean() > 0.99
    for column, values in enumerate(discovery.fields.values(), start=2):
        np.testing.assert_allclose(table[:, column], values[discovery.inside], rtol=1e-5)


def test_an_earlier_result_is_replaced_and_anything_else_left_alone(discovery, folder, tmp_path):
    kept = (folder / "modulus.csv").read_bytes()
    place = tmp_path / "modulus"
    place.mkdir()
    (place / "thesis.txt").write_text("five years")
    with pytest.raises(NipdeError, match=r"thesis\.txt"):
        discovery.save(place)
    assert [path.name for path in place.iterdir()] == ["thesis.txt"]
    (place / "thesis.txt").unlink()
    for name in ("summary.json", "modulus.csv", "report.html"):
        (place / name).write_text("of yesterday")
    discovery.save(place)
    assert (place / "modulus.csv").read_bytes() == kept
    assert {path.name for path in place.iterdir()} == {*NAMES, DIGESTS}
    assert json.loads((place / "summary.json").read_text(encoding="utf-8"))["kind"] == "plane solid"


# The page


def test_the_page_says_what_was_found(page, discovery):
    for sentence in discovery.statements():
        assert f"<li>{escape(sentence).replace('&#x27;', '&#39;')}</li>" in page
    for note in discovery.measurement.notes:
        assert escape(str(note)).replace("&quot;", "&#34;").replace("&#x27;", "&#39;") in page
    assert discovery.measurement.sources[0].sha256 in page
    assert 'class="ringing"' not in page
    assert len(re.findall(r'<img class="drawn" alt="[^"]+" src="data:image/png;base64,iVBOR', page)) == 2


def test_the_page_fetches_nothing_and_runs_nothing(page):
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert {source[:5] for source in re.findall(r'(?:src|href)="([^"]*)', page)} == {"data:"}
    assert not re.findall(r"url\((?!#)|@import|\son\w+=", page.split("<body>")[0])


def test_names_of_files_are_text(page):
    for tag in ("<b>", "<script>", "<img src=x>"):
        assert tag not in page
    named = "&lt;b&gt;tom &amp; &#34;jerry&#39;s&#34;&lt;img src=x&gt;&lt;script&gt;.csv"
    assert f"<title>Young's modulus: {named}</title>" in page
    assert f"<h1>Young's modulus of {named}</h1>" in page
    assert f"<td>{named}</td>" in page


def test_a_ratio_that_equal_tension_leaves_open_is_said_to_be(discovery):
    rolling = Specimen(Shape.rectangle(60.0, 30.0), {"left": RollerPart("x"), "bottom": RollerPart("y")})
    pulled = SolidLoad(tractions={"right": (20.0, 0.0), "top": (0.0, 20.0)})
    seen = PlaneElasticity.of(rolling, MODULUS, poisson=POISSON, spacing=1.7).displacements([pulled], POINTS)
    law = ONE(SolidTests.from_arrays(rolling, [pulled], POINTS, seen, noise=NOISE))
    found = SolidDiscovery(discovery.measurement, law)
    assert "as expected of most solids but rubber: these tests leave it open" in found.statements()[2]
    assert found.to_dict()["poisson"]["open"]
    assert ">left open<" in solid_page(found)
    (phase,) = found.phases
    assert phase.low < MODULUS < phase.high
    assert phase.high > 1.3 * phase.low


def test_noise_that_is_stated_too_low_rings(laboratory):
    measurement = read_plate(laboratory, noise="1 um", poisson=POISSON, uncertain=("motion",))
    found = SolidDiscovery(measurement, ONE(measurement.tests))
    assert ALARMS["misfit"] in found.ringing
    assert found.statements()[-1].startswith(f"ALARM: {ALARMS['misfit']}")
    shown = solid_page(found)
    assert f'<p class="ringing">ALARM: {ALARMS["misfit"]}' in shown
    assert shown.count("ALARM") == 1
    assert found.to_dict()["alarms"] == found.ringing
    assert found.statements()[1].startswith("Not covered")
    assert found.statements()[2] == "Poisson's ratio: 0.35, as stated."
    assert found.to_dict()["poisson"] == {
        "value": POISSON, "half_width": 0.0, "stated": True, "open": False,
    }  # fmt: skip
    # not stated, it is found, and too low it cannot be
    law = ONE(replace(measurement.tests, noise=None))
    found = SolidDiscovery(measurement, law)
    assert not found.ringing
    assert law.summary["noise"] == pytest.approx(NOISE, rel=0.15)
    assert found.fit() == f"The noise was not stated: {law.summary['noise']:.2g} mm by the residuals."


# Sentences


def test_the_level_is_that_of_the_band(discovery):
    narrow, wide = (replace(discovery, level=level) for level in (0.5, 0.99))

    def widths(found):
        (phase,) = found.phases
        return np.log(phase.high / phase.low), found.to_dict()["poisson"]["half_width"]

    ratio = norm.ppf(0.995) / norm.ppf(0.75)
    assert np.array(widths(wide)) / widths(narrow) == pytest.approx([ratio, ratio])
    assert "(50 % band " in narrow.statements()[0]
    assert "(99 % band)" in wide.statements()[2]
    assert wide.phases[0].modulus == narrow.phases[0].modulus
    (phase,) = wide.phases
    assert wide.statements()[0] == (
        f"Young's modulus: {modulus(phase.modulus)} MPa (99 % band {modulus(phase.low)} to {modulus(phase.high)})."
    )


@pytest.mark.parametrize(("value", "text"), [(210432.0, "210,400"), (0.12344, "0.1234"), (3001.2, "3,001")])
def test_moduli_have_four_digits(value, text):
    assert modulus(value) == text


# Without a force

CLAMPED = Specimen(SHAPE, {"left": ClampedPart(), "right": ClampedPart()})
STRETCHED = SolidLoad(displacements={"right": (0.4, 0.0)})


def stiff_disc(x, y):
    return np.where(np.hypot(x - 20, y - 17) < 8, 9000.0, 3000.0)


@pytest.fixture(scope="module")
def ratios():
    """Of two plates, one ten times stiffer: both ends are moved, no force is known."""
    inversion = SolidInversion(phases=(2,), piecewise_constant=True, material=10, solver=14)
    found = []
    for factor in (1.0, 10.0):
        seen = seen_by_camera(
            CLAMPED, STRETCHED, lambda x, y, factor=factor: factor * stiff_disc(x, y), noise=0.05 * NOISE
        )
        tests = SolidTests.from_arrays(CLAMPED, [STRETCHED], POINTS, seen, noise=0.05 * NOISE, poisson=POISSON)
        found.append(SolidDiscovery(SolidMeasurement(tests, "mm", (), ()), inversion(tests)))
    return found


def test_without_a_force_the_modulus_is_that_over_its_mean(ratios):
    found = ratios[0]
    assert found.unit == found.to_dict()["unit"] == "1"
    assert found.statements()[0].startswith("Young's modulus over its mean: 0.")
    assert "MPa" not in " ".join(found.statements())
    assert np.mean(np.log(found.fields["modulus"][found.inside])) == pytest.approx(0, abs=0.05)
    soft, stiff = found.phases
    assert soft.modulus < 1 < stiff.modulus
    assert soft.share + stiff.share == pytest.approx(1)
    assert stiff.share == pytest.approx(np.pi * 8**2 / SHAPE.region.area, rel=0.4)
    for phase in found.phases:
        assert phase.low < phase.modulus < phase.high
        assert f"on {percent(phase.share)} of the area" in found.statements()[0]
    assert 1.5 < stiff.modulus / soft.modulus < 6


def test_a_stiffer_solid_without_a_force_looks_the_same(ratios):
    for name, values in ratios[0].fields.items():
        np.testing.assert_allclose(ratios[1].fields[name], values, rtol=1e-4)
    assert ratios[0].statements() == ratios[1].statements()


def test_where_nothing_acts_nothing_is_found_and_that_is_said(laboratory, tmp_path):
    def found():
        measurement = read_plate(laboratory, Bench(clamped=("left",)), noise="10 um", poisson=POISSON)
        law = replace(ONE, solver=8)(measurement.tests)
        return SolidDiscovery(measurement, law).save(tmp_path / "modulus")

    with pytest.raises(NipdeError):
        found()
    assert not (tmp_path / "modulus").exists()
