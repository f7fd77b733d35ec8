import subprocess
import sys

import pytest

from nipde.data.freed_memory import keep_freed_memory, return_freed_memory

HOLES = """
import sys, torch
from nipde.data import freed_memory
getattr(freed_memory, sys.argv[1])()
held = [torch.ones(size) for size in [600_000] * 200][::2]  # every other block of 2.4 MB is free again
line = next(line for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(int(line.split()[1]) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; glibc's switch")
def test_freed_blocks_stay_or_go():
    kept, returned = (
        int(subprocess.run([sys.executable, "-c", HOLES, name], capture_output=True, text=True, check=True).stdout)
        for name in ("keep_freed_memory", "return_freed_memory")
    )
    assert 150 < kept - returned < 300  # MB


def test_without_such_a_switch_nothing_happens(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_freed_memory()
    assert not return_freed_memory()
