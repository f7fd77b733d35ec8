"""The tables of solids: records of several budgets as one."""

from benchmarks.tables.solids import longest, solids


def row(label, *, error, minutes=None):
    mean = {"mean": error, "low": error, "high": error}
    test = {"systems": 5, "seconds_per_system": 0.1, "in_context": mean, "held_out": mean, "worst_decile": mean}
    trained = {"recipe": {"minutes": minutes}, "parameters": 10, "steps": 1234, "curve": []} if minutes else {}
    return {"name": f"mmnist-{label}", "problem": "mmnist", "label": label, "paper": None, "test": test,
            "trained": bool(minutes), **trained}  # fmt: skip


def record(*rows, pending=()):
    empty = {part: [] for part in ("amplitudes", "noises", "meshes", "material", "sets")}
    return {"context": 100, "rows": list(rows), "pending": list(pending), **empty}


def test_a_network_is_shown_as_trained_longest_and_what_needs_no_training_stays():
    quick = record(row("NIPS", error=0.17, minutes=5), row("NAO", error=0.7, minutes=5), row("ridge", error=0.03))
    both = longest([quick, record(row("NIPS", error=0.06, minutes=40), pending=["mmnist-NAO"])])
    lines = {line.split(" | ")[0].strip("| "): line for line in solids(both).splitlines() if line.startswith("| ")}
    assert "| 6 % |" in lines["NIPS"]
    assert "| 40 | 1,234 |" in lines["NIPS"]
    assert "| 70 % |" in lines["NAO"]
    assert "| 5 | 1,234 |" in lines["NAO"]
    assert lines["ridge"].endswith("|  |  |")
    assert "Not run yet" not in solids(both)


def test_a_record_says_what_is_missing():
    assert "Not run yet: mmnist-NAO." in solids(record(row("NIPS", error=0.06, minutes=40), pending=["mmnist-NAO"]))
