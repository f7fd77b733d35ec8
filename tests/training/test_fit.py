"""A run can be stopped and continued anywhere, in any way, and ends with the bits of one that was left alone."""

import json
import math
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.context.sampling import Sampler
from nipde.errors import CheckpointError, NipdeError, NonFiniteError, PairsError, StoppedEarly, TrainingError
from nipde.evaluation.metrics import relative_errors
from nipde.training.callbacks import Callback, Validated, Validator, history, mean_of, read_log
from nipde.training.feed import Source, training_source
from nipde.training.fit import fit
from nipde.training.processes import Group
from nipde.training.run import Run
from nipde.training.task import task_of
from nipde.weights import checkpoint, load
from nipde.weights.models import BEST, LAST

KINDS = ("nips", "nao", "afno")


class Recording(Callback):
    """Remembers what it saw."""

    def __init__(self) -> None:
        self.reports, self.started_at, self.ends = [], [], 0

    def started(self, run) -> None:
        self.started_at.append(run.step)

    def stepped(self, run, report) -> None:
        assert run.step == report.step
        self.reports.append(report)

    def ended(self, run) -> None:
        self.ends += 1


class Killed(Exception):
    """Stands for SIGKILL: nothing more is done by the process."""


class KillAfter(Callback):
    """Dies after a step, before anything of it is saved."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, run, report) -> None:
        if report.step == self.step:
            raise Killed


@pytest.fixture(autouse=True)
def usual_signals():
    """As they were, even after a run that did not come to its end."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def calm(own, small, tmp_path_factory):
    """Undisturbed runs of every kind: their folders and what `fit` returned."""
    torch.set_num_threads(1)
    made = {}
    for kind in KINDS:
        path = tmp_path_factory.mktemp("calm") / kind
        made[kind] = path, fit(small(kind), own, path, log_every=1)
    return made


# A run and what it leaves


@pytest.mark.parametrize("kind", KINDS)
def test_training_learns_and_leaves_its_files(calm, kind):
    path, run = calm[kind]
    assert (run.step, run.stopped_by, run.notes) == (20, 0, [])
    assert {file.name for file in path.iterdir()} == {".lock", "recipe.json", "log.csv", BEST, LAST}
    losses = [float(row["loss"]) for row in read_log(path / "log.csv")]
    assert np.mean(losses[-5:]) < (0.99 if kind == "nips" else 1.0) * np.mean(losses[:5])
    kept = json.loads((path / "recipe.json").read_text())
    assert (kept["recipe"], kept["data"]) == (run.recipe.to_dict(), run.archive.digest)


@pytest.mark.parametrize("kind", ["nips", "nips-mlp", "nao", "nao-f", "nao-wp", "afno"])
def test_every_weight_takes_part(own, small, kind, tmp_path):
    # Processes that share gradients wait for each of them.
    run = fit(small(kind, steps=2), own, tmp_path / "run")
    fresh = Run.fresh(run.recipe, own, Group())
    for (name, after), before in zip(run.task.named_parameters(), fresh.task.parameters(), strict=True):
        assert after.grad is not None, name
        assert not torch.equal(after, before), name


def test_the_best_weights_are_those_of_the_lowest_validation_error(calm):
    for kind in KINDS:
        path, run = calm[kind]
        looks = {int(row["step"]): float(row["held_out"]) for row in read_log(path / "log.csv") if row["held_out"]}
        assert list(looks) == [5, 10, 15, 20]
        tensors, card = checkpoint.load(path / BEST)
        assert card["step"] == run.best_step == min(looks, key=looks.get)
        assert card["validation"]["held_out"] == run.best == min(looks.values())
        task = task_of(run.recipe, run.archive)
        task.model.load_state_dict({name.removeprefix("model."): value for name, value in tensors.items()})
        assert Validator(run.recipe, run.archive, Group())(task).held_out == run.best


