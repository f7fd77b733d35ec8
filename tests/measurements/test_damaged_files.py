"""A damaged file harms nobody who reads it: valid files of every format, mutated at random, are read or refused.

Reading has two stages: a child parses the file to arrays, and these are then interpreted as pairs on a grid.
"""

import time
import warnings
from collections import Counter

import numpy as np
import pytest

from nipde.errors import MeasurementError
from nipde.measurements.formats import OURS
from nipde.measurements.parse import parse
from nipde.measurements.read import interpret
from nipde.measurements.sandbox import Limits
from tests.measurements.damaged_files import description, mutated, valid_files

#: A hang ends after this; with the start of a new child a call stays below SLOW.
LIMITS = Limits(seconds=3.0)
SLOW = 5.0


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("inputs", "seed"),
    [(300, 1), pytest.param(2_000, 2, marks=pytest.mark.slow), pytest.param(50_000, 29, marks=pytest.mark.long)],
)
def test_every_damaged_file_ends_in_an_ordinary_error_or_in_pairs(inputs, seed, tmp_path):
    """Every other time the format must be recognised first."""
    rng = np.random.default_rng(seed)
    files = valid_files(tmp_path)
    for format, file in files:  # libraries are loaded by their first use, which is not the time of a damaged file
        interpret([parse(file)], description(format, file.name, None))
    parsed, refused = Counter(), Counter()

    def seconds(trial, format, file, damaged):
        start = time.perf_counter()
        try:
            raw = parse(damaged, format=format if trial % 2 else None, limits=LIMITS)
            parsed[format] += 1
            # Numbers near the ends of their range overflow on the way to an error.
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                interpret([raw], description(format, file.name, np.random.default_rng([seed, trial])))
        except MeasurementError:
            refused[format] += 1
        return time.perf_counter() - start

    for trial in range(inputs):
        format, file = files[trial * len(files) // inputs]
        damaged = file.with_stem("damaged")
        damaged.write_bytes(mutated(file.read_bytes(), rng))
        # A file that hangs does so again; a pause of a shared machine does not.
        assert any(seconds(trial, format, file, damaged) < SLOW for _ in range(2)), (format, trial)
    assert set(refused) == {format.name for format in OURS}
    assert 0.05 * inputs < parsed.total() < 0.2 * inputs  # some damage is beside the values


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
