"""What the C library does with memory that is free again: keep it for the next use, or give it back to the system."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers for mallopt
#: Enough for the fields of a small system.
KEEP_BYTES = 64 * 2**20
#: Blocks above it are given back at once.
BLOCK_BYTES = 2**20


def keep_freed_memory(free: int = KEEP_BYTES) -> bool:
    """Ask the C library to keep up to `free` freed bytes for the next system; False where it has no such switch.

    By default it returns them to the kernel, which clears every page again on the next use; dask's workers do so
    eagerly and spend a large part of a small solve on it (figures: docs/explanation/design.md).
    """
    # Its largest mmap threshold is 32 MiB.
    return _set(_MMAP_THRESHOLD, KEEP_BYTES // 2) and _set(_TRIM_THRESHOLD, free)


def return_freed_memory(block: int = BLOCK_BYTES) -> bool:
    """Ask the C library to give freed blocks above `block` bytes back at once; False where it has no such switch.

    Where a few large fields outlive many small ones, what is kept lies in pieces between them and is not used again:
    the process grows to several times of what it holds. Slower, as every block is cleared by the kernel.
    """
    return _set(_MMAP_THRESHOLD, block)


def _set(switch: int, amount: int) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library of the process itself
        return False
    return bool(mallopt(switch, amount))  # only what glibc returns 1 for took effect
