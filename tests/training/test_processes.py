"""Real processes: two that train together, and one that is told to stop."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks import interruptions, processes
from nipde.cli import main
from nipde.errors import TrainingError
from nipde.training.callbacks import read_log
from nipde.training.fit import fit
from nipde.training.recipe import CASES
from nipde.weights import checkpoint
from nipde.weights.models import BEST, LAST


@pytest.fixture
def command(folder, words):
    """The command that trains into a folder."""

    def of(out, *more: str) -> list[str]:
        return [sys.executable, "-m", "nipde.cli", "train", *words, "--data", str(folder / "own"), "--out", str(out),
                "--no-tensorboard", *more]  # fmt: skip

    return of


@pytest.fixture
def recipe():
    """The recipe of that command."""

    def of(**options):
        given = {"channels": 6, "context": 8, "batch": 4, "warmup": 5, "validate_every": 5, "minutes": None}
        return CASES["nips-2"].with_options(given | options)

    return of


@pytest.fixture
def environment(monkeypatch):
    """One thread everywhere, as in this process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def tensors_of(path) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in checkpoint.load(path)[0].items()}


def begun(process: subprocess.Popen, out, rows: int = 5) -> None:
    """Wait until a process has logged some rows."""
    deadline = time.monotonic() + 60
    while not (out / "log.csv").exists() or len(read_log(out / "log.csv")) < rows:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told(process: subprocess.Popen, number: int) -> tuple[int, float, str, str]:
    """Send a signal; exit code, seconds until then, and what was said."""
    start = time.monotonic()
    process.send_signal(number)
    said, complained = process.communicate(timeout=60)
    return process.returncode, time.monotonic() - start, said, complained


# Two processes


