"""Keep freed memory for the next system instead of handing it back page by page.

Building a system allocates and frees a few megabytes of arrays, the same every time. By default the C library
returns some of them to the kernel, which clears every page again on the next use; dask's workers are told to do so
eagerly, and spend a large part of a small solve on it (docs/design.md has the figures).
"""

import ctypes
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's numbers for mallopt
#: Blocks up to this size, and this much free memory, stay with the process.
KEEP_BYTES = 64 * 2**20


@cache
def keep_freed_memory(free: int = KEEP_BYTES) -> bool:
    """Ask the C library to keep up to `free` bytes; False where it has no such switch."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # Only what glibc returns 1 for took effect; its largest mmap threshold is 32 MiB.
    return bool(mallopt(_MMAP_THRESHOLD, KEEP_BYTES // 2) and mallopt(_TRIM_THRESHOLD, free))
