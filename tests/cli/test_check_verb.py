import numpy as np
import pytest

from nipde.cli import main
from nipde.measurements.samples import sample

X, Y = (axis.ravel() for axis in np.meshgrid(np.linspace(0, 400, 9), np.linspace(0, 250, 6), indexing="ij"))
UNITS = ["--units", "x=m,load=m/d,response=m"]


@pytest.fixture
def heads(tmp_path):
    """A table of two pumping tests, one head not measured."""
    path, rng = tmp_path / "heads.csv", np.random.default_rng(0)
    bump = np.sin(np.pi * X / 400) * np.sin(np.pi * Y / 250)
    rows = [[k, x, y, r, h] for k in (1, 2) for x, y, r, h in zip(X, Y, rng.random(54), k * bump, strict=True)]
    lines = [",".join(map(str, row)) for row in rows]
    lines[10] = lines[10].rpartition(",")[0] + ","
    path.write_text("\n".join(["pair,x,y,rate,head", *lines]))
    return path


def test_a_file_is_explained_and_nothing_is_written(heads, capsys):
    before = sorted(heads.parent.iterdir())
    assert main(["check", str(heads), "--load", "rate", "--response", "head", *UNITS]) == 0
    printed = capsys.readouterr().out
    # format, pairs, grid, units, gaps, noise
    for fact in ("csv", "2 pairs", "0 to 400 m, 9 nodes", "m²/d", f"{100 / 108:.3g} %", "Noise"):
        assert fact in printed
    assert sorted(heads.parent.iterdir()) == before


def test_the_sample_has_no_warnings(capsys):
    assert main(["check", str(sample())]) == 0
    assert "WARNING" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [[], ["--response", "head", *UNITS], ["--load", "rate", "--response", "head"],
     ["--load", "rate", "--response", "head", "--units", "x"], ["--nodes", "many"]],
    ids=["nothing said", "no load", "no units", "units without =", "nodes no number"],
)  # fmt: skip
def test_a_file_that_cannot_be_read_ends_with_2_and_a_remedy(heads, capsys, options):
    assert main(["check", str(heads), *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("MeasurementError: ")
    assert printed.err.count("\n") == 1
