"""A format of another package: one file and an entry point, read in the child process as ours are."""

import os
import subprocess
import sys

import numpy as np
import pytest

import nipde
from nipde.errors import MeasurementError
from nipde.measurements import formats
from nipde.measurements.parse import parse

MODULE = """
import os
import numpy as np
from nipde.errors import MeasurementError
from nipde.measurements.formats import Contents, Format

FORMAT = Format("mylab", module=__name__, suffixes=(".lab", ".csv"), content=rb"MYLAB")


def recognises(path):
    return path.read_text().startswith("MYLAB 2")


def parse(path, *, values):
    head, *rows = path.read_text().splitlines()
    if "refuse" in head:
        raise MeasurementError("head", expected="MYLAB 2", got=head, remedy="export it again")
    if "crash" in head:
        os.abort()
    contents = Contents(values)
    table = np.array([row.split() for row in rows], dtype=float)
    for name, unit, column in zip(("x", "y", "load", "response"), ("mm", "mm", "N/mm^2", "mm"), table.T):
        contents.add(name, column, unit=unit)
    contents.note("process", os.getpid())
    return contents
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder on the path with a distribution, as pip would leave it."""
    folder = tmp_path / "site"
    information = folder / "mylab-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mylab\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[nipde.formats]\nmylab = mylab_format:FORMAT\n")
    (folder / "mylab_format.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("mylab_format", None)


@pytest.fixture
def measured(tmp_path):
    path, x = tmp_path / "measured.lab", np.linspace(0, 1, 5)
    rows = [f"{a} {b} {1 + a * b} {a * (1 - a) * b * (1 - b)}" for a in x for b in x]
    path.write_text("\n".join(["MYLAB 2", *rows]))
    return path


def test_a_file_of_another_packages_format_is_read(installed, measured):
    measurement = nipde.read(measured)
    assert measurement.sources[0].format == "mylab"
    assert measurement.pairs.grid.shape == (5, 5)
    assert measurement.units.response == "mm"
    assert float(measurement.pairs.responses[0, 0, 2, 2]) == 1 / 16


def test_it_is_parsed_in_the_child(installed, measured):
    assert parse(measured).attributes["process"] != os.getpid()


def test_it_can_be_named_and_is_listed(installed, measured):
    assert "mylab" in formats.names()
    plain = measured.rename(measured.with_name("measured"))
    assert parse(plain, format="mylab").format == "mylab"
    assert parse(plain).format == "mylab"  # by its first bytes


def test_it_shares_a_suffix_with_ours(installed, measured):
    shared = measured.rename(measured.with_suffix(".csv"))
    assert parse(shared).format == "mylab"
    shared.write_text("x,y\n1,2\n")
    assert parse(shared).format == "csv"
    shared.write_text("MYLAB 1\n1\n")
    assert parse(shared).format == "csv"


def test_its_errors_keep_their_fields_and_its_crashes_stay_there(installed, measured):
    measured.write_text("MYLAB 2 refuse\n")
    with pytest.raises(MeasurementError) as error:
        parse(measured)
    assert error.value.message == "measured.lab: head"
    assert (error.value.expected, error.value.got) == ("MYLAB 2", "MYLAB 2 refuse")
    assert error.value.remedy == "export it again"
    measured.write_text("MYLAB 2 crash\n")
    with pytest.raises(MeasurementError) as error:
        parse(measured)
    assert "SIGABRT" in error.value.got


@pytest.mark.parametrize("module", ["import no_such_module", "FORMAT = 3"])
def test_one_that_cannot_be_loaded_is_left_out_with_a_warning(installed, tmp_path, module):
    (installed / "mylab_format.py").write_text(module)
    formats._brought.cache_clear()
    (tmp_path / "x.csv").write_text("x\n1\n")
    with pytest.warns(UserWarning, match="mylab"):
        assert parse(tmp_path / "x.csv").format == "csv"


def test_without_the_package_the_file_is_refused(measured):
    with pytest.raises(MeasurementError):
        parse(measured)


def test_the_command_reads_it(installed, measured):
    folders = os.pathsep.join([str(installed), *filter(None, sys.path)])
    command = [sys.executable, "-m", "nipde.cli", "check", str(measured)]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": folders}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "mylab" in ended.stdout
