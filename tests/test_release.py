"""What a release promises: a small wheel with everything in it, a citation, one CI for all, cards that are current."""

import json
import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

import nipde
from nipde.benchmarks.cards import PAGE, data_card, model_card, page
from nipde.benchmarks.tables.markdown import percent
from nipde.data.problems import PROBLEMS
from nipde.training.pretrained import names

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "nipde"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHANGES = (ROOT / "CHANGELOG.md").read_text()
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
WHEEL_BYTES = 10_000_000


def measured(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())["measured"]


def test_the_wheel_is_small_before_it_is_packed():
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < WHEEL_BYTES


@pytest.mark.parametrize(
    "pattern",
    [
        "weights/*.safetensors",
        "weights/*.json",
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


def test_the_changelog_has_the_version_below_an_empty_unreleased():
    headings = re.findall(r"^## \[(.*?)\](?: - (\S+))?$", CHANGES, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1] == (nipde.__version__, CITATION["date-released"].isoformat())
    assert len(headings) == len(set(headings))


def test_numbers_of_the_changelog_are_on_record():
    physics, speeds = measured("physics"), [row["speedup"] for row in measured("step")["rows"]]
    models = measured("params")["rows"]
    rows = measured("conditioned")["rows"]
    error = {
        (row["weights"] or row["estimator"], row["pairs"], row["noise"]): percent(row["held_out"]["mean"])
        for row in rows
        if row["systems_of"] == "literal" and row["nodes"] == 21
    }
    damage = [kind for kind in measured("integrity").values() if isinstance(kind, dict)]
    named, silent = (sum(kind[f"verify_{what}"] for kind in damage) for what in ("raised_naming_file", "silent"))
    killed, mistakes = measured("interruptions")["killed"], measured("mistakes")
    energies = max(row["largest_error"] for row in measured("mechanics")["published"] if row["degree"] == 2)
    said = [
        f"order {physics['darcy_orders_harmonic'][-1]:.2f} and the largest residual is "
        f"{physics['darcy_largest_residual']:.1e}",
        f"{sum(row['ours'] == row['paper'] for row in models)} of {len(models)}",
        f"{min(speeds):.1f} to {max(speeds):.1f} times",
        f"answers unseen loads with an error of {error['darcy-two-phase', 10, 0.01]}; from 50 exact",
        f"with {error['darcy-two-phase', 50, 0.0]}, minimum norm with {error['minimum-norm', 50, 0.0]}",
        f"hold {100 * measured('uncertainty')['overall']['coverage']:.1f} % of true values",
        f"Of {named + silent} damaged archives {named} were named",
        f"of {killed['runs']} training runs that were killed {killed['equal']} ended",
        f"of {mistakes['trials']} mistaken files {mistakes['found']} were noticed",
        f"by {percent(energies)} at most",
    ]
    text = " ".join(CHANGES.split())
    assert not [sentence for sentence in said if sentence not in text]


def test_the_citation_keeps_the_rules_of_cff_1_2_0():
    assert CITATION.keys() >= {"cff-version", "message", "title", "authors"}
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    assert CITATION["version"] == nipde.__version__
    assert isinstance(CITATION["date-released"], date)
    assert CITATION["license"] == PROJECT["project"]["license"]
    assert CITATION["authors"] == PROJECT["project"]["authors"]
    assert CITATION["keywords"] == PROJECT["project"]["keywords"]


def test_the_citation_names_the_paper():
    (paper,) = CITATION["references"]
    assert paper.keys() >= {"type", "title", "authors"}
    assert paper["type"] == "conference-paper"
    assert [f"{author['given-names']} {author['family-names']}" for author in paper["authors"]] == [
        "Ning Liu",
        "Yue Yu",
    ]
    assert paper["title"].startswith("Neural Interpretable PDEs: ")
    assert paper["title"].endswith(" Physics Discovery")
    assert paper["year"] == 2025


def test_the_workflow_runs_what_everybody_runs():
    (job,) = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"].values()
    assert job["runs-on"].startswith("ubuntu")
    assert job["timeout-minutes"] > 0
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    (python,) = (step["with"] for step in job["steps"] if "setup-python" in step.get("uses", ""))
    assert python == {"python-version": "3.11"}
    assert PROJECT["project"]["requires-python"] == f">={python['python-version']}"


def test_ci_installs_every_extra():
    (listed,) = re.findall(r'"\$wheel\[(.*?)\]"', (ROOT / ".ci" / "run").read_text())
    assert sorted(listed.split(",")) == sorted(PROJECT["project"]["optional-dependencies"])


def test_the_cards_are_current():
    remedy = "run python -m nipde.benchmarks.cards and commit docs/cards.md"
    assert (ROOT / PAGE).read_text() == page(ROOT / "results"), remedy


@pytest.mark.parametrize("name", names())
def test_weights_have_a_card_with_limits(name):
    text = model_card(name, [])
    assert all(f"**{part}**: " in text for part in ("Range", "Limits", "Training data", "Validation"))
    assert "No record in `results/` measures them yet." in text


@pytest.mark.parametrize("name", PROBLEMS)
def test_data_have_a_card_with_a_command_and_a_licence(name):
    kind = PROBLEMS[name]
    text = data_card(kind)
    assert f"`nipde generate {name} --seed 0 --out {name}`" in text
    assert "**Licence**: " in text
    assert kind.attribution in text


@pytest.mark.parametrize(("weights", "of_material"), [("darcy", True), ("advection-gated", False)])
def test_a_card_promises_bands_on_b_only_where_b_is_found(weights, of_material):
    assert ("answers and log b" in model_card(weights, [])) == of_material
