"""Several processes on this machine, started and if need be restarted by torchrun."""

import os
import signal

import torch

from nipde.errors import TrainingError

#: What a cluster sends before it takes a machine away, among others; torchrun passes it on to every process.
PASSED_ON = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"


def launched() -> bool:
    """Whether this process was started by torchrun."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(module: str, words: list[str], *, processes: int, restarts: int) -> int:
    """`python -m MODULE WORDS` in every process; if one dies all start again, `restarts` times. Gives an exit code."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // processes)))
    options = ["--standalone", "--nproc-per-node", str(processes), "--max-restarts", str(restarts)]
    try:
        main([*options, "--signals-to-handle", PASSED_ON, "-m", module, *words])
    except SignalException as told:
        return exit_code(told.sigval)
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        raise TrainingError(
            f"training processes failed {restarts + 1} time(s), at last with exit code {code}",
            remedy="its own words stand above; what was saved is kept, --resume goes on from there",
        ) from error
    return 0


def exit_code(stopped_by: int) -> int:
    """128 + signal as is usual; 0 after SIGUSR1, by which a scheduler asks for a save before it requeues the job."""
    return 0 if stopped_by in (0, signal.SIGUSR1) else 128 + int(stopped_by)
