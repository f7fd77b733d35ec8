"""The page has every section, fetches nothing, escapes all text, and has text alternatives."""

import json
import re
import sys
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from nipde.boundary import Neumann
from nipde.discovery.discovery import RecommendedLoads
from nipde.errors import MissingExtraError
from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Note, Source
from nipde.report.numbers import capitalised, unit_text
from nipde.report.page.colours import Colours, colour_table
from nipde.report.page.page import page
from nipde.report.page.view import View, ticks_between
from nipde.report.statements import outlier_statement, statements

HOSTILE = "</script><img src=x onerror=alert(1)>'\"&{{ 7*7 }}.csv"


class Reader(HTMLParser):
    """Elements and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] == "script":
            self.scripts.append(data)

    def data(self):
        return json.loads(self.scripts[0])


def classes(found):
    """The classes of all elements."""
    return [name for _, attributes in found.elements for name in (attributes.get("class") or "").split()]


@pytest.fixture(scope="module")
def text(discovery):
    return page(discovery)


def test_every_section_is_there(discovery, text):
    plain = text.replace("\u00a0", " ")
    for sentence in (*statements(discovery)[1:], *(note.text for note in discovery.measurement.notes)):
        assert sentence.replace("'", "&#39;") in plain
    for source in discovery.measurement.sources:
        assert source.sha256 in text
    for name in (
        "not identifiable",
        "phase uncertain",
        "Half width of the 90 % band",
        *discovery.recommended_loads.names,
    ):
        assert name in text
    for one in discovery.baselines:
        assert one.name in text
    headings = re.findall(r"<h[12][^>]*>([^<]*)<", text)
    assert headings == [
        "plate_run_07", "Summary", "Tension and kernel", "Held-out prediction", "Baselines", "Recommended loads",
        "How the file was read", "Provenance",
    ]  # fmt: skip
    assert "34\u00a0%" in text
    assert discovery.provenance["command"] in text


def test_nothing_is_fetched(text):
    assert not re.search(r"(?:https?:)?//[a-z]", re.sub(r"base64,[\w+/=]*|\"codes\":\"[^\"]*\"", "", text))
    for _, attributes in Reader(text).elements:
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("data:image/png;base64,", "#"))


def test_hostile_words_stay_words(discovery):
    measurement = replace(
        discovery.measurement, sources=(Source(HOSTILE, HOSTILE, HOSTILE),), notes=(Note("warning", HOSTILE),),
    )  # fmt: skip
    loads = replace(discovery.recommended_loads, names=(HOSTILE,) * 4)
    others = tuple(replace(one, name=HOSTILE) for one in discovery.baselines)
    hostile = replace(
        discovery, measurement=measurement, estimator=HOSTILE,
        provenance={HOSTILE: {HOSTILE: HOSTILE}, "files": [{HOSTILE: HOSTILE}]},
        recommended_loads=loads, baselines=others,
        material=replace(discovery.material, unit=HOSTILE, quantity=HOSTILE),
        phases=replace(discovery.phases, method=HOSTILE),
    )  # fmt: skip
    found = Reader(page(hostile))
    assert sum(tag == "script" for tag, _ in found.elements) == 2
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)
    assert "49.csv" not in page(hostile)
    assert found.data()["material"]["unit"] == unit_text(HOSTILE)


def test_every_figure_has_words(text):
    elements = Reader(text).elements
    images = [attributes for tag, attributes in elements if tag == "svg" and attributes.get("aria-hidden") != "true"]
    assert len(images) >= 14
    assert all(image["role"] == "img" and len(image["aria-label"]) > 15 for image in images)
    assert all("alt" in attributes for tag, attributes in elements if tag == "img")


def test_the_data_are_small_and_true(discovery, text):
    data = Reader(text).data()
    values = np.array(data["material"]["values"]).reshape(discovery.material.values.shape)
    np.testing.assert_allclose(values, discovery.material.values, rtol=1e-4)
    kernel = data["kernel"]
    codes = np.frombuffer(b64decode(kernel["codes"]), np.uint8).reshape(441, 441)
    low, high = (np.array(kernel[name])[:, None] for name in ("low", "high"))
    rows = low + (high - low) * codes / 254
    dense = discovery.kernel.dense().double().numpy()
    gap = np.abs(rows - dense)
    np.fill_diagonal(gap, 0)  # left out of the scale
    assert gap.max() <= np.abs(dense).max() / 254
    np.testing.assert_allclose(kernel["largest"], dense.max(1), rtol=1e-4, atol=1e-7)


def test_scripts_are_allowed_by_their_digest_alone(text):
    assert re.search(r"script-src 'sha256-[\w+/]{43}='\"", text)


@pytest.mark.slow
def test_large_measurements_stay_small(made_on):
    written = page(made_on(Grid.uniform(81), pairs=100))
    assert len(written.encode()) < 8e6
    data = Reader(written).data()
    assert (len(data["pairs"]["numbers"]), data["pairs"]["total"]) == (12, 100)
    assert (data["kernel"]["shape"], data["view"]["shape"]) == ([27, 27], [81, 81])


def test_without_held_out_pairs_their_section_is_empty(discovery, text):
    found = Reader(page(replace(discovery, held_out=None)))
    assert found.data()["held_out"] is None
    assert [classes(found).count("empty"), classes(Reader(text)).count("empty")] == [1, 0]


def test_a_case_that_is_not_covered_is_marked_with_its_reasons(discovery, made_on):
    unknown = replace(discovery, kernel=replace(discovery.kernel, bands=None))
    for one, count in ((unknown, 1), (made_on(Grid((Axis(9, 1.0), Axis(9, 1.0, Neumann()))), pairs=3), 2)):
        box = re.search(r'<div class="check unknown".*?</dl>', page(one), re.DOTALL)[0]
        assert "Not covered by the calibration" in box
        assert len(one.coverage.reasons) == count
        assert all(capitalised(reason) in box for reason in one.coverage.reasons)


def test_the_head_names_specimen_file_and_date(discovery, text):
    assert re.search(r'id="specimen">plate_run_07<', text)
    assert re.search(r'id="file">plate_run_07.h5, responses/camera_left.csv<', text)
    assert re.search(r'id="date">\d{4}-\d\d-\d\d<', text)
    stated = {**discovery.provenance, "specimen": "Membrane 12 b", "date": "2024-02-29"}
    written = page(replace(discovery, provenance=stated))
    assert 'id="specimen">Membrane 12 b<' in written
    assert 'id="date">2024-02-29<' in written
    assert 'id="measured-on"' not in written
    measured = page(replace(discovery, provenance={**stated, "measured_on": "2024-01-31"}))
    assert 'Measured on <time id="measured-on">2024-01-31<' in measured
    assert 'id="date">2024-02-29<' in measured
    sources = tuple(Source(f"run_{number}.csv", "csv", "") for number in range(5))
    many = replace(discovery, measurement=replace(discovery.measurement, sources=sources))
    assert 'id="file">run_0.csv, run_1.csv, run_2.csv and 2 more<' in page(many)
    none = replace(discovery, measurement=replace(discovery.measurement, sources=()))
    assert 'id="file">No file' in page(none)


def test_the_first_screen_links_to_the_warnings(discovery, text):
    assert '<a class="warned" href="#read">' in text
    silent = replace(discovery.measurement, notes=discovery.measurement.notes[:1])
    assert '<a class="warned"' not in page(replace(discovery, measurement=silent))


def test_the_name_and_unit_of_the_user_are_everywhere(discovery):
    material = replace(discovery.material, quantity="EI of the strip", unit="N*mm")
    written = page(replace(discovery, material=material))
    words = visible(written)
    assert "coefficient" not in words.lower()
    assert words.count("EI of the strip") >= 10
    assert "EI of the strip in N·mm" in words
    assert Reader(written).data()["material"]["quantity"] == "EI of the strip"
    for unit in ("load in kN/m²", "response in mm"):
        assert unit in words


def visible(written):
    """Text and text alternatives of a page, without those of scripts, style and provenance."""
    body = written[written.index("<header>") : written.index('id="provenance"')]
    return " ".join(re.findall(r'aria-label="([^"]*)"', body)) + re.sub(r"<[^>]*>", "", body)


def test_one_bad_node_does_not_take_all_colours(discovery):
    values = np.linspace(2, 4, 441).reshape(21, 21)
    values[10, 10] = 1e9
    material = replace(discovery.material, values=values, low=values / 1.1, high=values * 1.1)
    written = page(replace(discovery, material=material))
    switch = Reader(written).data()["material"]["switch"]
    codes = np.frombuffer(b64decode(switch["codes"]), np.uint8)[:441].reshape(21, 21)
    assert len(np.unique(codes)) > 200
    assert codes[10, 10] == 254
    assert not switch["log"]
    figure = written[written.index('data-figure="map"') : written.index('data-figure="half-width"')]
    assert "tension in kN, ends at 1 % and 99 % of interior nodes" in figure
    assert "≥ <span" in figure


def test_a_coefficient_that_spans_decades_is_drawn_on_a_log_scale(discovery):
    values = np.geomspace(1e-3, 1e3, 441).reshape(21, 21)
    material = replace(discovery.material, values=values, low=values / 1.1, high=values * 1.1)
    written = page(replace(discovery, material=material))
    switch = Reader(written).data()["material"]["switch"]
    codes = np.frombuffer(b64decode(switch["codes"]), np.uint8)[:441].astype(float)
    inner = codes[(codes > 0) & (codes < 254)]
    assert switch["log"]
    assert np.ptp(np.diff(inner)) <= 1  # equal steps of the logarithm
    assert "tension in kN, log scale" in written


def test_a_smooth_material_has_no_phases_on_the_page(at_sensors, fitted_as):
    smooth, phases = page(at_sensors), page(fitted_as(model="2 phases"))
    assert 'data-figure="phases"' not in smooth
    assert "Smooth transmissivity" in smooth
    assert 'data-read="phase"' not in smooth
    assert 'data-figure="phases"' in phases
    assert "Two phases: transmissivity" in phases.replace("\u00a0", " ")


def test_sensors_are_drawn_where_they_are(at_sensors):
    written, view = page(at_sensors), View(at_sensors.measurement)
    group = re.search(r'<g class="sensors" aria-hidden="true">(.*?)</g>', written)[1]
    places = np.array(re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', group), float)
    assert len(places) == len(at_sensors.measurement.readings.sensors) == 14
    plot, nodes = view.plot(), np.array([[0.0, 0.0], [100.0, 50.0]])
    expected = [view.position(plot, node) for node in ((0, 0), (8, 4))]
    np.testing.assert_allclose(view.points(plot, nodes), expected, atol=0.11)


def test_an_outlier_is_shown_with_its_causes(discovery, fitted_as, text):
    assert 'class="check unknown"' in text
    assert 'class="check passed"' in page(fitted_as(noise_stated=True, outside=()))
    bands = discovery.kernel.bands
    test = replace(bands.outlier_test, threshold=0.0)
    written = page(replace(discovery, kernel=replace(discovery.kernel, bands=replace(bands, outlier_test=test))))
    assert 'class="check failed"' in written
    assert outlier_statement(test) in written


@pytest.mark.slow
def test_gaps_are_shown_as_gaps(made_discovery):
    found = made_discovery(masked=True, held_out=3)
    mask = found.measurement.pairs.mask[0, 0].numpy().ravel()
    written = page(found)
    response = Reader(written).data()["pairs"]["response"]
    codes = np.frombuffer(b64decode(response["codes"]), np.uint8)[: mask.size]
    np.testing.assert_array_equal(codes == 255, ~mask)


def test_with_nothing_to_compare_or_rank(discovery):
    empty = RecommendedLoads((), np.zeros(0), np.zeros((0, 21, 21)))
    found = classes(Reader(page(replace(discovery, baselines=(), recommended_loads=empty))))
    assert [found.count("empty"), found.count("card")] == [2, 0]


@pytest.mark.parametrize(
    "grid",
    [
        Grid.uniform(25, dimension=1),
        Grid.uniform(7, dimension=3),
        Grid((Axis(9, 10.0), Axis(5, 1.0, Neumann()))),
    ],
    ids=["line", "box", "long"],
)
def test_any_grid(grid, made_on):
    made = made_on(grid, pairs=5)
    written, remark = page(made), View(made.measurement).remark
    assert bool(remark) == (grid.dimension > 1)
    assert remark in written
    assert ('class="line"' in written) == (grid.dimension == 1)


def test_maps_stand_upright(discovery):
    view = View(discovery.measurement)
    field = np.zeros(view.shape)
    field[0, -1] = 1  # small x, large y: top left
    address = Colours.fitted(field[None]).png(0)
    pixels = np.round(255 * imread(BytesIO(b64decode(address.split(",")[1])))).astype(int)
    assert pixels.shape == (21, 21, 4)
    assert pixels[0, 0].tolist() == [*colour_table("batlow")[254], 255]
    assert (pixels[1:] == [*colour_table("batlow")[0], 255]).all()
    x, y = view.position(view.plot(), (0, 20))
    assert x < view.plot().width / 2
    assert y < view.plot().height / 2


def test_ticks_are_round():
    assert ticks_between(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert ticks_between(3, 3) == [3]
    assert colour_table("batlow").shape == (256, 3)


@pytest.mark.parametrize("name", ["jinja2", "cmcrameri"])
def test_a_missing_part_is_named(discovery, monkeypatch, name):
    colour_table.cache_clear()
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError) as error:
        page(discovery)
    assert "nipde[report]" in error.value.remedy
