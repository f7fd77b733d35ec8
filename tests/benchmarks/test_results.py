"""The records that stand in the repository."""

from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "results").glob("*.json"))


def test_there_are_records():
    assert len(RECORDS) > 10


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_names_no_place_on_the_machine_that_made_it(record):
    text = record.read_text(encoding="utf-8")
    assert [place for place in ("/tmp/", "/work/", "/home/", "/root/") if place in text] == []
