"""Time in tests of the sandbox: seconds of the processor where work is bounded, patience where something is awaited.

A shared machine may pause any process for many seconds, so seconds on the wall bound nothing but the test itself.
"""

import resource
import sys
import time

import psutil

from nipde.measurements.sandbox import sandbox

#: Seconds to wait for what takes a few on an idle machine; tests end at 300.
PATIENCE = 120.0


def processor_seconds() -> float:
    """Of this process, of the child that parses, and of the forks that it has waited for."""
    own = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    server = sandbox()._server
    if server is None or server.poll() is not None or sys.platform != "linux":
        return own
    return own + sum(psutil.Process(server.pid).cpu_times()[:4])


def wait_until(holds, *, seconds: float = PATIENCE) -> bool:
    """Whether it holds in the end."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(holds())
