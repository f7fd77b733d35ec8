"""What a release promises: a small wheel with everything in it, a citation, cards that are current."""

import json
import os
import re
import shutil
import subprocess
import sys
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


def script(name):
    """A script of the documentation as a module."""
    spec = spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cards():
    """The script that makes the page of cards."""
    return script("cards")


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


# Supply chain


def pins(path):
    """Versions by name, as pip compares names."""
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", (ROOT / path).read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_lock_has_the_pinned_versions_with_hashes_and_says_nothing_of_where_they_come_from():
    lock, pinned = (ROOT / ".ci" / "requirements.lock").read_text(), pins("constraints.txt")
    locked = pins(".ci/requirements.lock")
    assert "torch" not in locked
    assert {name: version for name, version in locked.items() if pinned.get(name, version) != version} == {}
    needed = {re.split(r"[\[<>=]", text)[0].lower() for text in PROJECT["project"]["dependencies"]}
    assert needed - {"torch"} <= locked.keys()
    packages = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]
    assert len(packages) == len(locked)
    for package in packages:
        assert re.fullmatch(r"\S+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n", package), package


def test_actions_are_pinned_by_commit():
    workflows = [yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    uses = [
        step["uses"] for one in workflows for job in one["jobs"].values() for step in job["steps"] if "uses" in step
    ]
    assert len(uses) >= 6
    assert [name for name in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)] == []


def test_the_licences_of_all_dependencies_are_listed():
    licences = script("licences")
    listed = set(re.findall(r"^\| ([\w.-]+) \|", licences.PAGE.read_text(), re.MULTILINE)) - {"package"}
    project = PROJECT["project"]
    extras = [needs for name, needs in project["optional-dependencies"].items() if name not in licences.OURS]
    needed = licences.closure([*project["dependencies"], *(one for needs in extras for one in needs)])
    assert needed <= listed, "run python docs/licences.py"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Built from two copies in different folders, of files with different times."""
    pytest.importorskip("hatchling")
    built = []
    for place, epoch in (("a", 1_000_000_000), ("deeper/b", 1_700_000_000)):
        copy = tmp_path_factory.mktemp("build") / place
        copy.mkdir(parents=True)
        shutil.copytree(PACKAGE, copy / "src" / "nipde", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        for path in copy.rglob("*"):
            os.utime(path, (epoch, epoch))
        words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1600000000"}
        subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment, timeout=200)
        built.append(next((copy / "dist").glob("*.whl")))
    return built


@pytest.mark.slow
def test_a_wheel_is_the_same_bytes_wherever_and_whenever_it_is_built(wheels):
    first, second = (path.read_bytes() for path in wheels)
    assert first == second
    assert len(first) < WHEEL_BYTES


@pytest.mark.slow
def test_a_bill_of_materials_names_the_dependencies(tmp_path):
    pytest.importorskip("cyclonedx_py")
    words = ["-m", "cyclonedx_py", "environment", "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    subprocess.run([sys.executable, *words, "--of", "JSON", "-o", str(tmp_path / "sbom.json")], check=True, timeout=200)
    record = json.loads((tmp_path / "sbom.json").read_text())
    assert record["bomFormat"] == "CycloneDX"
    assert record["metadata"]["component"]["name"] == "nipde"
    assert {"numpy", "scipy", "zarr"} <= {component["name"] for component in record["components"]}
