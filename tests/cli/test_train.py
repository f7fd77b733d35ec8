import json
from dataclasses import fields

import pytest
import torch

import nipde
from nipde.cli import main
from nipde.evaluation.evaluate import evaluate
from nipde.training.callbacks import read_log
from nipde.training.feed import Source
from nipde.training.recipe import CASES, ModelRecipe, TrainingRecipe
from nipde.weights import checkpoint, load

SMALL = ["--channels", "6", "--context", "8", "--batch", "4", "--steps", "8", "--warmup", "2", "--validate-every", "4",
         "--threads", "1", "--no-tensorboard"]  # fmt: skip


@pytest.fixture(autouse=True)
def threads():
    """As before: --threads is for the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "darcy"
    words = ["--grid", "9", "--systems", "12", "--pairs", "12", "--split", "[0.5,0.25,0.25]", "--workers", "1"]
    assert main(["generate", "darcy", *words, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def trained(made, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    before = torch.get_num_threads()
    assert main(["train", "nips-2", "--data", str(made), "--out", str(path), *SMALL]) == 0
    torch.set_num_threads(before)
    return path


def test_a_run_leaves_recipe_weights_state_and_log(trained, made):
    assert {path.name for path in trained.iterdir()} == {
        ".lock", "recipe.json", "best.safetensors", "last.safetensors", "log.csv",
    }  # fmt: skip
    kept = json.loads((trained / "recipe.json").read_text())
    assert kept["data"] == nipde.open_archive(made).digest
    recipe = TrainingRecipe.from_dict(kept["recipe"])
    options = {"channels": 6, "context": 8, "batch": 4, "steps": 8, "minutes": None, "warmup": 2, "validate_every": 4}
    assert recipe == CASES["nips-2"].with_options(options)
    assert [row["step"] for row in read_log(trained / "log.csv")] == ["4", "8"]
    _, card = checkpoint.load(trained / "best.safetensors")
    assert (card["nipde"], card["recipe"], card["data"]) == (nipde.__version__, kept["recipe"], kept["data"])


def test_several_archives_and_lists_reach_the_run(made, tmp_path):
    words = ["generate", "darcy", "--grid", "9", "--systems", "12", "--pairs", "12", "--split", "[0.5,0.25,0.25]"]
    assert main([*words, "--workers", "1", "--seed", "3", "--out", str(tmp_path / "more")]) == 0
    words = ["--data", str(made), "--data", str(tmp_path / "more"), "--out", str(tmp_path / "run"), *SMALL]
    more = ["--noise", "[0,0.05]", "--symmetries", "true"]
    assert main(["train", "nips-2", *words, *more]) == 0
    kept = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert kept["data"] == "+".join(nipde.open_archive(path).digest for path in (made, tmp_path / "more"))
    assert (kept["recipe"]["noise"], kept["recipe"]["symmetries"], kept["recipe"]["context"]) == ([0.0, 0.05], True, 8)
    # The recipe alone brings all of it back, and --resume finds the same run.
    assert main(["train", str(tmp_path / "run" / "recipe.json"), *words[:6], *words[-3:], "--resume"]) == 0
    assert main(["train", "nips-2", "--data", str(made), *words[4:], *more, "--resume"]) == 2


def test_the_last_line_says_what_came_out(made, tmp_path, capsys):
    assert main(["train", "afno-2", "--data", str(made), "--out", str(tmp_path / "run"), *SMALL]) == 0
    printed, complained = capsys.readouterr()
    card = checkpoint.load(tmp_path / "run" / "best.safetensors")[1]
    best, step = card["validation"]["held_out"], card["step"]
    line = f"best held-out error on validation systems {100 * best:.3g} % at step {step}; weights in {tmp_path / 'run'}"
    assert printed.startswith("8 steps, ")
    assert printed.strip().endswith(line)
    assert complained == ""


def test_evaluate_takes_the_folder_of_a_run(trained, made, tmp_path, capsys):
    file = tmp_path / "found.json"
    words = ["--data", str(made), "--pairs", "8", "--no-inversion", "--json", str(file)]
    assert main(["evaluate", str(trained), *words]) == 0
    found = json.loads(file.read_text())
    expected = evaluate(load(trained), nipde.open_archive(made), context=8, inversion=False).to_dict()
    for name in ("held_out", "in_context", "kernel", "worst_decile", "per_system"):
        assert found[name] == expected[name], name
    assert main(["evaluate", str(trained / "last.safetensors"), *words]) == 0
    other = json.loads(file.read_text())
    best_step = checkpoint.load(trained / "last.safetensors")[1]["best_step"]
    assert (other["held_out"] == found["held_out"]) == (best_step == 8)


def test_help_lists_every_option_of_a_recipe(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    for kind in (TrainingRecipe, ModelRecipe):
        for field in fields(kind):
            assert field.name == "model" or f"--{field.name.replace('_', '-')} " in printed, field.name
    for word in ("--data", "--out", "--devices", "--restarts", "--resume", "--save-seconds", "--threads", *CASES):
        assert word in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nips-9"], "expected a case among nips-2, nips-4, nao-2"),
        (["nips-9"], "or the file of a recipe, got nips-9"),
        (["nips-2", "--minutes", "1", "--steps", "2"], "expected steps or minutes, got both"),
        (["nips-2", "--context", "12", "--steps", "2"], "nothing is left to validate on, expected more than 12 pairs"),
        (["nips-2", "--context", "13", "--steps", "2"], "nothing is left to validate on, expected more than 13 pairs"),
        (["nips-2", "--context", "8", "--batch", "5", "--parts", "2", "--steps", "2"], "share evenly, got 5"),
        (["nips-2", "--context", "8", "--batch", "5", "--devices", "2", "--steps", "2"], "share evenly, got 5"),
        (["nips-2", "--context", "8", "--queries", "5", "--steps", "2"], "beside 5 queries, got 8: take fewer pairs"),
        (["nips-2", "--batch", "0", "--steps", "2"], "expected batch above 0, got 0"),
        (["nips-2", "--context", "[8,5]", "--steps", "2"], "expected one number of pairs for nips, got [8, 5]: give"),
        (["nips-2", "--context", "[]", "--steps", "2"], "expected at least one context, got none"),
        (["nips-2", "--context", "8", "--prior-weight", "1", "--steps", "2"], "nips, which has no prior, got 1.0"),
        (["conditioned-gated", "--context", "[5,8]", "--queries", "5", "--steps", "2"], "beside 5 queries, got 8"),
        (["nips-2", "--context", "8", "--seed", "-1", "--steps", "2"], "seed"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(made, tmp_path, words, said, capsys):
    assert main(["train", *words, "--data", str(made), "--out", str(tmp_path / "run"), "--no-tensorboard"]) == 2
    complained = capsys.readouterr().err
    assert said in complained
    assert complained.count("\n") == 1
    assert not (tmp_path / "run").exists()  # the same command, put right, is not refused for what this one left


def test_a_mistake_in_the_type_of_an_option_is_found_before_anything_is_done(made, tmp_path, capsys):
    for words in (["--batch", "many"], ["--kind", "gnot"], ["--precision", "float16"], ["--colour", "red"]):
        assert main(["train", "nips-2", "--data", str(made), "--out", str(tmp_path / "run"), *words]) == 2
        assert words[0].strip("-") in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_recipe_may_come_from_an_earlier_run(trained, made, tmp_path):
    words = ["--data", str(made), "--out", str(tmp_path / "run"), "--threads", "1", "--no-tensorboard"]
    assert main(["train", str(trained / "recipe.json"), *words]) == 0
    one, other = (checkpoint.load(path / "last.safetensors")[0] for path in (trained, tmp_path / "run"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("content", ["no recipe\n", "{}", "[]", '{"recipe": {"steps": 3}}', '{"recipe": 3}'])
def test_a_file_that_is_no_recipe_is_answered_with_a_sentence(made, tmp_path, content, capsys):
    (tmp_path / "recipe.json").write_text(content)
    words = ["--data", str(made), "--out", str(tmp_path / "run"), "--no-tensorboard"]
    assert main(["train", str(tmp_path / "recipe.json"), *words]) == 2
    assert "recipe" in capsys.readouterr().err


def test_a_run_is_continued_only_if_asked_for_and_as_it_began(trained, made, capsys):
    words = ["--data", str(made), "--out", str(trained)]
    before = (trained / "last.safetensors").read_bytes()
    assert main(["train", "nips-2", *words, *SMALL]) == 2
    assert "--resume it, or choose another --out" in capsys.readouterr().err
    assert main(["train", "nips-2", *words, *SMALL, "--resume", "--learning-rate", "1"]) == 2
    assert "expected learning_rate=0.05, got learning_rate=1.0" in capsys.readouterr().err
    assert (trained / "last.safetensors").read_bytes() == before
    assert main(["train", "nips-2", *words, *SMALL, "--resume"]) == 0
    assert capsys.readouterr().out.startswith("8 steps, ")


def test_what_is_said_about_other_threads_goes_to_the_side(made, tmp_path, capsys):
    words = ["--data", str(made), "--out", str(tmp_path / "run"), *SMALL]
    assert main(["train", "nips-2", *words]) == 0
    words[words.index("--threads") + 1] = "2"
    assert main(["train", "nips-2", *words, "--resume"]) == 0
    printed, complained = capsys.readouterr()
    assert complained.startswith("note: continued with ")
    assert "note" not in printed


def test_tensorboard_is_written_unless_told_otherwise(made, tmp_path):
    pytest.importorskip("tensorboard")
    words = [word for word in SMALL if word != "--no-tensorboard"]
    assert main(["train", "nips-2", "--data", str(made), "--out", str(tmp_path / "run"), *words]) == 0
    assert list((tmp_path / "run" / "tensorboard").iterdir())


# On a terminal

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture
def terminal(monkeypatch):
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm-256color"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)


def test_a_bar_tells_how_it_goes_and_is_taken_away(made, tmp_path, terminal, capsys):
    assert main(["train", "nips-2", "--data", str(made), "--out", str(tmp_path / "run"), *SMALL]) == 0
    printed, shown = capsys.readouterr()
    assert "step 8  loss " in shown
    assert "held out " in shown
    assert shown.count(HIDDEN) == shown.count(SHOWN) == 1
    assert printed.startswith("8 steps, ")


def test_a_failure_can_be_read_and_leaves_the_terminal_as_it_was(made, tmp_path, terminal, capsys, monkeypatch):
    read = Source._read

    def spoiled(self, systems):
        loads, responses = read(self, systems)
        responses[:] = float("nan")
        return loads, responses

    monkeypatch.setattr(Source, "_read", spoiled)
    assert main(["train", "nips-2", "--data", str(made), "--out", str(tmp_path / "run"), *SMALL]) == 2
    shown = capsys.readouterr().err
    assert shown.count(HIDDEN) == shown.count(SHOWN)
    assert "NonFiniteError: step 0: loss nan" in shown.rpartition(SHOWN)[2]
