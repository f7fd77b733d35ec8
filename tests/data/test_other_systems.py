"""Archives where the system lacks what Unix has: the modules and names that Windows and macOS do not bring."""

import subprocess
import sys

import pytest

from nipde.data.archive import open_archive

LACKING = {
    "windows": """
import ctypes, os, shutil, signal, sys
shutil._use_fd_functions = False
for name in ("fcntl", "resource", "termios", "pwd", "grp", "_posixshmem", "_posixsubprocess"):
    sys.modules[name] = None
for name in ("fork", "register_at_fork", "killpg", "sched_getaffinity", "setsid", "mkfifo"):
    delattr(os, name)
for name in ("SIGUSR1", "SIGUSR2", "SIGKILL", "SIGHUP", "SIGQUIT", "pthread_sigmask", "SIGALRM"):
    delattr(signal, name)
kept, opened = os.open, ctypes.CDLL
def no_folders(path, *arguments, **named):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return kept(path, *arguments, **named)
def no_process(name, *arguments, **named):
    if name is None:
        raise TypeError("bad argument type for built-in operation")
    return opened(name, *arguments, **named)
os.open, ctypes.CDLL = no_folders, no_process
""",
    "macos": """
import os, resource
del os.sched_getaffinity
kept = resource.setrlimit
def no_address_space(kind, limits):
    if kind == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    kept(kind, limits)
resource.setrlimit = no_address_space
""",
}
#: What is imported before it is taken away belongs to the libraries below, which have paths of their own.
BEFORE = "import asyncio, fsspec, h5py, multiprocessing, numpy, scipy.sparse.linalg, subprocess, sys, zarr\n"
USE = """
from nipde.data import cluster
from nipde.data.archive import open_archive
from nipde.data.generation import generate
plan = open_archive(sys.argv[1]).plan
made = generate(plan, sys.argv[2], workers=1)
assert made.digest == open_archive(sys.argv[1], verify=True).digest
made.rebuild(3)
assert cluster.cores() >= 1
with cluster._without_interrupts():
    pass
from nipde.interop.the_well import to_the_well
to_the_well(made, sys.argv[2] + ".h5")
"""


@pytest.mark.parametrize("system", LACKING)
def test_an_archive_is_made_and_read_without_what_unix_has(system, made, tmp_path):
    command = [sys.executable, "-c", BEFORE + LACKING[system] + USE, str(made), str(tmp_path / "again")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert open_archive(tmp_path / "again", verify=True).digest == open_archive(made).digest
    assert {path.name for path in tmp_path.iterdir()} == {"again", "again.h5"}
