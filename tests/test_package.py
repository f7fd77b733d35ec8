"""Importing is light and harmless; names stand on one page; the command answers at once."""

import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest

import nipde
from nipde.cli import VERBS, main

ROOT = Path(__file__).parents[1]
#: Entries of the page of names: what it is, its name, its options.
ENTRIES = re.findall(
    r"^\.\. auto(\w+):: (\S+)\n((?:   :.*\n)*)", (ROOT / "docs" / "reference" / "api.md").read_text(), re.MULTILINE
)
NAMES = [name for _, name, _ in ENTRIES]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "examples").glob("*.py"))]
PARTS = (".", "tutorials", "how-to", "explanation", "reference")
GUIDES += sorted(path for part in PARTS for path in (ROOT / "docs" / part).glob("*.md"))
IMPORT = re.compile(r"^ *(?:>>> )?from (nipde[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))", re.MULTILINE)


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_loads_nothing_heavy_and_opens_nothing():
    code = """
import sys
opened = []
sys.addaudithook(lambda event, _: opened.append(event) if event in ("socket.connect", "subprocess.Popen") else None)
import nipde
heavy = {"torch", "scipy", "zarr", "distributed", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
assert not opened, opened
"""
    python(code)


def test_the_trusted_side_runs_without_torch():
    python("import nipde.data.generation, nipde.data.problems, sys; assert 'torch' not in sys.modules")


def test_every_public_name_exists():
    for name in nipde.__all__:
        assert getattr(nipde, name) is not None
    assert set(nipde.__all__) <= set(dir(nipde))
    with pytest.raises(AttributeError, match="no attribute 'telepathy'"):
        nipde.telepathy  # noqa: B018


def test_every_public_name_is_on_the_page_of_names_once():
    assert {f"nipde.{name}" for name in nipde.__all__} <= set(NAMES)
    assert len(NAMES) == len(set(NAMES))
    public = {id(getattr(nipde, name)) for name in nipde.__all__}
    twice = [name for name in NAMES if name.count(".") > 1 and id(resolve_name(name)) in public]
    assert not twice


@pytest.mark.parametrize(("name", "options"), [entry[1:] for entry in ENTRIES], ids=NAMES)
def test_every_entry_of_the_page_of_names_exists(name, options):
    found = resolve_name(name)
    for members in re.findall(":members: (.+)", options):
        assert all(hasattr(found, member) for member in members.split(", ")), members


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_guides_import_what_is_on_the_page_of_names_as_it_is_spelled_there(guide):
    for module, several, line in IMPORT.findall(guide.read_text()):
        for name in re.findall(r"\w+", several or line):
            assert module == "nipde.errors" or f"{module}.{name}" in NAMES, f"from {module} import {name}"


def design() -> str:
    return (ROOT / "docs" / "explanation" / "design.md").read_text()


def test_the_folders_are_those_that_the_design_names():
    tree = re.search(r"^src/nipde/\n(.*?)^```", design(), re.MULTILINE | re.DOTALL)
    named = {name.rstrip("/") for name in re.findall(r"^ +([\w/]+/) ", tree[1], re.MULTILINE)}
    package = ROOT / "src" / "nipde"
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    folders = {path.parent.relative_to(package).as_posix() for path in files}
    assert named == folders - {"."}


def test_the_layers_of_the_design_are_those_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert " > ".join(contracts[0]["layers"]) in " ".join(design().split())


def test_help_comes_in_under_a_second():
    times = []
    for _ in range(3):
        start = time.perf_counter()
        printed = subprocess.run([sys.executable, "-m", "nipde.cli", "--help"], capture_output=True, text=True).stdout
        times.append(time.perf_counter() - start)
    assert all(verb in printed for verb in VERBS)
    assert min(times) < 1.0


@pytest.mark.parametrize(
    "verb",
    [v for v in VERBS if v != "generate"]
    + [f"generate {name}" for name in ("darcy", "darcy-mixed", "darcy-reference", "advection")],
)
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*verb.split(), "--help"])
    assert stopped.value.code == 0
    assert f"usage: nipde {verb}" in capsys.readouterr().out