@pytest.mark.parametrize(
    ("looks", "best"),
    [((0.5, 0.3, 0.4, 0.6), 10), ((0.5, 0.3, 0.3, 0.4), 10), ((0.1, 0.3, 0.2, 0.4), 5), ((4.0, 3.0, 2.0, 1.0), 20)],
)
def test_weights_that_get_worse_are_not_kept(own, small, tmp_path, monkeypatch, looks, best):
    coming, seen = iter(looks), {}

    class Weights(Callback):
        def stepped(self, run, report) -> None:
            seen[report.step] = [value.clone() for value in run.task.model.state_dict().values()]

    monkeypatch.setattr(Validator, "__call__", lambda self, task: Validated(next(coming), 1.0))
    run = fit(small(), own, tmp_path / "run", callbacks=[Weights()])
    tensors, card = checkpoint.load(tmp_path / "run" / BEST)
    assert card["validation"]["held_out"] == run.best == min(looks)
    assert card["step"] == run.best_step == best
    kept = load(tmp_path / "run").state_dict().values()
    assert all(torch.equal(*both) for both in zip(kept, seen[best], strict=True))
    assert len(tensors) == len(kept)


def test_a_model_comes_back_with_its_best_weights(calm, own):
    for kind in KINDS:
        path, run = calm[kind]
        source, sampler = training_source(run.recipe, own, Group())
        batch = source.batch(sampler.draw(0, range(4)))
        run.task.model.load_state_dict(
            {name.removeprefix("model."): value for name, value in checkpoint.load(path / BEST)[0].items()}
        )
        expected = (run.task.model(batch.context) @ batch.loads).detach()
        for place in (path, str(path), path / BEST):
            model = load(place)
            assert torch.equal(model(batch.context) @ batch.loads, expected)
            assert not model.training
            assert not any(parameter.requires_grad for parameter in model.parameters())
        other = (load(path / LAST)(batch.context) @ batch.loads).detach()
        assert torch.equal(other, expected) == (run.best_step == 20)


def test_weights_are_missing_or_not_ours(calm, tmp_path, own, small, stop_after):
    with pytest.raises(CheckpointError) as error:
        load(tmp_path)
    assert error.value.got == "neither"
    fit(small(), own, tmp_path / "early", callbacks=[stop_after(2)])
    assert not (tmp_path / "early" / BEST).exists()
    load(tmp_path / "early")  # what there is


def test_the_precision_is_the_recipe_s(own, small, tmp_path):
    run = fit(small(precision="float64", steps=5), own, tmp_path / "run")
    assert {value.dtype for value in run.task.parameters()} == {torch.float64}
    assert {value.dtype for value in load(tmp_path / "run").parameters()} == {torch.float64}


def test_the_seed_decides_everything(own, small, calm, tmp_path, end_of):
    fit(small(), own, tmp_path / "same")
    fit(small(seed=1), own, tmp_path / "other")
    same, other, first = (end_of(path)[LAST] for path in (tmp_path / "same", tmp_path / "other", calm["nips"][0]))
    assert same == first
    assert not any(other[name] == first[name] for name in first if name.startswith("model.") and ".weight" in name)


# Steps


def test_reports_are_what_the_schedule_says(own, small, tmp_path):
    seen = Recording()
    run = fit(small(), own, tmp_path / "run", callbacks=[seen])
    assert [report.step for report in seen.reports] == list(range(1, 21))
    expected = [run.recipe.rate(step, step / 20) for step in range(20)]
    assert [report.rate for report in seen.reports] == expected
    assert (seen.started_at, seen.ends) == ([0], 1)
    assert all(report.gradient_norm > 0 for report in seen.reports)


