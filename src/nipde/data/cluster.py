"""Who works on many tasks: this process, workers on this machine, or those of a running dask scheduler."""

import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from nipde.errors import ArchiveError, needing

#: Applies a function to every task and yields what it returns, in the order they finish.
Work = Callable[[Callable[[int], Any], Iterable[int]], Iterator[Any]]


@contextmanager
def working(workers: int | None, scheduler: str | None = None) -> Iterator[Work]:
    """`workers` processes (default: one per core), or those of `scheduler`; an ArchiveError where it does not answer.

    One worker is this process itself: a cluster of one would only cost its start.
    """
    if workers is not None and workers < 1:
        raise ArchiveError(expected="at least one worker", got=workers, remedy="leave it out for one per core")
    count = workers or cores()
    if scheduler is None and count == 1:
        yield map
        return
    with ExitStack() as open_:
        client = open_.enter_context(_client(scheduler or open_.enter_context(local_cluster(count))))
        yield lambda function, tasks: _finished(client, function, tasks)


def cores() -> int:
    """Those this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def local_cluster(workers: int) -> Iterator[str]:
    """Worker processes on this machine; yields the address of their scheduler."""
    with needing("dask.distributed", extra="data", remedy=", or use workers=1"):
        import dask
        from distributed import LocalCluster
    # Its sampling profiler can deadlock with a thread that is just ending (CPython issue 106883, Python 3.11).
    quiet = {"distributed.worker.profile.enabled": False, "logging.tornado": "critical"}
    with dask.config.set(quiet):
        with _without_interrupts():
            cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        # Callbacks that an interrupt cuts short are logged here, at a level of its own, before anyone hears of it.
        logging.getLogger("tornado.application").setLevel(logging.CRITICAL)
        with cluster:
            try:
                yield cluster.scheduler_address
            except BaseException:  # what is lost with the workers is nobody's concern
                for name in ("distributed", "tornado"):
                    logging.getLogger(name).setLevel(logging.CRITICAL)
                raise


def _client(scheduler: str) -> Any:
    with needing("dask.distributed", extra="data", remedy=", or use workers=1"):
        from distributed import Client
    try:
        return Client(scheduler)
    except (OSError, ValueError) as error:
        raise ArchiveError(
            expected=f"a dask scheduler at {scheduler}", got=error, remedy="start one with: dask scheduler"
        ) from error


def _finished(client: Any, function: Callable[[int], Any], tasks: Iterable[int]) -> Iterator[Any]:
    from distributed import as_completed

    for batch in as_completed(client.map(function, tasks, pure=False)).batches():
        futures = list(batch)
        yield from client.gather(futures)  # all at once: one by one, each result is a round trip
        for future in futures:
            future.release()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C, which a terminal sends to all of them; this one obeys it later.

    Threads and processes inherit the mask. multiprocessing's tracker would lift it when it starts: it must run before.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows: Ctrl-C ends all of them
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
