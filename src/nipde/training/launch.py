"""Several processes on this machine, started and if need be restarted by torchrun."""

import os
import sys
from typing import NoReturn

import torch

#: What a cluster sends before it takes a machine away; torchrun passes it on to every process.
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"


def launched() -> bool:
    """Whether this process was started by torchrun."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(module: str, words: list[str], *, processes: int, restarts: int) -> NoReturn:
    """Become torchrun: `python -m MODULE WORDS` in every process; if one dies all start again, `restarts` times."""
    threads = max(1, torch.get_num_threads() // processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes),
        "--max-restarts", str(restarts), "--signals-to-handle", SIGNALS, "-m", module, *words,
    ]  # fmt: skip
    os.execv(sys.executable, command)