def test_a_step_is_adam_s_on_the_mean_error_of_the_batch(own, small, tmp_path):
    recipe = small(steps=3, precision="float64", clip=0.05, weight_decay=0.01, noise=0.05, queries=2)
    seen = Recording()
    run = fit(recipe, own, tmp_path / "run", callbacks=[seen])
    task, (source, sampler) = task_of(recipe, own), training_source(recipe, own, Group())
    optimiser = torch.optim.Adam(task.parameters(), betas=(0.9, 0.99), weight_decay=0.01, fused=False)
    for step, report in enumerate(seen.reports):
        optimiser.param_groups[0]["lr"] = recipe.rate(step, step / 3)
        loss = task(source.batch(sampler.draw(step, range(4)), noise=0.05)).mean()
        gradients = torch.autograd.grad(loss, list(task.parameters()))
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        assert (report.loss, report.gradient_norm) == pytest.approx((float(loss.detach()), norm), rel=1e-9)
        assert norm > 0.05  # so that it is shortened
        for parameter, gradient in zip(task.parameters(), gradients, strict=True):
            parameter.grad = gradient * 0.05 / (norm + 1e-6)
        optimiser.step()
    for one, other in zip(run.task.parameters(), task.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_in_parts_is_the_batch(own, small, kind, tmp_path):
    found = []
    for parts in (1, 2, 4):
        seen = Recording()
        recipe = small(kind, parts=parts, steps=5, precision="float64")
        run = fit(recipe, own, tmp_path / str(parts), callbacks=[seen])
        found.append(([report.loss for report in seen.reports], [value.detach() for value in run.task.parameters()]))
    for losses, weights in found[1:]:
        np.testing.assert_allclose(losses, found[0][0], rtol=1e-8)
        for one, other in zip(weights, found[0][1], strict=True):
            assert float((one - other).norm()) < 1e-6 * float(other.norm() + 1e-3)


def test_a_batch_in_parts_is_the_batch_in_single_precision(own, small, tmp_path):
    found = []
    for parts in (1, 2):
        seen = Recording()
        fit(small(parts=parts), own, tmp_path / str(parts), callbacks=[seen])
        found.append([report.loss for report in seen.reports])
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_parts_and_batch_must_fit(own, small, tmp_path):
    with pytest.raises(PairsError) as error:
        fit(small(parts=3), own, tmp_path / "run")
    assert error.value.got == 4


def test_systems_that_are_read_on_the_way_give_the_same_bits(own, small, calm, tmp_path, end_of, monkeypatch):
    monkeypatch.setattr(Source.__init__, "__kwdefaults__", {**Source.__init__.__kwdefaults__, "held_bytes": 0})
    assert Source(own, "train").held is None
    fit(small(), own, tmp_path / "run")
    assert end_of(tmp_path / "run") == end_of(calm["nips"][0])


# Stopping and going on


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_stopped_and_continued_ends_with_the_same_bits(
    own, small, kind, calm, tmp_path, end_of, stop_after
):
    path = tmp_path / "run"
    for step in (3, 10, 11):
        run = fit(small(kind), own, path, resume=True, callbacks=[stop_after(step)])
        assert (run.step, run.stopped_by) == (step, 15)
        assert checkpoint.load(path / LAST)[1]["step"] == step
    run = fit(small(kind), own, path, resume=True)
    assert (run.step, run.stopped_by, run.notes) == (20, 0, [])
    assert end_of(path) == end_of(calm[kind][0])


def test_a_run_may_be_stopped_before_its_first_step(own, small, calm, tmp_path, end_of, stop_after):
    run = fit(small(), own, tmp_path / "run", callbacks=[stop_after(0)])
    assert (run.step, run.best) == (0, math.inf)
    assert checkpoint.load(tmp_path / "run" / LAST)[1]["best"] == math.inf
    fit(small(), own, tmp_path / "run", resume=True)
    assert end_of(tmp_path / "run") == end_of(calm["nips"][0])


def test_options_that_draw_come_back_too(own, small, tmp_path, end_of, stop_after):
    recipe = small(noise=0.1, load_noise=0.1, orders=3, queries=2, parts=2, weight_decay=1e-3, precision="float64")
    fit(recipe, own, tmp_path / "calm")
    fit(recipe, own, tmp_path / "run", callbacks=[stop_after(7)])
    fit(recipe, own, tmp_path / "run", resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "calm")


#: Everything a step's samples share.
SHARED = {"context": (8, 3, 5), "noise": (0.05, 0.0, 0.1), "symmetries": True, "queries": 2, "prior_weight": 0.5}


@pytest.mark.parametrize("names", [["own"], ["own", "finer", "shared"]])
def test_what_a_step_shares_comes_back_too(archives, small, tmp_path, end_of, stop_after, stand_in, names):
    recipe, several = small("conditioned", parts=2, **SHARED), [archives[name] for name in names]
    fit(recipe, several, tmp_path / "calm", log_every=1)
    for step in (3, 7):
        fit(recipe, several, tmp_path / "run", resume=True, callbacks=[stop_after(step)])
    fit(recipe, several, tmp_path / "run", resume=True)
    assert end_of(tmp_path / "run") == end_of(tmp_path / "calm")
    assert isinstance(load(tmp_path / "run"), stand_in)


def test_a_run_of_an_earlier_version_goes_on(own, small, calm, tmp_path, end_of, stop_after):
    path = tmp_path / "run"
    fit(small(), own, path, callbacks=[stop_after(7)])
    new = ("prior", "drift", "terms", "symmetries", "prior_weight")

    def older(record: dict) -> dict:
        recipe = {name: value for name, value in record["recipe"].items() if name not in new}
        recipe["model"] = {name: value for name, value in recipe["model"].items() if name not in new}
        return record | {"recipe": recipe}

    (path / "recipe.json").write_text(json.dumps(older(json.loads((path / "recipe.json").read_text()))))
    for name in (BEST, LAST):
        tensors, record = checkpoint.load(path / name)
        checkpoint.save(path / name, tensors, older(record))
    load(path)
    fit(small(), own, path, resume=True)
    after, expected = end_of(path)[LAST], end_of(calm["nips"][0])[LAST]
    assert after == expected


@pytest.mark.parametrize(("step", "save_seconds"), [(4, 0.0), (5, 60.0), (12, 0.0)])
def test_a_killed_run_goes_on_from_what_was_saved(own, small, calm, tmp_path, end_of, step, save_seconds):
    path = tmp_path / "run"
    with pytest.raises(Killed):
        fit(small(), own, path, save_seconds=save_seconds, log_every=1, callbacks=[KillAfter(step)])
    assert (path / LAST).exists() == (not save_seconds)
    if not save_seconds:
        assert checkpoint.load(path / LAST)[1]["step"] == step - 1
    seen = Recording()
    fit(small(), own, path, resume=True, log_every=1, callbacks=[seen])
    assert seen.started_at == [0 if save_seconds else step - 1]
    assert end_of(path) == end_of(calm["nips"][0])
    assert (path / "log.csv").read_text().count("\n") == 21
    assert [row["loss"] for row in read_log(path / "log.csv")] == [
        row["loss"] for row in read_log(calm["nips"][0] / "log.csv")
    ]


def test_a_finished_run_stays_as_it_is(own, small, tmp_path, end_of):
    fit(small(), own, tmp_path / "run")
    before, log = end_of(tmp_path / "run"), (tmp_path / "run" / "log.csv").read_text()
    run = fit(small(), own, tmp_path / "run", resume=True)
    assert (run.step, run.best, run.best_step) == (20, before[LAST]["best"], before[LAST]["best_step"])
    assert end_of(tmp_path / "run") == before
    assert (tmp_path / "run" / "log.csv").read_text() == log


def test_best_weights_and_the_best_error_belong_together_after_a_kill(own, small, tmp_path, stop_after):
    # The clock decides the learning rate, so the second attempt at a step is not the first one again.
    path, recipe = tmp_path / "run", small(steps=None, minutes=10.0)
    fit(recipe, own, path, callbacks=[stop_after(7)])
    with pytest.raises(Killed):
        fit(recipe, own, path, resume=True, callbacks=[KillAfter(12)])
    # Let the first attempt at step 10 have been the best of all, and step 5 next to it.
    tensors, card = checkpoint.load(path / BEST)
    checkpoint.save(path / BEST, tensors, card | {"step": 10, "validation": {"held_out": 1e-3, "in_context": 1e-3}})
    tensors, card = checkpoint.load(path / LAST)
    checkpoint.save(path / LAST, tensors, card | {"best": 2e-3, "best_step": 5})
    run = fit(recipe, own, path, resume=True, callbacks=[stop_after(15)])
    card = checkpoint.load(path / BEST)[1]
    assert (card["validation"]["held_out"], card["step"]) == (run.best, run.best_step)


def test_signals_are_heard_while_it_trains_and_only_then(own, small, tmp_path):
    heard, before = [], signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))

    class Told(Callback):
        def stepped(self, run, report) -> None:
            if report.step == 3:
                signal.raise_signal(signal.SIGTERM)

    try:
        with pytest.warns(StoppedEarly, match="SIGTERM stopped training after step 4.*resume=True goes on"):
            run = fit(small(), own, tmp_path / "run", callbacks=[Told()])
        assert (run.step, run.stopped_by, heard) == (4, signal.SIGTERM, [])
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_two_processes_do_not_train_in_one_folder(own, small, tmp_path):
    class Second(Callback):
        def stepped(self, run, report) -> None:
            if report.step == 3:
                with pytest.raises(TrainingError):
                    fit(small(), own, tmp_path / "run", resume=True)

    assert fit(small(), own, tmp_path / "run", callbacks=[Second()]).step == 20
    assert fit(small(), own, tmp_path / "run", resume=True).step == 20


