import json

import pytest

import nipde
from nipde.cli import main


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "darcy"
    words = ["--grid", "9", "--systems", "10", "--pairs", "12", "--split", "[0.5,0.1,0.4]", "--workers", "1"]
    assert main(["generate", "darcy", *words, "--out", str(path)]) == 0
    return path


def test_a_table_for_people_and_a_file_with_everything(made, tmp_path, capsys):
    file = tmp_path / "new" / "found.json"
    words = ["--data", str(made), "--pairs", "9", "--noise", "0.01", "--systems", "2", "--json", str(file)]
    assert main(["evaluate", "adjoint-tv", *words]) == 0
    printed = capsys.readouterr().out
    assert "2 test systems, 9 pairs each, 3 loads held out, noise 1 %" in printed
    found = json.loads(file.read_text())
    (line,) = [line for line in printed.splitlines() if line.startswith("held-out loads")]
    assert float(line.split()[2]) == pytest.approx(100 * found["held_out"]["mean"], rel=0.01)
    for name in ("held_out", "in_context", "held_out_interior", "held_out_edge", "kernel", "microstructure",
                 "phase_accuracy", "phase_accuracy_inside", "worst_decile"):  # fmt: skip
        assert {"mean", "low", "high", "spread"} == set(found[name])
    assert found["command"] == " ".join(["nipde evaluate adjoint-tv", *words])
    assert (found["nipde"], found["estimator"]) == (nipde.__version__, "adjoint-tv")
    assert found["archive"] == nipde.open_archive(made).digest
    assert (found["pairs"], found["noise"], found["systems"], found["queries"]) == (9, 0.01, 2, 3)
    assert (found["part"], found["seed"], found["loads"]) == ("test", 0, "own")
    assert len(found["per_system"]["held_out"]) == len(found["per_system"]["in_context"]) == 2


def test_half_of_few_pairs_are_the_context_unless_told(made, capsys):
    assert main(["evaluate", "ridge", "--data", str(made), "--systems", "1", "--no-inversion"]) == 0
    assert "6 pairs each, 6 loads held out" in capsys.readouterr().out


def test_an_estimator_may_learn_from_another_archive(made, tmp_path):
    other = tmp_path / "other"
    words = ["--grid", "9", "--systems", "10", "--pairs", "8", "--seed", "7", "--workers", "1", "--out", str(other)]
    assert main(["generate", "darcy", *words]) == 0
    found = []
    for more in ([], ["--training-data", str(other)]):
        words = ["--data", str(made), "--pairs", "9", "--no-inversion", "--json", str(tmp_path / "found.json")]
        assert main(["evaluate", "training-span", *words, *more]) == 0
        found.append(json.loads((tmp_path / "found.json").read_text()))
    assert [one["training_archive"] for one in found] == [
        nipde.open_archive(made).digest,
        nipde.open_archive(other).digest,
    ]
    assert found[0]["archive"] == found[1]["archive"]
    assert found[0]["held_out"]["mean"] != found[1]["held_out"]["mean"]
    assert found[0]["microstructure"] is None


def test_weights_are_given_by_their_path(made, tmp_path, monkeypatch):
    opened = []

    def load(path):
        opened.append(path)
        return nipde.NIPS(nipde.open_archive(made).grid, pairs=8, channels=4, layers=2)

    monkeypatch.setattr("nipde.cli.estimators.load", load)
    words = ["--data", str(made), "--pairs", "8", "--no-inversion", "--json", str(tmp_path / "found.json")]
    assert main(["evaluate", str(tmp_path), *words]) == 0
    assert opened == [str(tmp_path)]
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["estimator"], found["training_archive"]) == (str(tmp_path), None)
    assert 0 < found["held_out"]["mean"] < float("inf")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["oracle"], "a method (minimum-norm, ridge"),
        (["ridge", "--pairs", "12"], "got 12 in the context, 0 left as queries: take fewer pairs"),
        (["ridge", "--part", "exam"], "exam"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(made, words, said, capsys):
    assert main(["evaluate", *words, "--data", str(made)]) == 2
    assert said in capsys.readouterr().err
