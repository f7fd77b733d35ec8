from benchmarks.formats import CASES, REQUIRED, measure
from benchmarks.tables.formats import formats


def test_required_formats_read_as_documented():
    found = measure(quick=True)
    assert [row for row in found["rows"] if not row["passed"]] == []
    assert found["required"] == len(REQUIRED) * len(CASES) == 30
    assert "30 of 30 required" in formats(found)
