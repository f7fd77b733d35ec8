import hashlib
import os

import h5py
import numpy as np
import pytest

from nipde.errors import MeasurementError
from nipde.measurements.formats import names
from nipde.measurements.parse import parse
from tests.measurements.refused import refused


def test_a_file_is_named_by_its_digest(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.arange(3.0))
    raw = parse(str(tmp_path / "x.npz"))
    assert raw.path == tmp_path / "x.npz"
    assert raw.sha256 == hashlib.sha256((tmp_path / "x.npz").read_bytes()).hexdigest()


def test_a_relative_path_is_one_of_this_process(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=np.arange(3.0))
    monkeypatch.chdir(tmp_path)
    assert "x" in parse("x.npz").arrays


@pytest.mark.parametrize("name", ["spaces and ü.csv", "new\nline.csv", "x.CSV"])
def test_names_of_files(tmp_path, name):
    (tmp_path / name).write_text("x\n1\n")
    np.testing.assert_array_equal(parse(tmp_path / name).arrays["x"], [1])


def test_content_decides_where_the_name_says_nothing(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.arange(3.0))
    (tmp_path / "x.npz").rename(tmp_path / "measured")
    assert parse(tmp_path / "measured").format == "npz"


@pytest.mark.parametrize("name", ["x.npz", "x.mat", "x.h5", "x.nc", "x.vtk", "x.py", "x"])
def test_content_of_another_kind_is_refused_and_the_formats_are_listed(tmp_path, name):
    (tmp_path / name).write_text("x,u\n1,2\n")
    with pytest.raises(MeasurementError) as error:
        parse(tmp_path / name)
    assert "csv" in error.value.got
    assert ".csv" in error.value.expected
    assert all(format in error.value.remedy for format in names())
    assert parse(tmp_path / name, format="csv").format == "csv"


def test_an_ambiguous_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.data", "w") as file:
        file["x"] = np.arange(3.0)
    with pytest.raises(MeasurementError) as error:
        parse(tmp_path / "x.data")
    assert all(format in error.value.got for format in ("hdf5", "mat", "netcdf"))
    assert parse(tmp_path / "x.data", format="hdf5").format == "hdf5"


def test_an_unknown_format_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("x\n1\n")
    with pytest.raises(MeasurementError) as error:
        parse(tmp_path / "x.csv", format="xlsx")
    assert error.value.got == "'xlsx'"
    assert all(format in error.value.expected for format in names())


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for name, got in {"missing.csv": "nothing", ".": "something else", "pipe.csv": "something else"}.items():
        with pytest.raises(MeasurementError) as error:
            parse(tmp_path / name)
        assert (error.value.expected, error.value.got) == ("a file", got)
    with pytest.raises(MeasurementError):
        parse("a\0b.csv")


@pytest.mark.parametrize("format", names())
def test_an_empty_file_is_refused_by_every_reader(tmp_path, format):
    (tmp_path / "empty").write_bytes(b"")
    with refused(message="empty"):
        parse(tmp_path / "empty", format=format)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_rights_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("x\n1\n")
    (tmp_path / "x.csv").chmod(0)
    with refused(message="x.csv", remedy="rights"):
        parse(tmp_path / "x.csv")
