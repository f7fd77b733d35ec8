import numpy as np

from nipde.benchmarks.fuzz import fuzz, mutated, valid_files
from nipde.benchmarks.fuzz_table import fuzz as table
from nipde.measurements.parse import FORMATS, parse


def test_every_damaged_file_ends_in_an_ordinary_error_or_in_arrays():
    found = fuzz(2_000, seed=1)
    assert found["untyped"] == found["slow_calls"] == 0
    assert set(found["outcomes"]) == {"read", "MeasurementError"}
    assert sum(row["inputs"] for row in found["rows"]) == 2_000
    assert {row["format"] for row in found["rows"]} == set(FORMATS)
    assert "| netcdf |" in table(found)


def test_the_files_are_valid_and_recognised(tmp_path):
    for format, file in valid_files(tmp_path):
        assert parse(file).format == format


def test_mutations_are_repeatable():
    content = bytes(range(256)) * 4
    first, second = (mutated(content, np.random.default_rng(3)) for _ in range(2))
    assert first == second != content