@pytest.mark.slow
def test_two_processes_train_as_one(own, recipe, command, environment, tmp_path):
    done = subprocess.run(
        command(tmp_path / "two", "--devices=2", "--restarts=0", "--steps=20", "--log-every=1"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("20 steps, ") == 1  # one of them speaks
    runs = {parts: fit(recipe(steps=20, parts=parts), own, tmp_path / str(parts), log_every=1) for parts in (1, 2)}
    rows = {name: read_log(tmp_path / name / "log.csv") for name in ("two", "1", "2")}
    for column in ("loss", "gradient_norm", "held_out", "in_context"):
        two, one, parts = ([float(row[column]) for row in rows[name] if row[column]] for name in ("two", "1", "2"))
        assert len(two) == (4 if column in ("held_out", "in_context") else 20)
        np.testing.assert_allclose(two, one, rtol=1e-5)
        np.testing.assert_allclose(two, parts, rtol=1e-6)
    # One process that works in two parts adds the same numbers in the same order: not one bit is different.
    assert [row["loss"] for row in rows["two"]] == [row["loss"] for row in rows["2"]]
    for name in (LAST, BEST):
        assert tensors_of(tmp_path / "two" / name) == tensors_of(tmp_path / "2" / name)
    record = checkpoint.load(tmp_path / "two" / LAST)[1]
    assert (record["step"], record["best_step"]) == (20, runs[2].best_step)
    assert record["best"] == pytest.approx(runs[2].best, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "more"), [(2, ("--tile-rows=2",)), (4, ())], ids=["1x2", "2x2"])
def test_processes_that_share_every_grid_train_as_one(own, recipe, command, environment, tmp_path, devices, more):
    several = (f"--devices={devices}", "--space=2", "--restarts=0", "--steps=20", "--log-every=1")
    done = subprocess.run(
        command(tmp_path / "several", *several, *more, "--gains=pair", "--modes=3"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    fit(recipe(steps=20, gains="pair", modes=3), own, tmp_path / "one", log_every=1)
    rows = {name: read_log(tmp_path / name / "log.csv") for name in ("several", "one")}
    for column in ("loss", "gradient_norm", "held_out", "in_context"):
        found, wanted = ([float(row[column]) for row in rows[name] if row[column]] for name in ("several", "one"))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.slow
def test_processes_that_share_every_grid_train_a_gated_prior_as_one(folder, command, environment, tmp_path):
    words = [*command(tmp_path / "several")[:4], "conditioned-gated", "--channels=4", "--terms=3", "--context=[5,4]",
             "--queries=3", "--steps=10", "--batch=2", "--validate-every=5", "--log-every=1"]  # fmt: skip
    rest = [f"--data={folder / 'own'}", "--no-tensorboard"]
    runs = {"several": ("--devices=2", "--space=2", "--restarts=0"), "one": ()}
    for name, more in runs.items():
        done = subprocess.run(
            [*words, *rest, f"--out={tmp_path / name}", *more], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    rows = {name: read_log(tmp_path / name / "log.csv") for name in runs}
    for column in ("loss", "gradient_norm", "held_out", "in_context"):
        found, wanted = ([float(row[column]) for row in rows[name] if row[column]] for name in runs)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6)  # single precision; each step from the last


def test_grids_are_shared_by_nips_and_by_a_multiple_of_processes(command, tmp_path, capsys):
    words = command(tmp_path / "run", "--steps=1")[3:]
    assert main([*words, "--devices=3", "--space=2"]) == 2
    assert "a multiple of 2 processes" in capsys.readouterr().err
    assert main(["train", "conditioned-elliptic", *words[2:], "--devices=2", "--space=2"]) == 2
    assert (
        "expected nips, nips-mlp or a gated prior without a head with --space, got conditioned"
        in capsys.readouterr().err
    )
    with pytest.raises(TrainingError) as error:
        CASES["nao-2"].with_options({"tile_rows": 4})
    assert error.value.got == "nao"


def test_tiles_of_rows_train_as_the_whole_grid(own, recipe, tmp_path):
    runs = [fit(recipe(steps=5, tile_rows=rows), own, tmp_path / str(rows), log_every=1) for rows in (None, 4)]
    losses = [[float(row["loss"]) for row in read_log(tmp_path / str(rows) / "log.csv")] for rows in (None, 4)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert runs[1].best == pytest.approx(runs[0].best, rel=1e-5)


@pytest.mark.slow
def test_two_processes_agree_on_what_a_step_shares(archives, recipe, command, environment, folder, tmp_path):
    more = ("--noise=[0.05,0,0.1]", "--symmetries=true", f"--data={folder / 'other'}", "--queries=2", "--steps=20")
    done = subprocess.run(
        command(tmp_path / "two", *more, "--devices=2", "--restarts=0", "--log-every=1"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = recipe(noise=(0.05, 0.0, 0.1), symmetries=True, queries=2, steps=20, parts=2)
    fit(asked, [archives["own"], archives["other"]], tmp_path / "parts", log_every=1)
    rows = [read_log(tmp_path / name / "log.csv") for name in ("two", "parts")]
    assert [row["loss"] for row in rows[0]] == [row["loss"] for row in rows[1]]
    for name in (LAST, BEST):
        assert tensors_of(tmp_path / "two" / name) == tensors_of(tmp_path / "parts" / name)


def test_two_processes_refuse_a_folder_with_a_run_before_they_start(own, recipe, command, tmp_path, capsys):
    fit(recipe(steps=1), own, tmp_path / "run")
    before = (tmp_path / "run" / LAST).read_bytes()
    assert main(command(tmp_path / "run", "--devices=2", "--steps=1")[3:]) == 2
    assert "expected a folder without a run" in capsys.readouterr().err
    assert (tmp_path / "run" / LAST).read_bytes() == before


@pytest.mark.slow
def test_two_processes_that_are_told_to_stop_go_on_as_if_nothing_happened(command, environment, tmp_path):
    more = ("--devices=2", "--restarts=1", "--steps=300", "--log-every=1")
    subprocess.run(command(tmp_path / "calm", *more), check=True, capture_output=True)
    for number, expected in ((signal.SIGTERM, 143), (signal.SIGUSR1, 0)):
        out = tmp_path / str(expected)
        process = subprocess.Popen(command(out, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        begun(process, out)
        code, seconds, said, complained = told(process, number)
        assert (code, seconds < 20) == (expected, True), complained
        assert "stopped after step" in said
        subprocess.run(command(out, *more, "--resume"), check=True, capture_output=True)
        assert tensors_of(out / LAST) == tensors_of(tmp_path / "calm" / LAST)


@pytest.mark.slow
def test_a_restart_by_torchrun_does_not_take_over_a_foreign_run(
    own, recipe, command, environment, tmp_path, monkeypatch
):
    monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")  # else the second attempt may not even connect
    fit(recipe(steps=20), own, tmp_path / "run")
    state = json.loads((tmp_path / "run" / "recipe.json").read_text())
    before = os.stat(tmp_path / "run" / LAST).st_mtime_ns
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    words = command(tmp_path / "run", "--steps=20")[1:]
    done = subprocess.run([*torchrun, *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "expected a folder without a run" in done.stderr
    assert json.loads((tmp_path / "run" / "recipe.json").read_text()) == state
    assert os.stat(tmp_path / "run" / LAST).st_mtime_ns == before


MEETING = """
import os, signal, time
from nipde.training.processes import joined
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
with joined() as group:
    group.sum(1.0)
    while attempt < 4:
        if group.rank == attempt % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        group.sum(1.0)
    print("met" if group.sum(1.0) == [2.0] else "alone", flush=True)
"""


@pytest.mark.slow
def test_processes_meet_again_after_every_restart_by_torchrun(environment, tmp_path):
    (tmp_path / "meeting.py").write_text(MEETING)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=4"]
    process = subprocess.Popen(
        [*torchrun, str(tmp_path / "meeting.py")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, complained = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate(timeout=60)
        raise
    assert process.returncode == 0, complained
    assert (said.count("met"), said.count("alone")) == (2, 0)


@pytest.mark.slow
def test_the_measurement_of_two_processes_holds_what_it_must():
    found = processes.measure(quick=True)
    assert found["largest_relative_gap_of_losses"] < 1e-5
    assert found["bitwise_as_two_parts"]
    assert found["bitwise_after_kills"]


@pytest.mark.slow
def test_the_measurement_of_interruptions_holds_what_it_must():
    found = interruptions.measure(quick=True)
    assert found["killed"]["equal"] == found["killed"]["runs"]
    assert found["terminated"]["equal"] == found["terminated"]["signals"]
    full = found["disk_full"]
    assert full["refused"] == full["previous_kept"] == full["sizes"]
    assert full["files_left_over"] == 0


# Signals


def test_a_command_that_is_told_to_stop_saves_and_goes_on_with_the_same_bits(
    own, recipe, command, environment, tmp_path, end_of, capsys
):
    out, more = tmp_path / "run", ("--steps=100", "--validate-every=50", "--log-every=1")
    process = subprocess.Popen(command(out, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    begun(process, out)
    code, seconds, said, complained = told(process, signal.SIGTERM)
    assert (code, complained) == (143, "")
    assert seconds < 5
    step = checkpoint.load(out / LAST)[1]["step"]
    assert 5 <= step < 100
    assert f"stopped after step {step}, all is saved; the same command with --resume goes on" in said
    assert main(command(out, *more, "--resume")[3:]) == 0
    printed, complained = capsys.readouterr()
    assert printed.startswith("100 steps, ")
    assert complained == ""
    fit(recipe(steps=100, validate_every=50), own, tmp_path / "calm", log_every=1)
    assert end_of(out) == end_of(tmp_path / "calm")
    logs = [[(row["step"], row["loss"]) for row in read_log(path / "log.csv")] for path in (out, tmp_path / "calm")]
    assert logs[0] == logs[1]


@pytest.mark.slow
def test_a_scheduler_that_asks_for_a_save_gets_no_error(command, environment, tmp_path):
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(out, "--steps=100000", "--log-every=1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    begun(process, out)
    code, seconds, said, complained = told(process, signal.SIGUSR1)
    assert (code, complained) == (0, "")
    assert seconds < 5
    assert f"stopped after step {checkpoint.load(out / LAST)[1]['step']}, all is saved" in said
