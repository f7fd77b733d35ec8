import os
import pty
import subprocess
import sys

import numpy as np
import pytest

import nipde
from nipde.cli import main


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "darcy"
    assert main(["generate", "darcy", "--grid", "11", "--systems", "12", "--pairs", "5", "--workers", "1",
                 "--seed", "4", "--out", str(path)]) == 0  # fmt: skip
    return path


def test_generate_takes_every_option_the_issue_names(tmp_path, capsys):
    words = ["--grid", "11", "--systems", "10", "--pairs", "4", "--seed", "2", "--shared-loads", "--field-alpha", "3",
             "--load-alpha", "[1,2,4]", "--workers", "2"]  # fmt: skip
    assert main(["generate", "darcy", *words, "--out", str(tmp_path / "a")]) == 0
    assert "10 systems" in capsys.readouterr().out
    recipe = nipde.open_archive(tmp_path / "a").plan.recipe
    assert (recipe.nodes, recipe.pairs, recipe.shared_loads, recipe.field_alpha) == (11, 4, True, 3.0)
    assert recipe.load_alpha == (1.0, 2.0, 4.0)


def test_jobs_of_an_array_and_their_merge(made, tmp_path, capsys):
    words = ["generate", "darcy", "--grid", "11", "--systems", "12", "--pairs", "5", "--workers", "1", "--seed", "4",
             "--out", str(tmp_path / "a")]  # fmt: skip
    assert main([*words, "--shard", "2/2"]) == 0
    assert "job 2 of 2: 6 of 12 shards, 6 systems ready (6 computed now)" in capsys.readouterr().out
    assert main([*words, "--merge", "2"]) == 2
    assert "run again --shard 1/2" in capsys.readouterr().err
    assert main([*words, "--shard", "1/2"]) == 0
    assert main([*words, "--merge", "2"]) == 0
    assert nipde.open_archive(tmp_path / "a", verify=True).digest == nipde.open_archive(made).digest


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(tmp_path, capsys):
    words = ["--grid", "9", "--pairs", "2", "--systems", "1000000", "--out", str(tmp_path / "a")]
    assert main(["generate", "darcy", *words, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "1000000 systems: 1.7 GB in 246 files, 39 shards of 25890 systems" in said
    assert "core hours" in said
    assert not (tmp_path / "a").exists()
    assert main(["generate", "darcy", *words, "--dry-run", "--merge", "3"]) == 2


def test_options_may_come_from_a_file(tmp_path):
    (tmp_path / "plan.yaml").write_text("grid: 11\nsystems: 10\npairs: 3\nphases: [2.0, 1.0]\n")
    assert main(["generate", "darcy", "--config", str(tmp_path / "plan.yaml"), "--workers", "1",
                 "--pairs", "4", "--out", str(tmp_path / "a")]) == 0  # fmt: skip
    archive = nipde.open_archive(tmp_path / "a")
    assert archive.plan.recipe.pairs == 4  # the command line wins
    assert set(np.unique(archive[0].hidden)) <= {1.0, 2.0}


def test_running_again_computes_nothing(made, capsys):
    words = ["--grid", "11", "--systems", "12", "--pairs", "5", "--seed", "4", "--workers", "1", "--out", str(made)]
    assert main(["generate", "darcy", *words]) == 0
    assert "(0 computed now)" in capsys.readouterr().out


def test_info_is_a_card_a_person_understands(made, capsys):
    assert main(["info", str(made)]) == 0
    printed = capsys.readouterr().out
    digest = nipde.open_archive(made).digest
    for words in ("12 systems × 5 pairs", "11 × 11 nodes on 1 × 1", "permeability, unit none: values 3 and 12",
                  "every system has its own", "train 10, validation 1, test 1", digest):  # fmt: skip
        assert words in printed


def test_show_draws_a_picture(made, tmp_path, capsys):
    assert main(["show", str(made), "--system", "3", "--out", str(tmp_path / "fig.png")]) == 0
    picture = (tmp_path / "fig.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000  # three panels, not an empty canvas


def test_estimate_learns_from_some_pairs_and_is_judged_on_the_others(made, tmp_path, capsys):
    words = ["--system", "11", "--context", "4", "--out", str(tmp_path / "fig.png")]
    assert main(["estimate", str(made), "--estimator", "minimum-norm", *words]) == 0
    printed = capsys.readouterr().out
    inside, outside = (float(line.split(":")[1].split("%")[0]) for line in printed.splitlines()[:2])
    assert inside < 1e-3 < 10 < outside  # the context is reproduced, a new load is not
    assert main(["estimate", str(made), "--estimator", "darcy-two-phase", *words]) == 0
    printed = capsys.readouterr().out
    assert "bands of 90 % hold" in printed
    assert "In-distribution check" in printed
    assert main(["estimate", str(made), "--estimator", "adjoint-tv", *words]) == 0
    assert float(capsys.readouterr().out.splitlines()[1].split(":")[1].split("%")[0]) < 5  # knowing the law helps
    assert len((tmp_path / "fig.png").read_bytes()) > 10_000


def test_estimate_takes_the_mean_over_orders_of_the_pairs(tmp_path, capsys):
    made = str(tmp_path / "smooth")
    words = ["--grid", "21", "--systems", "4", "--pairs", "60", "--load-alpha", "4", "--workers", "1"]
    assert main(["generate", "darcy", *words, "--out", made]) == 0
    capsys.readouterr()

    def printed(*words):
        assert main(["estimate", made, "--estimator", "nips-2-darcy", "--context", "50", *words]) == 0
        return [float(line.split("%")[0].split()[-1]) for line in capsys.readouterr().out.splitlines()]

    one, mean = printed(), printed("--orders", "8")
    assert (len(one), len(mean)) == (2, 3)
    assert mean[0] < one[0] < 10
    assert 0.5 < mean[2] < one[1]  # per cent between the answers
    assert printed("--orders", "8", "--noise", "0.1")[2] > 1.05 * mean[2]  # of the pairs as they were measured
    assert main(["estimate", made, "--estimator", "ridge", "--orders", "2"]) == 2
    assert "NIPS, NAO or AFNO, got Ridge" in capsys.readouterr().err


def test_estimate_says_what_a_solid_is_made_of(tmp_path, capsys):
    made = str(tmp_path / "tissue")
    words = ["--grid", "11", "--systems", "10", "--pairs", "9", "--workers", "1", "--out", made]
    assert main(["generate", "tissue", *words]) == 0
    words = ["--context", "8", "--noise", "0.01", "--out", str(tmp_path / "fig.png")]
    for estimator, sure in (("elastic-adjoint", True), ("conditioned-elastic", False)):
        capsys.readouterr()
        assert main(["estimate", made, "--estimator", estimator, *words]) == 0
        printed = capsys.readouterr().out
        assert "Young's modulus from 0.4" in printed
        assert ", on the two sides of a line at " in printed
        assert ("in the median cell" in printed) == sure
        assert len((tmp_path / "fig.png").read_bytes()) > 10_000


def test_a_vector_field_is_drawn_too(tmp_path):
    words = ["--systems", "10", "--pairs", "2", "--workers", "1", "--out", str(tmp_path / "a")]
    assert main(["generate", "advection", *words]) == 0
    assert main(["show", str(tmp_path / "a"), "--out", str(tmp_path / "fig.svg")]) == 0
    assert "velocity" in (tmp_path / "fig.svg").read_text() or (tmp_path / "fig.svg").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fly"], "'fly'"),
        (["info", "nowhere"], "nowhere"),
        (["show", "ARCHIVE", "--system", "99"], "99"),
        (["estimate", "ARCHIVE", "--estimator", "oracle"], "a method (minimum-norm, ridge"),
        (["estimate", "ARCHIVE", "--context", "5"], "5"),
        (["show", "ARCHIVE", "--pair", "9"], "9"),
        (["generate", "darcy", "--seed", "-1", "--out", "x"], "-1"),
        (["generate", "darcy", "--pairs", "0", "--out", "x"], "0"),
        (["generate", "darcy", "--grid", "2", "--out", "x"], "2"),
        (["generate", "darcy", "--phases", "[12,-3]", "--workers", "1", "--out", "x"], "-3"),
        (["generate", "advection", "--speed", "99", "--workers", "1", "--out", "x"], "Péclet"),
        (["generate", "weather"], "weather"),
        (["evaluates"], "evaluate"),
        (["evaluate", "dracy", "--data", "ARCHIVE"], "darcy"),
        (["publish", "run", "--name", "a", "--out", "shared"], "a file or a folder"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(words, said, made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([str(made) if word == "ARCHIVE" else word for word in words]) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert "Traceback" not in printed


def test_an_option_that_does_not_exist_is_refused(capsys):
    assert main(["generate", "darcy", "--face-mean", "geometric", "--out", "x"]) == 2
    assert "harmonic" in capsys.readouterr().err


def test_progress_is_shown_on_a_terminal_and_nowhere_else(tmp_path):
    command = [sys.executable, "-m", "nipde.cli", "generate", "darcy", "--systems", "300", "--workers", "1", "--out"]
    quiet = subprocess.run([*command, str(tmp_path / "a")], capture_output=True, text=True, check=True)
    assert quiet.stderr == ""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*command, str(tmp_path / "b")], stdout=subprocess.DEVNULL, stderr=theirs,
                               env={**os.environ, "TERM": "xterm", "COLUMNS": "100"})  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        shown += piece
    os.close(ours)
    assert process.wait() == 0
    assert b"systems" in shown
    assert b"/300" in shown
    assert b"/s" in shown
