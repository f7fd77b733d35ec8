import tempfile

from benchmarks.mistakes import measure
from benchmarks.tables.mistakes import mistakes


def test_every_kind_of_mistake_is_found_out():
    found = measure(quick=True)
    assert [row for row in found["rows"] if not row["detected"]] == []
    assert f"{found['trials']} of {found['trials']}" in mistakes(found)
    assert [row for row in found["rows"] if tempfile.gettempdir() in row["message"]] == []
