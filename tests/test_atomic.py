import os

import pytest

from nipde.atomic import atomic_file, atomic_folder, write_bytes
from nipde.errors import NipdeError


def test_a_file_is_replaced_at_once(tmp_path):
    place = tmp_path / "file"
    write_bytes(place, b"old")
    with atomic_file(place) as partial:
        partial.write_bytes(b"new")
        assert place.read_bytes() == b"old"
    assert place.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_after_an_error_the_old_file_stands(tmp_path):
    place = tmp_path / "file"
    write_bytes(place, b"old")
    with pytest.raises(TypeError), atomic_file(place) as partial:
        place.write_bytes(partial.write_bytes(b"half"))
    assert place.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("before", [True, False])
def test_a_folder_is_whole_or_as_before(tmp_path, before):
    place = tmp_path / "above" / "folder"
    if before:
        with atomic_folder(place) as partial:
            (partial / "old").write_text("old")
    with pytest.raises(TypeError), atomic_folder(place) as partial:
        (partial / "half").write_text((partial / "whole").write_text("whole"))
    assert os.listdir(tmp_path / "above") == ["folder"] * before
    with atomic_folder(place) as partial:
        (partial / "below").mkdir()
        (partial / "below" / "new").write_text("new")
        assert os.listdir(place) == ["old"] if before else not place.exists()
    assert os.listdir(tmp_path / "above") == ["folder"]
    assert [path.name for path in place.rglob("*")] == ["below", "new"]


def test_a_file_is_no_folder(tmp_path):
    write_bytes(tmp_path / "file", b"kept")
    with pytest.raises(NipdeError), atomic_folder(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_bytes() == b"kept"
