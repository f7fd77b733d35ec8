"""What a release promises: a small wheel with everything in it, a citation, cards that are current."""

import tomllib
from datetime import date
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml

import nipde
from nipde.data.problems import PROBLEMS
from nipde.weights import card, names

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "nipde"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WHEEL_BYTES = 10_000_000


def test_the_wheel_is_small_before_it_is_packed():
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < WHEEL_BYTES


@pytest.mark.parametrize(
    "pattern",
    [
        "weights/*.safetensors",
        "measurements/samples/membrane.npz",
        "measurements/samples/membrane_truth.npz",
        "report/page/files/*.html.j2",
        "report/page/files/page.css",
        "report/page/files/page.js",
        "report/summary.schema.json",
        "py.typed",
    ],
)
def test_what_is_no_code_is_installed_too(pattern):
    installed = Path(nipde.__file__).parent
    expected = {path.relative_to(PACKAGE) for path in PACKAGE.glob(pattern)}
    assert expected
    assert {path.relative_to(installed) for path in installed.glob(pattern)} == expected


def test_the_sdist_holds_what_the_tests_read():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"src", "tests", "examples", "docs", "results", ".ci", ".github", "CITATION.cff"} <= set(included)
    assert not [name for name in included if not (ROOT / name).exists()]


def test_the_citation_keeps_the_rules_of_cff_1_2_0():
    assert CITATION.keys() >= {"cff-version", "message", "title", "authors"}
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    assert CITATION["version"] == nipde.__version__
    assert isinstance(CITATION["date-released"], date)
    assert CITATION["license"] == PROJECT["project"]["license"]
    assert CITATION["authors"] == PROJECT["project"]["authors"]
    assert CITATION["keywords"] == PROJECT["project"]["keywords"]


@pytest.fixture(scope="module")
def cards():
    """The script that makes the page of cards."""
    spec = spec_from_file_location("cards", ROOT / "docs" / "cards.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_cards_are_current(cards):
    remedy = "run python docs/cards.py and commit docs/reference/cards.md"
    assert cards.PAGE.read_text() == cards.page(ROOT / "results"), remedy


@pytest.mark.parametrize("name", names())
def test_weights_have_a_card_with_limits(cards, name):
    assert card(name)["limits"] in cards.model_card(name, [])


@pytest.mark.parametrize("name", PROBLEMS)
def test_data_have_a_card_with_a_command_and_a_licence(cards, name):
    text = cards.data_card(PROBLEMS[name])
    assert f"`nipde generate {name} --seed 0 --out {name}`" in text
    assert PROBLEMS[name].attribution in text


@pytest.mark.parametrize(("weights", "of_material"), [("darcy", True), ("advection-gated", False)])
def test_a_card_promises_bands_on_the_coefficient_only_where_it_is_inferred(cards, weights, of_material):
    assert ("log b" in cards.model_card(weights, [])) == of_material
