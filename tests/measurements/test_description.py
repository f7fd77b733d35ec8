import pytest

from nipde.boundary import Dirichlet, Neumann
from nipde.errors import MeasurementError
from nipde.measurements.description import Description
from nipde.measurements.loads import Point
from tests.measurements.refused import refused

TOML = """
files = ["a.csv", "b.csv"]
response = "w"
coordinates = ["X", "Y"]
nodes = 21
box = [[0, 10], [0, 5.5]]
boundary = ["dirichlet", "neumann"]
missing = -999
zeros_missing = true
noise = "0.2 %"
amounts = "rates.csv"
[units]
x = "mm"
[[loads]]
kind = "point"
position = [1, 2]
amount = "rate_1"
"""


def test_every_key_becomes_a_field(tmp_path):
    (tmp_path / "experiment.toml").write_text(TOML)
    found = Description.from_toml(tmp_path / "experiment.toml")
    assert found.files == (str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    assert found.amounts == str(tmp_path / "rates.csv")
    assert found.response == ("w",)
    assert found.node_counts == (21, 21)
    assert found.box == ((0.0, 10.0), (0.0, 5.5))
    assert found.boundaries == (Dirichlet(), Neumann())
    assert found.missing == (-999,)
    assert found.zeros_missing is True
    assert found.units == {"x": "mm"}
    assert found.loads[0].shape == Point((1.0, 2.0))
    assert found.loads[0].amount == "rate_1"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('respnse = "w"', "did you mean response"),
        ("nodes = 2", "whole numbers >= 3"),
        ("nodes = true", "whole number"),
        ("rigid_motion = 1", "true or false"),
        ("box = [0, 1]", "first, last"),
        ("box = [[1, 0]]", "smaller one first"),
        ('boundary = "dirichlt"', "did you mean dirichlet"),
        ('axes = "xz"', "order of the axes"),
        ('format = "cvs"', "did you mean csv"),
        ("scale = 0.05", "text"),
        ('units = "mm"', "units"),
        ("loads = 3", "kind"),
        ('loads = [{kind = "point", position = [1, 2], rate = 3}]', "'rate'"),
        ('loads = [{kind = "point", position = ["a", 2]}]', "number"),
        ('loads = [{kind = "constant", pair = 0}]', "from 1"),
        ("files = [", "TOML"),
        ("units = {x = mm}", 'texts stand in quotes: x = "mm"'),
    ],
)
def test_mistakes_name_file_and_remedy(tmp_path, line, words):
    (tmp_path / "experiment.toml").write_text(f"{line}\n")
    with pytest.raises(MeasurementError) as error:
        Description.from_toml(tmp_path / "experiment.toml")
    assert "experiment.toml: " in error.value.message
    assert error.value.got is not None
    assert words in f"{error.value.expected} {error.value.got} {error.value.remedy}"


def test_a_file_without_files_is_refused(tmp_path):
    (tmp_path / "experiment.toml").write_text("nodes = 21\n")
    with pytest.raises(MeasurementError) as error:
        Description.from_toml(tmp_path / "experiment.toml")
    assert error.value.expected.startswith("files = ")


def test_the_number_of_axes_is_agreed_on():
    assert Description().dimension == 2
    assert Description(coordinates=("x",)).dimension == 1
    with refused(got="[1, 2]"):
        _ = Description(coordinates=("x",), nodes=(5, 5)).dimension


@pytest.mark.parametrize("key", ["files", "amounts"])
@pytest.mark.parametrize("name", ["../outside.csv", "/etc/passwd", "link.csv", "folder/../../outside.csv"])
def test_files_lie_below_the_description_unless_the_caller_says_otherwise(tmp_path, key, name):
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (home / "link.csv").symlink_to("/etc/passwd")
    (home / "experiment.toml").write_text(
        f'files = "inside.csv"\n{key} = "{name}"' if key != "files" else f'files = "{name}"'
    )
    with refused(message="files not understood", got=repr(name), remedy="files_anywhere"):
        Description.from_toml(home / "experiment.toml")
    found = Description.from_toml(home / "experiment.toml", files_anywhere=True)
    assert str(home / name) in (*found.files, found.amounts)


def test_folders_below_the_description_are_fine(tmp_path):
    (tmp_path / "experiment.toml").write_text('files = ["runs/a.csv", "./b.csv", "runs/../c.csv"]')
    assert len(Description.from_toml(tmp_path / "experiment.toml").files) == 3


def test_specimen_and_date_are_kept_as_stated(tmp_path):
    (tmp_path / "experiment.toml").write_text('files = "a.csv"\nspecimen = "plate 7"\ndate = 2026-11-03\n')
    found = Description.from_toml(tmp_path / "experiment.toml")
    assert (found.specimen, found.date) == ("plate 7", "2026-11-03")
    assert (Description().specimen, Description().date) == (None, None)


@pytest.mark.parametrize("text", ["3.11.2026", "2026-13-01", "20261103", "2026-11-03T10:00:00", "yesterday", ""])
def test_a_date_is_a_day(text):
    with refused(message="date", expected="2026-11-03", got=repr(text)):
        Description(date=text)


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_a_specimen_has_a_name_of_some_letters(name):
    with refused(message="specimen", expected="1 to 200"):
        Description(specimen=name)