def test_signals_are_left_alone_after_a_run_that_failed(own, small, tmp_path, spoil):
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)}
    spoil(3)
    with pytest.raises(NipdeError):
        fit(small(), own, tmp_path / "run")
    assert {number: signal.getsignal(number) for number in kept} == kept


def test_the_best_so_far_is_known_after_a_stop(own, small, tmp_path, stop_after, monkeypatch):
    looks = iter((0.1, 0.3, 0.2, 0.4))
    monkeypatch.setattr(Validator, "__call__", lambda self, task: Validated(next(looks), 1.0))
    fit(small(), own, tmp_path / "run", callbacks=[stop_after(7)])
    run = fit(small(), own, tmp_path / "run", resume=True)
    assert next(looks, None) is None
    assert (run.best, run.best_step, checkpoint.load(tmp_path / "run" / BEST)[1]["step"]) == (0.1, 5, 5)


def test_what_torchrun_started_again_goes_on(own, small, calm, tmp_path, end_of, stop_after, monkeypatch):
    fit(small(), own, tmp_path / "run", callbacks=[stop_after(6)])
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    fit(small(), own, tmp_path / "run")
    assert end_of(tmp_path / "run") == end_of(calm["nips"][0])


# Several archives and a prior


def test_one_archive_in_a_list_is_that_archive(own, folder, small, calm, tmp_path, end_of):
    for number, data in enumerate(([own], (str(folder / "own"),), folder / "own")):
        fit(small(), data, tmp_path / str(number))
        assert end_of(tmp_path / str(number)) == end_of(calm["nips"][0])


