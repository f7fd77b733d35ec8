"""Documents do what they say: blocks, scripts and tutorials run as a reader would run them, links lead somewhere."""

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import nipde

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TUTORIALS = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.stem != "index")
PARTS = (".", "tutorials", "how-to", "explanation", "reference")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
DOCUMENTS += sorted(path for part in PARTS for path in (ROOT / "docs" / part).glob("*.md"))
FENCED = re.compile(r"^(`{3,}).*?^\1$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def blocks(language: str, *, document: str = "README.md") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def follow():
    """The module that follows tutorials, as the documentation uses it."""
    spec = spec_from_file_location("follow", ROOT / "docs" / "tutorials" / "follow.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(900)  # on a busy machine; alone it takes about a minute
def test_the_readme_runs_from_an_empty_folder(tmp_path):
    commands = [line for block in blocks("bash") for line in block.splitlines() if line.strip()]
    assert len(commands) >= 4
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    for block in blocks("python"):
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.slow
def test_the_page_on_interoperability_runs_in_an_empty_folder(tmp_path):
    code = blocks("python", document="docs/how-to/interoperability.md")
    assert len(code) >= 7
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"mine.safetensors", "shared", "advection11", "advection11.hdf5"}


def test_the_cost_model_of_the_page_on_large_sets_runs():
    code = "\n".join(blocks("python", document="docs/how-to/scaling.md"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1.70 TB in 200016 files, 0.22 hours, cost 410\n")


@pytest.mark.slow
def test_the_page_on_solids_runs():
    code = "\n".join(blocks("python", document="docs/how-to/solids.md"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    within = float(done.stdout.splitlines()[-2])
    assert within == pytest.approx(0.913, abs=0.02)  # of bands of 90 %, over 196 cells


#: .ci/full builds the documentation first, which runs every example and tutorial and fails if one does.
not_yet_run = pytest.mark.skipif("NIPDE_DOCS_BUILT" in os.environ, reason="the documentation has run it just before")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_short(example):
    assert len(example.read_text().splitlines()) < 60


@pytest.mark.slow
@not_yet_run
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_every_block_of_a_tutorial_is_one_that_is_run(follow, tutorial):
    """One in a language that is not run, or with an option that is not known, would only look as if it ran."""
    text = tutorial.read_text()
    shown = re.findall(r"^```(?:\{code-block\} )?(?:bash|python|toml)$", text, re.MULTILINE)
    assert len(follow.BLOCK.findall(text)) == len(shown) >= 3


@pytest.mark.slow
@not_yet_run
@pytest.mark.timeout(900)  # most of it waits for training and inversions on a busy machine
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_can_be_followed(follow, tutorial, tmp_path):
    found = follow.followed(tutorial.read_text(), tmp_path.resolve())
    assert ":class: printed" in found
    assert str(tmp_path) not in found


def test_the_estimator_of_the_tutorial_is_as_short_as_promised(follow):
    text = (ROOT / "docs" / "tutorials" / "estimator.md").read_text()
    written = {block["options"]: block["code"] for block in follow.BLOCK.finditer(text)}
    assert len(written[":caption: smooth_ridge.py\n"].splitlines()) <= 60


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```bash\nfalse\n```\n", "false"),
        ("```bash\nfalse | cat\n```\n", "false"),
        ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", "AssertionError"),
        ("```python\nraise SystemExit\n```\n", "SystemExit"),
        ("```python\nimport os; os._exit(0)\n```\n", "Python ended"),
        ("```{code-block} bash\n:class: fails\n\ntrue\n```\n", "true"),
        ("```bash\ntrue\n```\n\n```{image} followed/page/missing.png\n```\n", "missing.png"),
    ],
    ids=["command", "pipe", "session", "exit", "crash", "no-failure", "picture"],
)
def test_a_tutorial_that_is_wrong_is_not_followed(follow, page, complaint, tmp_path):
    with pytest.raises(follow.CannotFollow, match=complaint):
        follow.followed(page, tmp_path)


def test_a_tutorial_shows_what_was_printed(follow, tmp_path):
    page = (
        "```{code-block} toml\n:caption: told.toml\n\nx = 1\n```\n\n```bash\ncat told.toml; pwd\n```\n\n"
        "```python\nx = 2\n```\n\n```python\nprint(x + 1)\n```\n\n"
        "```{code-block} bash\n:class: fails\n\necho no >&2; exit 3\n```\n"
    )
    found = follow.followed(page, tmp_path.resolve())
    printed = re.findall(r":class: printed\n\n(.*?)\n```", found, re.DOTALL)
    assert printed == [f"x = 1\n{tmp_path.resolve()}", "3", "no"]


def anchors(document: Path) -> set[str]:
    """Headings as their links are spelled."""
    headings = re.findall(r"^#{1,6} (.*)$", FENCED.sub("", document.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document):
    for name, anchor in LINK.findall(FENCED.sub("", document.read_text())):
        target = (document.parent / name).resolve() if name else document
        if "gallery" in target.parts:
            page = target.name
            assert page == "index" or (ROOT / "examples" / f"{page}.py").exists(), f"{document.name}: {name}"
            continue
        assert target.exists(), f"{document.name}: {name}"
        if anchor:
            assert anchor[1:] in anchors(target), f"{document.name}: {name}{anchor}"


def test_shapes_are_read_off_annotations(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    shapes_of = import_module("shapes").shapes_of
    assert shapes_of(nipde.Pairs)[0] == "| `loads`: (batch …, pair, component, space …)"
    assert shapes_of(nipde.Pairs)[3] == "| `noise`: (batch …)"
    assert shapes_of(nipde.Kernel.dense) == ["| `returns`: (batch …, row, column)"]
    assert shapes_of(nipde.Grid) == shapes_of(nipde.__version__) == []
