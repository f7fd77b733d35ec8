"""`python -m benchmarks`: complete records, and mistakes refused before any work."""

import json

import pytest

from benchmarks.__main__ import run
from nipde.errors import NipdeError


def test_a_record_is_complete(tmp_path):
    assert run(["physics", "--quick", "--results", str(tmp_path / "results")]) == 0
    record = json.loads((tmp_path / "results" / "physics.json").read_text())
    for key in ("command", "seed", "commit", "machine", "versions", "time", "seconds", "measured"):
        assert record[key] not in (None, "")
    assert record["measured"]["darcy_orders_harmonic"][-1] >= 1.98
    assert record["measured"]["advection_orders"][-1] >= 1.9


@pytest.mark.parametrize(
    ("words", "got"),
    [(["patience"], "'patience'"), (["physics", "--budget", "huge"], "with physics"), (["tables", "--check"], None)],
)
def test_mistakes_are_refused_before_any_work(words, got, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NipdeError) as refused:
        run(words)
    assert got is None or refused.value.got == got


def test_the_nearest_name_is_offered():
    with pytest.raises(NipdeError) as refused:
        run(["physic"])
    assert "physics" in refused.value.remedy
