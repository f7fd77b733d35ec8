"""Crafted files, links and descriptions: each a typed error or a right result, in seconds, within a gigabyte."""

import os
import sys
import warnings

import psutil
import pytest

from nipde.errors import NipdeError
from nipde.measurements.parse import parse
from nipde.measurements.read import read
from nipde.measurements.sandbox import Limits, sandbox
from tests.measurements.damaged_files import valid_files
from tests.measurements.hostile_files import good, hostile_files
from tests.measurements.patience import processor_seconds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, devices and links of Linux")
FILES = hostile_files()
LIMITS = Limits(seconds=3.0, memory=2**30, values=2**20)
#: What is odd about them does not matter: they may be read.
READABLE = {"names_with_marks.csv", "unit_of_nothing.npz", "scale.toml", "largest_numbers.npz"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a good measurement, links out of it, and a valid file of every format."""
    folder = tmp_path_factory.mktemp("hostile")
    good(folder / "good.npz")
    (folder / "link_out.csv").symlink_to("/etc/passwd")
    (folder / "device.csv").symlink_to("/dev/zero")
    (folder / "valid").mkdir()
    valid_files(folder / "valid")
    return folder


def test_the_set_is_large():
    assert len(FILES) >= 100
    assert {name.rpartition(".")[2] for name in FILES} >= {"npz", "h5", "nc", "mat", "vtu", "vtk", "csv", "toml"}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_an_ordinary_error(folder, name):
    path = folder / name
    if not path.is_symlink():
        FILES[name](path)
    if beside := next((folder / "valid").glob(f"*{path.suffix}"), None):
        parse(beside)  # libraries are loaded by their first use, which is not the time of a hostile file
    message, before, start = None, psutil.Process().memory_info().rss, processor_seconds()
    try:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            read(path, limits=LIMITS)
    except NipdeError as error:
        message = str(error)
    assert processor_seconds() - start < 5
    assert psutil.Process().memory_info().rss - before < 2**29
    assert name in READABLE if message is None else len(message) < 10_000
    if path.is_file() and not path.is_symlink():
        path.unlink()
    assert not [one for one in os.listdir(sandbox()._folder or folder) if one == name]
