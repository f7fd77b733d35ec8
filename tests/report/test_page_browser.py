"""The page in a real browser: any width, any scheme, by keyboard, without network, without script."""

import pytest

from nipde.grid import Grid
from nipde.report.numbers import number
from nipde.report.page.page import page as report
from tests.report.overlaps import overlapping_texts


@pytest.fixture(scope="module")
def address(discovery, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report(discovery), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(chromium, address):
    """A function that opens the page and collects complaints and requests."""
    contexts = []

    def open_page(*, width=1280, scheme="light", script=True, at=address):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        page = context.new_page()
        page.complaints, page.requests = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(at)
        return page

    yield open_page
    for context in contexts:
        context.close()


def pixels(page, name):
    return page.eval_on_selector(f"[data-figure={name}] canvas", "canvas => canvas.toDataURL()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_opens_cleanly_at_any_width(opened, address, width, scheme):
    page = opened(width=width, scheme=scheme)
    assert page.complaints == []
    assert all(url == address or url.startswith("data:") for url in page.requests)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert cut == 0
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


#: What the first screen holds.
FIRST = ("#specimen", "#file", "#date", "#coverage", "#held-out-error", "#band", "[data-figure=map]")


@pytest.mark.parametrize("case", ["covered", "not covered"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 1.5 * 844)])
def test_the_first_screen_holds_the_results(opened, discovery, fitted_as, tmp_path, case, width, height):
    path, shown = tmp_path / "report.html", discovery
    if case == "covered":
        shown = fitted_as(noise_stated=True, outside=())
    assert shown.coverage.covered == (case == "covered")
    path.write_text(report(shown), encoding="utf-8")
    page = opened(width=width, at=path.as_uri())
    for name in FIRST if width < 1280 else (*FIRST, "[data-figure=half-width]"):
        box = page.locator(name).bounding_box()
        assert box["width"] > 0, name
        assert box["y"] + box["height"] <= height, name
    box = page.locator("[data-figure=map] .frame").bounding_box()
    assert min(box["width"], box["height"]) >= 240
    read = page.locator("#read").bounding_box()
    assert read["y"] > page.locator("#next").bounding_box()["y"] > height
    overlaps = page.evaluate(
        """(names) => {
            const boxes = names.map((name) => document.querySelector(name).getBoundingClientRect());
            const before = (a, b, from, to) => a[to] <= b[from] + 1 || b[to] <= a[from] + 1;
            const apart = (a, b) => before(a, b, 'left', 'right') || before(a, b, 'top', 'bottom');
            return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => !apart(a, b))).length;
        }""",
        [*FIRST, "[data-figure=half-width]", ".statements"],
    )
    assert overlaps == 0
    assert page.complaints == []


def test_the_maps_of_the_first_screen_are_read_by_the_mouse(opened, discovery):
    page = opened()
    assert not page.locator("[data-figure=map] .point").is_visible()
    box = page.locator("[data-figure=map] .frame").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 5.5 / 21, box["y"] + box["height"] * (1 - 3.5 / 21))
    page.wait_for_function("document.querySelector('#at-point').textContent.includes('band')")
    assert page.locator("[data-figure=map] .point").is_visible()
    said = page.inner_text("#at-point")
    assert f"tension {number(discovery.material.values[5, 3])} kN" in said
    assert f"{number(discovery.material.high[5, 3])} kN" in said


def test_text_in_figures_does_not_overlap(opened):
    page = opened()
    assert overlapping_texts(page) == 0


def test_tab_reaches_every_control_in_order(opened):
    page, reached = opened(), []
    for _ in range(7):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("(e => e.id || e.className && String(e.className) || e.name)(document.activeElement)")
        )
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert reached == ["skip", "warned", "band", "common", "plot movable", "kept", "pair"]


def test_arrow_keys_move_the_point(opened, discovery):
    page = opened()
    page.focus("[data-figure=coefficient] .plot")
    where, row = page.inner_text("[data-read=point]"), pixels(page, "row")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    assert page.inner_text("[data-read=point]") != where
    assert pixels(page, "row") != row
    value = float(page.inner_text("[data-read=value]"))
    assert value == pytest.approx(discovery.material.values[11, 15], rel=1e-2)
    assert "band" in page.inner_text("#spoken")
    assert page.complaints == []


def test_the_mouse_moves_the_point_too(opened):
    page = opened()
    frame = page.locator("[data-figure=coefficient] .frame")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    page.mouse.move(box["x"] + 1, box["y"] + box["height"] - 2)
    page.wait_for_function("document.querySelector('[data-read=point]').textContent === '10, 10'")
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 2)
    page.wait_for_function("document.querySelector('[data-read=point]').textContent === '11, 11'")


def test_sliders_change_figures(opened):
    page = opened()
    for slider, figure, words in (("#pair", "response", "#pair-text"), ("#kept", "difference", "#kept-text")):
        before, said = pixels(page, figure), page.inner_text(words)
        page.focus(slider)
        page.keyboard.press("ArrowRight")
        assert pixels(page, figure) != before
        assert page.inner_text(words) != said
    page.check("input[name=band][value='2']")
    assert pixels(page, "coefficient")
    before = pixels(page, "row")
    page.check("#common")
    assert pixels(page, "row") != before
    assert page.complaints == []


def test_the_script_paints_what_stands_in_the_page(opened):
    page, plain = opened(), opened(script=False)
    for name in ("load", "response", "row", "measured", "predicted", "difference"):
        static = plain.get_attribute(f"[data-figure={name}] img", "src")
        same = """async ([name, source]) => {
            const image = new Image(), found = document.querySelector(`[data-figure=${name}] canvas`);
            image.src = source;
            await image.decode();
            const copy = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
            copy.getContext("2d").drawImage(image, 0, 0);
            return copy.toDataURL() === found.toDataURL();
        }"""
        assert page.evaluate(same, [name, static]), name
    assert not plain.locator(".control").first.is_visible()
    assert plain.locator("[data-figure=row] img").is_visible()


def test_lines_in_one_dimension(opened, made_on, tmp_path):
    path = tmp_path / "line.html"
    path.write_text(report(made_on(Grid.uniform(25, dimension=1), pairs=5)), encoding="utf-8")
    page = opened(width=375, at=path.as_uri())
    before = page.get_attribute("[data-figure=row] .line", "d")
    page.focus("[data-figure=coefficient] .plot")
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute("[data-figure=row] .line", "d") != before
    assert page.complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
