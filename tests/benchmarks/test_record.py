import random

import pytest

from benchmarks.record import read_record, write_record
from nipde.errors import NipdeError

MEASURED = {"rows": [{"name": "first", "error": 0.0123, "bands": [0.1, 0.9]}, {"name": "second", "error": 1e-05}]}


def test_no_damage_to_a_record_is_silent(tmp_path):
    """300 flipped bits, cuts and deletions: the record is as written, or refused."""
    path = write_record("trial", MEASURED, results=tmp_path, command="none", seed=1, seconds=1.0)
    good, record = path.read_bytes(), read_record(tmp_path, "trial")
    assert record["measured"] == MEASURED
    rng, refused = random.Random(0), 0
    for _ in range(300):
        damaged, place = bytearray(good), rng.randrange(len(good))
        how = rng.randrange(3)
        if how == 0:
            damaged[place] ^= 1 << rng.randrange(8)
        elif how == 1:
            del damaged[place:]
        else:
            del damaged[place : place + rng.randint(1, 30)]
        path.write_bytes(damaged)
        try:
            assert read_record(tmp_path, "trial") == record  # white space
        except NipdeError:
            refused += 1
    assert refused > 200
    path.unlink()
    with pytest.raises(NipdeError):
        read_record(tmp_path, "trial")
