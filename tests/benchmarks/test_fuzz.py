import numpy as np

from nipde.benchmarks.fuzz import description, fuzz, mutated, valid_files
from nipde.benchmarks.tables.fuzz import fuzz as table
from nipde.measurements.parse import FORMATS, parse
from nipde.measurements.read import interpret


def test_every_damaged_file_ends_in_an_ordinary_error_or_in_pairs():
    found = fuzz(2_000, seed=1)
    assert found["untyped"] == {"parse": 0, "interpret": 0}
    assert found["slow_calls"] == 0
    assert all(set(outcomes) == {"done", "MeasurementError"} for outcomes in found["outcomes"].values())
    total = {what: sum(row[what] for row in found["rows"]) for what in ("inputs", "parsed", "interpreted")}
    assert total["inputs"] == 2_000
    assert total["parsed"] == found["outcomes"]["parse"]["done"] == sum(found["outcomes"]["interpret"].values())
    assert total["interpreted"] == found["outcomes"]["interpret"]["done"]
    assert {row["format"] for row in found["rows"]} == set(FORMATS)
    assert "| netcdf |" in table(found)


def test_the_files_are_valid_and_recognised(tmp_path):
    for format, file in valid_files(tmp_path):
        assert parse(file).format == format


def test_what_is_said_of_the_files_fits_them(tmp_path):
    for format, file in valid_files(tmp_path):
        assert interpret([parse(file)], description(format, file.name, None)).pairs.count >= 1, file.name


def test_mutations_are_repeatable():
    content = bytes(range(256)) * 4
    first, second = (mutated(content, np.random.default_rng(3)) for _ in range(2))
    assert first == second != content
