"""Real processes begin in one new folder at once: one trains and holds the lock, nobody else is let in."""

import multiprocessing
import time

import pytest
import torch

from nipde.errors import TrainingError
from nipde.training.fit import fit
from nipde.training.loop import Callback

FORK = multiprocessing.get_context("fork")
REFUSED = "a folder in which nobody trains"


class LetIn(Callback):
    """Ends a run that was not refused."""

    def started(self, run) -> None:
        raise InterruptedError


def contend(recipe, archive, folder, ready, answers) -> None:
    """Train until killed; or say why not."""
    torch.set_num_threads(1)
    ready.wait()
    try:
        fit(recipe, archive, folder, save_seconds=0.1)
    except Exception as error:
        answers.put(str(getattr(error, "expected", None) or repr(error)))
    answers.put("ended")


def race(recipe, archive, folder) -> None:
    ready, answers = FORK.Barrier(3), FORK.Queue()
    racing = [FORK.Process(target=contend, args=(recipe, archive, folder, ready, answers)) for _ in range(3)]
    try:
        for process in racing:
            process.start()
        while not (folder / "last.safetensors").exists():
            time.sleep(0.01)
            assert any(process.is_alive() for process in racing)
        said = [answers.get(timeout=30) for _ in range(4)]
        assert sorted(said) == sorted([REFUSED, "ended"] * 2)
        with pytest.raises(TrainingError) as error:
            fit(recipe, archive, folder, resume=True, callbacks=[LetIn()])
        assert error.value.expected == REFUSED
    finally:
        for process in racing:
            process.kill()
            process.join()
    with pytest.raises(InterruptedError):  # the lock dies with its holder
        fit(recipe, archive, folder, resume=True, callbacks=[LetIn()])


def test_of_three_processes_one_trains(own, small, tmp_path):
    for attempt in range(2):
        race(small(steps=10**6, validate_every=10**6), own, tmp_path / str(attempt))


@pytest.mark.slow
def test_of_three_processes_one_trains_every_time(own, small, tmp_path):
    for attempt in range(25):
        race(small(steps=10**6, validate_every=10**6), own, tmp_path / str(attempt))


def test_a_run_that_never_began_leaves_no_folder(own, small, tmp_path):
    with pytest.raises(TrainingError):
        fit(small(context=14), own, tmp_path / "above" / "run")
    assert list((tmp_path / "above").iterdir()) == []


def test_what_a_kill_left_half_written_is_removed(own, small, tmp_path, stop_after):
    fit(small(), own, tmp_path / "run", callbacks=[stop_after(2)])
    (tmp_path / "run" / ".last.safetensors.0123.part").write_bytes(b"half")
    fit(small(), own, tmp_path / "run", resume=True)
    assert not list((tmp_path / "run").glob("*.part"))


def test_a_folder_that_cannot_be_made_is_named(own, small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError) as error:
        fit(small(), own, tmp_path / "file" / "run")
    assert "file" in error.value.got
