"""Training where the system lacks signals, torch.distributed, fcntl or resource, as Windows and some builds do."""

import os
import subprocess
import sys
import threading

from nipde.training.fit import fit

PROGRAM = """
import signal, sys
for name in ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT"):
    delattr(signal, name)
import torch, torch._dynamo
torch.distributed.is_available = lambda: False
for name in ("run", "distributed_c10d", "elastic.multiprocessing.api", "rendezvous"):
    sys.modules[f"torch.distributed.{name}"] = None
sys.modules["resource"] = sys.modules["fcntl"] = None
torch.set_num_threads(1)
import nipde
from nipde.errors import TrainingError
from nipde.training.processes import PASSED_ON, SIGNALS, exit_code, launch
assert (PASSED_ON, SIGNALS) == (["SIGTERM", "SIGINT"], (signal.SIGTERM, signal.SIGINT))
assert [exit_code(number) for number in (0, 15)] == [0, 143]
try:
    launch("nipde.cli", [], processes=2, restarts=0)
except TrainingError as error:
    assert "torch.distributed" in error.expected
else:
    raise SystemExit("launched")
recipe = nipde.TrainingRecipe(nipde.training.ModelRecipe("nips", 1, 4), context=5, batch=2, steps=3, validate_every=2)


class Stop(nipde.training.Callback):
    def stepped(self, run, report):
        if report.step == 1:
            signal.raise_signal(signal.SIGTERM)


import warnings
warnings.simplefilter("ignore")
run = nipde.fit(recipe, sys.argv[1], sys.argv[2], callbacks=[Stop()])
assert (run.step, run.stopped_by) == (2, signal.SIGTERM), (run.step, run.stopped_by)
run = nipde.fit(recipe, sys.argv[1], sys.argv[2], resume=True)
assert (run.step, run.stopped_by) == (3, 0)
nipde.load(sys.argv[2])
assert nipde.evaluate(nipde.load(sys.argv[2]), nipde.open_archive(sys.argv[1]), context=5, systems=2).systems == 2
print("trained")
"""


def test_training_needs_no_signals_and_no_distributed_torch(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder / "own", tmp_path / "run"], capture_output=True, text=True, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr


def test_training_in_a_thread_hears_no_signals_and_ends(own, small, tmp_path):
    runs = []
    thread = threading.Thread(target=lambda: runs.append(fit(small(), own, tmp_path / "run")))
    thread.start()
    thread.join()
    assert [run.step for run in runs] == [20]
