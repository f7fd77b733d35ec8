from benchmarks.hostile import ENDS, QUICK_INPUTS, run


def test_mutated_inputs_end_in_results_or_typed_errors(tmp_path):
    measured = run(QUICK_INPUTS, tmp_path)
    assert sum(row["inputs"] for row in measured["rows"]) == QUICK_INPUTS
    for row in measured["rows"]:
        assert {end: row[end] for end in ENDS[2:]} == {"untyped error": 0, "hang": 0}, row["bad"]
        assert row["typed error"] > 0.3 * row["inputs"]
        assert row["result"] > 0 or row["kind"] == "checkpoints"
