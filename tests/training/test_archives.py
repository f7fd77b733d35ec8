"""Several archives are learned together if their fields are of one kind."""

import copy
from dataclasses import replace

import pytest

from nipde.data.system import Quantity
from nipde.errors import TrainingError
from nipde.grid import Grid
from nipde.training.run import digest_of, gathered


@pytest.fixture
def changed(archives):
    """An archive that says something else of itself."""

    def made(*, dimension: int = 2, **roles: int):
        archive = copy.copy(archives["other"])
        archive.grid = Grid.uniform(9, dimension=dimension)
        quantities = {
            role: Quantity("field", components=tuple("xyz"[:components])) for role, components in roles.items()
        }
        archive.quantities = replace(archive.quantities, **quantities)
        return archive

    return made


def test_one_or_several_open_or_not(folder, archives):
    path = folder / "own"
    for data in (archives["own"], path, str(path), [path], (archives["own"],)):
        assert [archive.digest for archive in gathered(data)] == [archives["own"].digest]
    found = gathered([str(path), archives["finer"], folder / "shared"])
    assert [archive.digest for archive in found] == [archives[name].digest for name in ("own", "finer", "shared")]
    assert found[1] is archives["finer"]


def test_the_digest_of_one_is_its_own_and_that_of_several_tells_them_all(archives):
    own, other = archives["own"], archives["other"]
    assert digest_of([own]) == own.digest
    assert digest_of([own, other]) == f"{own.digest}+{other.digest}" != digest_of([other, own])


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"load": 2}, r"2 axes, 2 component\(s\) of a load, 1 of a response"),
        ({"response": 3}, r"2 axes, 1 component\(s\) of a load, 3 of a response"),
        ({"dimension": 3}, r"3 axes, 1 component\(s\) of a load, 1 of a response"),
    ],
)
def test_archives_of_another_kind_are_refused(own, changed, change, got):
    expected = r"2 axes, 1 component\(s\) of a load, 1 of a response as in .*own"
    with pytest.raises(TrainingError, match=rf"do not go together, expected {expected}, got {got} in .*other: train"):
        gathered([own, own, changed(**change)])
    gathered([own, changed(hidden=2)])  # what is hidden is not learned from


def test_no_archive_is_refused():
    with pytest.raises(TrainingError):
        gathered([])
