"""Importing is light and harmless; the command answers at once."""

import subprocess
import sys
import time

import pytest

import nipde
from nipde.cli import VERBS, main


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
    python("import nipde.data.generate, nipde.data.problems, sys; assert 'torch' not in sys.modules")


def test_every_public_name_exists():
    for name in nipde.__all__:
        assert getattr(nipde, name) is not None
    assert set(nipde.__all__) <= set(dir(nipde))
    with pytest.raises(AttributeError, match="no attribute 'telepathy'"):
        nipde.telepathy  # noqa: B018


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
    [v for v in VERBS if v != "generate"] + [f"generate {name}" for name in ("darcy", "darcy-mixed", "advection")],
)
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*verb.split(), "--help"])
    assert stopped.value.code == 0
    assert f"usage: nipde {verb}" in capsys.readouterr().out