def test_several_archives_are_learned_and_validated_together(archives, small, tmp_path):
    several = [archives[name] for name in ("own", "other")]
    run = fit(small(), several, tmp_path / "run", log_every=1)
    tensors, card = checkpoint.load(tmp_path / "run" / BEST)
    assert card["grid"] == several[0].grid.to_dict()
    assert card["model"] == run.task.model.config.to_dict()
    kept = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert kept["data"] == card["data"] == "+".join(archive.digest for archive in several)
    run.task.model.load_state_dict({name.removeprefix("model."): value for name, value in tensors.items()})
    looks = [Validator(run.recipe, archive, Group())(run.task) for archive in several]
    assert card["validation"] == vars(mean_of(looks))
    assert run.best == pytest.approx((looks[0].held_out + looks[1].held_out) / 2)
    losses = [float(row["loss"]) for row in read_log(tmp_path / "run" / "log.csv")]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_a_run_goes_on_with_all_of_its_archives_in_their_order(archives, small, tmp_path, stop_after):
    own, other = archives["own"], archives["other"]
    fit(small(), [own, other], tmp_path / "run", callbacks=[stop_after(2)])
    one, two = own.digest[:16], other.digest[:16]
    for data, said in (([other, own], rf"{two}\+{one}"), ([own], one), (other, two), ([own, own], rf"{one}\+{one}")):
        with pytest.raises(TrainingError, match=rf"on other data, expected {one}\+{two}, got {said}$"):
            fit(small(), data, tmp_path / "run", resume=True)
    assert fit(small(), [own, other], tmp_path / "run", resume=True).step == 20


def test_the_prior_alone_counts_in_the_loss_and_not_in_validation(own, small, tmp_path, stand_in):
    recipe, seen = small("conditioned", prior_weight=0.5, queries=2, precision="float64", steps=5), Recording()
    run = fit(recipe, own, tmp_path / "run", callbacks=[seen])
    task, (source, sampler) = task_of(recipe, own), training_source(recipe, own, Group())
    batch = source.batch(sampler.draw(0, range(4)))
    answers, alone = task.model(batch.context).predict_with_prior(batch.loads)
    errors = [relative_errors(own.grid, found.detach(), batch.responses).mean() for found in (answers, alone)]
    assert seen.reports[0].loss == pytest.approx(float(errors[0] + 0.5 * errors[1]), rel=1e-12)
    assert errors[0] != errors[1]
    validated = Validator(recipe, own, Group())
    assert validated(run.task) == Validator(replace(recipe, prior_weight=0.0), own, Group())(run.task)
    assert run.best == pytest.approx(checkpoint.load(tmp_path / "run" / BEST)[1]["validation"]["held_out"])
    fit(replace(recipe, prior_weight=0.0), own, tmp_path / "without", callbacks=[seen])
    assert seen.reports[5].loss == pytest.approx(float(errors[0]), rel=1e-12)


