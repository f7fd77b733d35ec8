import json
from importlib import import_module

import pytest

from benchmarks import random_fields
from benchmarks.run import CAMPAIGNS, MEASUREMENTS, run
from benchmarks.tables.fill import fill
from benchmarks.tables.render import TABLES
from nipde.errors import NipdeError


def test_every_measurement_has_a_table():
    long = {f"{name}-{budget}" for name in CAMPAIGNS for budget in import_module(f"benchmarks.{name}").BUDGETS}
    of_tests = {"integrity", "kills", "fuzz"}  # records of the long forms of tests
    assert MEASUREMENTS.keys() | long | of_tests == TABLES.keys()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured") / "results"
    run("random-fields", results=folder, quick=True)
    return folder


def test_a_table_is_made_from_its_record_and_kept_current(results, tmp_path):
    document = tmp_path / "page.md"
    document.write_text("Before.\n\n<!-- table: random-fields -->\nold\n<!-- end table -->\n\nAfter.\n")
    assert fill([document], results=results) == [document]
    text = document.read_text()
    assert "old" not in text
    assert "fitted α" in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    assert fill([document], results=results, check=True) == []


def test_a_number_changed_by_hand_fails_the_check(results, tmp_path):
    document = tmp_path / "page.md"
    document.write_text("<!-- table: random-fields -->\n<!-- end table -->\n")
    fill([document], results=results)
    document.write_text(document.read_text().replace("α = 4", "α = 5"))
    with pytest.raises(NipdeError, match="run python -m benchmarks tables"):
        fill([document], results=results, check=True)


def test_the_short_measurement_tells_right_from_wrong_laws(results):
    for law in json.loads((results / "random-fields.json").read_text())["measured"]["laws"]:
        assert law["p_value"] > 1e-3
        assert law["p_value_of_wrong_laws"]["alpha +5%"] < 1e-6
    assert json.loads((results / "random-fields.json").read_text())["seed"] == random_fields.SEED
