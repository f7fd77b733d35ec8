import json

import numpy as np

from nipde.cli import main
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField

UNITS = {"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"}


def test_a_measurement_becomes_one_page(tmp_path, capsys):
    grid = Grid.uniform(8, length=80.0)
    loads = GaussianField(1.0, waves=6, rms=0.01).sample(grid, rng=np.random.default_rng(0), count=4)
    x, responses = grid.axes[0].coordinates, Darcy(grid, np.full(grid.shape, 3.0)).solve(loads)
    np.savez(tmp_path / "heads.npz", x=x, y=x, loads=loads, responses=responses, noise=0.0, units=json.dumps(UNITS))
    page = tmp_path / "new" / "page.html"
    words = ["--weights", "darcy-two-phase", "--out", str(page), "--phases", "1"]
    assert main(["report", str(tmp_path / "heads.npz"), *words]) == 0
    assert f"written: {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!")
    for words in ("heads.npz", "One phase", "Tikhonov", "total variation", "darcy-two-phase"):
        assert words in text
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_a_file_that_cannot_be_read_leaves_no_page(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("nothing to see here\n")
    assert main(["report", str(tmp_path / "notes.txt"), "--out", str(tmp_path / "page.html")]) == 2
    assert "notes.txt" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
