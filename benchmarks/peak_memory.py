"""The most memory a call holds at once, above what stood before it (Linux: the kernel's own high-water mark)."""

import ctypes
from collections.abc import Callable
from pathlib import Path


def peak_bytes(call: Callable[[], None]) -> int:
    """Peak of the second call: the first one warms up libraries and is not counted."""
    call()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def status(name: str) -> int:
    """A line of the process's own status, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024