# What is refused


def test_a_folder_with_a_run_is_not_written_over(own, small, calm, tmp_path, end_of):
    fit(small(steps=2), own, tmp_path / "run")
    before = end_of(tmp_path / "run")
    with pytest.raises(TrainingError):
        fit(small(steps=2), own, tmp_path / "run")
    assert end_of(tmp_path / "run") == before


def test_a_run_goes_on_with_its_own_recipe_only(own, small, tmp_path, stop_after, end_of):
    fit(small(), own, tmp_path / "run", callbacks=[stop_after(5)])
    before = end_of(tmp_path / "run")
    with pytest.raises(TrainingError) as raised:
        fit(small(learning_rate=0.01, seed=3), own, tmp_path / "run", resume=True)
    assert raised.value.got == "learning_rate=0.01, seed=3"
    assert "got learning_rate=0.01, seed=3:" in str(raised.value)
    assert "batch" not in str(raised.value)
    with pytest.raises(TrainingError) as error:
        fit(small(channels=7), own, tmp_path / "run", resume=True)
    assert "'channels': 7" in error.value.got
    assert end_of(tmp_path / "run") == before


def test_a_run_goes_on_with_its_own_data_only(archives, small, tmp_path, stop_after):
    fit(small(), archives["own"], tmp_path / "run", callbacks=[stop_after(2)])
    one, other = (archives[name].digest[:16] for name in ("own", "other"))
    with pytest.raises(TrainingError, match=f"begun on other data, expected {one}, got {other}"):
        fit(small(), archives["other"], tmp_path / "run", resume=True)


def test_damage_to_the_state_stops_the_run_at_once(own, small, tmp_path, stop_after):
    fit(small(), own, tmp_path / "run", callbacks=[stop_after(2)])
    content = bytearray((tmp_path / "run" / LAST).read_bytes())
    content[-20] ^= 1
    (tmp_path / "run" / LAST).write_bytes(content)
    with pytest.raises(CheckpointError) as error:
        fit(small(), own, tmp_path / "run", resume=True)
    assert "last.safetensors" in error.value.message


def test_going_on_with_other_threads_gives_a_note(own, small, tmp_path, stop_after):
    fit(small(), own, tmp_path / "run", callbacks=[stop_after(2)])
    torch.set_num_threads(2)
    run = fit(small(steps=20), own, tmp_path / "run", resume=True, callbacks=[stop_after(4)])
    (note,) = run.notes
    assert "'threads': 2" in note
    assert "'threads': 1" in note
    assert "not bitwise" in note


# Numbers that are none


@pytest.mark.parametrize("system", [3, 6])
def test_a_bad_system_is_named_and_the_state_before_it_is_kept(own, small, tmp_path, spoil, system):
    sampler, path = Sampler(8, 14, 8, seed=7), tmp_path / "run"
    assert own.indices("train").tolist() == list(range(8))
    first = next(step for step in range(20) if system in sampler.draw(step, range(4)).systems)
    spoil(system)
    with pytest.raises(NonFiniteError, match=rf"step {first}: loss nan.*system\(s\) \[{system}\]: "):
        fit(small(seed=7), own, path, save_seconds=0.0, log_every=1)
    assert (path / LAST).exists() == (first > 0)
    if first:
        tensors, record = checkpoint.load(path / LAST)
        assert record["step"] == first
        assert all(bool(torch.isfinite(value).all()) for value in tensors.values())
        load(path)


def test_a_bad_system_is_named_with_its_archive_if_there_are_several(archives, small, tmp_path, spoil):
    spoil(3)
    several = [archives["own"], archives["other"]]
    with pytest.raises(NonFiniteError) as error:
        fit(small(), several, tmp_path / "run")
    assert "[3]" in error.value.got


def test_a_bad_system_is_met_later_in_one_of_the_seeds_above():
    # Otherwise the test above would not look at a checkpoint.
    draws = [Sampler(8, 14, 8, seed=7).draw(step, range(4)).systems for step in range(20)]
    assert max(next(step for step, draw in enumerate(draws) if system in draw) for system in (3, 6)) > 0


# The log


