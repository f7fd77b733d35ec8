"""Planes of a box on the page: unfolded fields, their frames, sliders that move them."""

import json
import re
from base64 import b64decode

import numpy as np
import pytest

from nipde.grid import Axis, Grid
from nipde.report.numbers import number
from nipde.report.page import view as drawing
from nipde.report.page.page import page
from nipde.report.page.planes import node_of, unfolded
from nipde.report.page.view import View
from tests.report.overlaps import overlapping_texts

BOX = Grid((Axis(6, 5.0), Axis(4, 3.0), Axis(5, 8.0)))


def data_of(written):
    return json.loads(re.search(r'id="data">(.*?)</script>', written, re.DOTALL)[1])


@pytest.fixture(scope="module")
def box(made_on):
    return made_on(BOX, pairs=5)


def test_every_place_of_the_planes_is_its_node():
    field, at = np.arange(BOX.size, dtype=float).reshape(BOX.shape), (3, 1, 2)
    planes = unfolded(np.stack([field, -field]), at)
    assert planes.shape == (2, 6 + 5, 4 + 5)
    for place in np.ndindex(*planes.shape[1:]):
        if place[0] >= 6 and place[1] >= 4:
            assert np.isnan(planes[(0, *place)])
        else:
            assert planes[(0, *place)] == field[node_of(place, BOX.shape, at)] == -planes[(1, *place)]
    assert not unfolded(np.ones(BOX.shape, bool), at)[6:, 4:].any()


def test_planes_are_drawn_to_one_scale_and_side_by_side(box):
    view = View(box.measurement)
    for width in (360.0, 240.0):
        plot = view.plot(width)
        lengths = [axis.length + axis.spacing for axis in BOX.axes]  # with half a cell at both ends
        scales = [
            size / lengths[axis]
            for panel in plot.panels
            for axis, size in zip(panel.axes, (panel.across, panel.up), strict=True)
        ]
        np.testing.assert_allclose(scales, scales[0])
        assert max(panel.left + panel.across for panel in plot.panels) <= width
        assert max(panel.top + panel.up for panel in plot.panels) <= plot.height
        below, above, beside = plot.panels
        assert above.top + above.up < below.top == beside.top
        assert below.left + below.across < beside.left
    assert view.position(view.plot(), (0, 4))[1] > view.position(view.plot(), (0, 8))[1]  # z upwards


def test_the_page_of_a_box(box):
    written = page(box)
    data, material = data_of(written), box.material
    assert data["view"]["shape"] == [11, 9]
    assert [len(axis) for axis in data["view"]["coordinates"]] == [6, 4, 5]
    np.testing.assert_allclose(np.reshape(data["material"]["values"], BOX.shape), material.values, rtol=1e-4)
    codes = np.frombuffer(b64decode(data["material"]["planes"]["coefficient"]["codes"]), np.uint8)
    assert codes.shape == (3 * BOX.size,)
    assert written.count("y = 12 mm") >= 8  # the third of four nodes from 10 on
    kernel, numbers = data["kernel"], View(box.measurement).shown(np.arange(BOX.size).reshape(BOX.shape)).ravel()
    there = np.isfinite(numbers)
    nodes = numbers[there].astype(int)
    dense = box.kernel.dense().double().numpy()[np.ix_(nodes, nodes)]
    np.testing.assert_allclose(np.array(kernel["largest"])[there], dense.max(1), rtol=1e-4, atol=1e-7)
    codes = np.frombuffer(b64decode(kernel["codes"]), np.uint8).reshape(99, 99)
    assert (codes[:, ~there] == 255).all()


def test_a_large_box_keeps_the_middle_only(box, monkeypatch):
    monkeypatch.setattr(drawing, "WHOLE_BOX", 100)
    data = data_of(page(box))
    assert data["material"]["planes"] is None
    assert len(data["material"]["values"]) == 11 * 9
    assert "plane-0" not in page(box)


@pytest.fixture
def opened(chromium, tmp_path):
    context = chromium.new_context(viewport={"width": 1280, "height": 900})

    def open_page(discovery):
        path = tmp_path / "report.html"
        path.write_text(page(discovery), encoding="utf-8")
        tab = context.new_page()
        tab.complaints = []
        tab.on("console", lambda message: tab.complaints.append(message.text))
        tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
        tab.goto(path.as_uri())
        return tab

    yield open_page
    context.close()


def pixels(tab, name):
    script = "canvases => canvases.map(canvas => canvas.toDataURL())"
    return tab.eval_on_selector_all(f"[data-figure={name}] canvas", script)


def test_sliders_move_the_planes(opened, box):
    tab = opened(box)
    before = pixels(tab, "map")
    assert len(before) == 3
    tab.focus("#plane-2")
    tab.keyboard.press("ArrowRight")
    after = pixels(tab, "map")
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, True]
    assert tab.inner_text("#plane-text-2") == "z = 16 mm"
    assert tab.locator("[data-figure=map] [data-axis='2']").text_content() == "z = 16 mm"
    frame = tab.locator("[data-figure=map] .frame").first.bounding_box()
    tab.mouse.move(frame["x"] + frame["width"] * 1.5 / 6, frame["y"] + frame["height"] * (1 - 2.5 / 4))
    tab.wait_for_function("document.querySelector('#at-point').textContent.includes('band')")
    assert f"tension {number(box.material.values[1, 2, 3])} kN" in tab.inner_text("#at-point")
    assert tab.complaints == []


def test_the_script_cuts_what_stands_in_the_page(opened, box):
    tab = opened(box)
    sources = re.findall(r'<img class="field"[^>]* src="([^"]*)"', page(box))
    for name, first in (("map", 0), ("half-width", 3), ("coefficient", 6), ("row", 9), ("identifiable", 12)):
        for number_, source in enumerate(sources[first : first + 3]):
            same = """async ([name, i, source]) => {
                const image = new Image(), found = document.querySelectorAll(`[data-figure=${name}] canvas`)[i];
                image.src = source;
                await image.decode();
                const { width, height } = image;
                const copy = Object.assign(document.createElement("canvas"), { width, height });
                copy.getContext("2d").drawImage(image, 0, 0);
                return copy.toDataURL() === found.toDataURL();
            }"""
            assert tab.evaluate(same, [name, number_, source]), (name, number_)


@pytest.mark.parametrize("lengths", [(1.0, 1.0, 0.3), (1000.0, 1000.0, 1000.0), (0.02, 0.1, 0.1)])
def test_text_of_planes_does_not_overlap(opened, made_on, lengths):
    tab = opened(made_on(Grid(tuple(Axis(5, length) for length in lengths)), pairs=4))
    assert overlapping_texts(tab) == 0


def test_arrow_keys_stay_on_the_planes(opened, made_on):
    tab = opened(made_on(Grid.uniform((17, 5, 16)), pairs=5))  # rows at every other node
    tab.focus("[data-figure=coefficient] .plot")
    for key in ("ArrowRight", "ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft"):
        for _ in range(9):
            tab.keyboard.press(f"Shift+{key}")
    assert tab.complaints == []
    assert len(tab.inner_text("[data-read=point]").split(", ")) == 3
