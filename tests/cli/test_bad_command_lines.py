"""Command lines that cannot be obeyed: one sentence, exit code 2, and every file as it was."""

import ctypes
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

from nipde.cli import DEBUG, UNFORESEEN, main
from tests.cli.bad_command_lines import NUL, TABLE, command_lines, tree, world

LINES = command_lines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module", autouse=True)
def ours(folder):
    """Commands run in the folder."""
    before = os.getcwd()
    os.chdir(folder)
    yield
    os.chdir(before)


def run(words, **options):
    command = [sys.executable, "-m", "nipde.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def check(words, code, printed):
    assert code == (1 if words[0] == "verify" and "damaged: " in printed else 2), (words, printed)
    assert "Traceback" not in printed, (words, printed)
    assert UNFORESEEN not in printed, (words, printed)
    assert 0 < len(printed) < 2000, (words, printed)


def test_there_are_300_of_them():
    assert len({tuple(line) for line in LINES}) >= 300


@pytest.mark.parametrize("verb", sorted({line[0] for line in LINES}))
def test_they_are_refused_and_leave_nothing(verb, folder, capsys):
    for words in (line for line in LINES if line[0] == verb):
        before = tree(folder)
        code = main(words)
        check(words, code, capsys.readouterr().err)
        assert tree(folder) == before, words


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", TABLE)
def test_the_commands_they_are_made_of_work(command, folder, capsys):
    before = set(os.listdir(folder))
    assert main(command.split()) == 0
    for name in set(os.listdir(folder)) - before:
        shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)


@pytest.mark.parametrize("words", [["generate", "darcy", "--workers", "-2", "--out", "new"],
                                   ["verify", "arch", "--rebuild", "-4"], ["show", "arch", "--dpi", "0"]])  # fmt: skip
def test_a_process_ends_the_same_way(words, folder):
    before = tree(folder)
    done = run(words)
    check(words, done.returncode, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert tree(folder) == before


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "step", [pytest.param(12, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_they_are_refused_as_processes(step, folder):
    for words in [line for line in LINES if not any(NUL in word for word in line)][::step]:
        before = tree(folder)
        done = run(words)
        check(words, done.returncode, done.stderr)
        assert tree(folder) == before, words


@contextmanager
def permissions_count():
    """Inside, permissions bind root too: this thread lacks CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    header, held = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    kernel = ctypes.CDLL(None)
    assert kernel.capget(header, held) == 0
    without = (ctypes.c_uint32 * 6)(held[0] & ~0b110, *held[1:])
    assert kernel.capset(header, without) == 0
    try:
        yield
    finally:
        assert kernel.capset(header, held) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
@pytest.mark.parametrize(
    "line",
    ["discover good.npz --out closed/new", "show arch --out closed/a.png", "export the-well arch --out closed/a.h5",
     "info noread", "verify noread", "generate darcy --out closed/new --systems 2 --workers 1",
     "train nips-2 --data arch --out closed/t --steps 2", "train secret.json --data arch --out free",
     "evaluate ridge --data arch --pairs 2 --json closed/x.json", "design good.npz --out closed/x.npz",
     "publish run --name a --out closed/w", "generate darcy --config secret.json --out free"],
)  # fmt: skip
def test_what_must_not_be_read_or_written(line, folder, capsys):
    (folder / "closed").mkdir(exist_ok=True, mode=0o555)
    (folder / "secret.json").touch(mode=0)
    if not (folder / "noread").exists():
        shutil.copytree(folder / "arch", folder / "noread")
        (folder / "noread" / "manifest.json").chmod(0)
    before = tree(folder)
    with permissions_count():
        code = main(line.split())
    check(line.split(), code, capsys.readouterr().err)
    assert tree(folder) == before


def test_a_defect_says_how_to_report_it_and_shows_its_traceback_when_asked(folder, monkeypatch, capsys):
    monkeypatch.setattr("nipde.cli.info.card", lambda archive: 1 / 0)
    assert main(["info", "arch"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(UNFORESEEN)
    assert DEBUG in printed
    assert len(printed.splitlines()) == 1
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(ZeroDivisionError):
        main(["info", "arch"])