def test_rows_come_every_so_often_and_with_every_validation(own, small, tmp_path):
    fit(small(), own, tmp_path / "run", log_every=4)
    rows = read_log(tmp_path / "run" / "log.csv")
    assert [int(row["step"]) for row in rows] == [4, 5, 8, 10, 12, 15, 16, 20]
    assert [row["step"] for row in rows if row["held_out"]] == ["5", "10", "15", "20"]
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("left", [1, 20, -1])
def test_the_log_has_every_step_once_after_a_kill(own, small, tmp_path, stop_after, left):
    path = tmp_path / "run"
    fit(small(), own, path, log_every=1, callbacks=[stop_after(9)])
    text = (path / "log.csv").read_text()
    later = [line.replace("9,", f"{step},", 1) for step in (10, 11, 12) for line in text.splitlines(True)[-1:]]
    # Rows of steps that were never saved, and the last of them cut short: in its first number, later, before its end.
    (path / "log.csv").write_text(text + "".join(later[:-1]) + later[-1][:left])
    run = fit(small(), own, path, resume=True, log_every=1)
    rows = read_log(path / "log.csv")
    assert [int(row["step"]) for row in rows] == list(range(1, 21))
    assert (path / "log.csv").read_text().startswith(text)
    assert all(None not in row and None not in row.values() for row in rows)
    assert float(rows[-1]["held_out"]) == checkpoint.load(path / LAST)[1]["best"] or run.best_step < 20


def test_a_log_cut_within_its_head_or_missing_is_begun_again(own, small, tmp_path, stop_after):
    path = tmp_path / "run"
    fit(small(), own, path, log_every=1, callbacks=[stop_after(3)])
    (path / "log.csv").write_text("step,sec")
    fit(small(), own, path, resume=True, log_every=1, callbacks=[stop_after(5)])
    assert [row["step"] for row in read_log(path / "log.csv")] == ["4", "5"]
    (path / "log.csv").unlink()
    fit(small(), own, path, resume=True, log_every=1, callbacks=[stop_after(6)])
    assert [row["step"] for row in read_log(path / "log.csv")] == ["6"]


def test_tensorboard_gets_the_same_figures(own, small, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fit(small(steps=5), own, tmp_path / "run", log_every=1, tensorboard=True)
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    rows = read_log(tmp_path / "run" / "log.csv")
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx([float(row["loss"]) for row in rows])
    assert [event.step for event in events.Scalars("held_out")] == [5]


# The clock


@pytest.mark.slow
def test_minutes_end_on_time_and_the_rate_follows_them(own, small, tmp_path, stop_after):
    recipe = replace(small(), steps=None, minutes=0.02, clock="cpu", validate_every=10**6, warmup=1)
    seen = Recording()
    run = fit(recipe, own, tmp_path / "run", log_every=10, callbacks=[seen, stop_after(10)])
    middle = run.seconds
    assert 0 < middle < 1.2
    assert run.stopped_by == 15
    run = fit(recipe, own, tmp_path / "run", resume=True, log_every=10, callbacks=[seen])
    assert 1.2 <= run.seconds < 2.0
    assert run.step > 10
    assert run.best_step == run.step  # the end is looked at, too
    rates = [report.rate for report in seen.reports]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.1 * rates[0]
    assert rates[10] == pytest.approx(recipe.rate(10, middle / 1.2))


# Starting from other weights


def test_a_run_starts_from_weights_of_a_coarser_grid_and_fewer_layers(small, archives, tmp_path):
    coarse = fit(small(steps=60), archives["own"], tmp_path / "coarse")
    recipe = small(start=str(tmp_path / "coarse"), layers=3, steps=5)
    fine = fit(recipe, archives["finer"], tmp_path / "fine")
    fresh = fit(small(layers=3, steps=5), archives["finer"], tmp_path / "fresh")
    assert max(coarse.best, fine.best) < 0.92 * fresh.best
    resumed = fit(recipe, archives["finer"], tmp_path / "fine", resume=True)
    assert resumed.step == 5
    kept = history(tmp_path / "fine")["training"]
    assert kept["recipe"]["start"] == "coarse"  # not the place it had
    assert 0 < kept["seconds_before"] <= coarse.seconds  # of its best step


def test_weights_of_another_kind_are_no_start(small, own, tmp_path):
    fit(small("nao", steps=1), own, tmp_path / "nao")
    with pytest.raises(TrainingError):
        fit(small(start=str(tmp_path / "nao")), own, tmp_path / "run")
    assert not (tmp_path / "run").exists()
