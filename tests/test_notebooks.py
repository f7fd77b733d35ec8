"""Pages of explanation with code are run by every build of the documentation: an error in one of them ends it."""

import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
CONCEPTS = sorted(path for path in (DOCS / "explanation").glob("*.md") if path.read_text().startswith("---\n"))
CELL = re.compile(r"^```\{code-cell\} ipython3\n((?::[^\n]*\n)*\n)?(.*?)^```$", re.DOTALL | re.MULTILINE)
HEAD = CONCEPTS[0].read_text().split("\n# ")[0]


def test_there_are_pages_that_are_run():
    assert len(CONCEPTS) == 6


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda path: path.stem)
def test_every_page_is_a_notebook(page):
    text = page.read_text()
    assert text.startswith(f"{HEAD}\n# ")
    cells = [code for _, code in CELL.findall(text)]
    assert len(cells) == text.count("```{code-cell}") >= 1
    for code in cells:
        compile(code, page.name, "exec")
    assert page.stem in (page.parent / "index.md").read_text().split("{toctree}")[1]


@pytest.mark.parametrize("page", CONCEPTS, ids=lambda path: path.stem)
def test_a_concept_is_short_and_has_one_picture(page):
    text = page.read_text()
    assert text.count("plt.show()") == 1
    assert len(CELL.sub("", text).split()) < 520


@pytest.fixture
def build(tmp_path):
    """A function that builds one notebook with the settings of our documentation."""
    settings = {name: value for name, value in run_path(str(DOCS / "conf.py")).items() if name.startswith("nb_")}
    (tmp_path / "conf.py").write_text(
        "".join(f"{name} = {value!r}\n" for name, value in {**settings, "extensions": ["myst_nb"]}.items())
    )

    def built(code: str) -> tuple[int, str]:
        (tmp_path / "index.md").write_text(f"{HEAD}\n# Page\n\n```{{code-cell}} ipython3\n{code}\n```\n")
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(tmp_path), str(tmp_path / "built")]
        done = subprocess.run(command, capture_output=True, text=True)
        page = tmp_path / "built" / "index.html"
        return done.returncode, page.read_text() if page.exists() else done.stderr

    return built


@pytest.mark.slow
def test_output_is_shown(build):
    code, page = build("print(6 * 7 * 1000)")
    assert code == 0
    assert "42000" in page


@pytest.mark.slow
def test_an_error_ends_the_build(build):
    code, said = build("1 / 0")
    assert code != 0
    assert "ExecutionError" in said  # names the page; what happened stands in the file that it points to
