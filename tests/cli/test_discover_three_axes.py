"""`nipde check`, `discover` and `verify` of a box with three axes."""

import json

import jsonschema
import numpy as np
import pytest
import torch

from nipde.cli import main
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Axis, Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField
from nipde.report.files import schema
from nipde.weights.models import WEIGHTS, save

GRID = Grid((Axis(9, 0.8), Axis(7, 0.6), Axis(8, 0.7)))
UNITS = {"x": "m", "y": "m", "z": "m", "loads": "W/m^3", "responses": "K"}


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("block"), np.random.default_rng(0)
    x, y, z = GRID.coordinates
    conductivity = np.where((x - 0.4) ** 2 + (y - 0.3) ** 2 + (z - 0.35) ** 2 < 0.2**2, 12.0, 4.0)
    loads = GaussianField(1.0, waves=4, rms=1000.0).sample(GRID, rng=rng, count=10)
    axes = {name: axis.coordinates for name, axis in zip("xyz", GRID.axes, strict=True)}
    responses = Darcy(GRID, conductivity).solve(loads)
    np.savez(folder / "block.npz", **axes, loads=loads, responses=responses, noise=0.0, units=json.dumps(UNITS))
    return folder / "block.npz", conductivity


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("weights")
    save(ConditionedNIPS(dimension=3, channels=4), folder / WEIGHTS)
    return folder


def test_a_box_becomes_a_folder(block, weights, tmp_path, capsys):
    path, conductivity = block
    words = ["--weights", str(weights), "--quantity", "conductivity", "--out", str(tmp_path / "found")]
    assert main(["discover", str(path), *words, "--baselines", "false"]) == 0
    assert "Two phases: conductivity" in capsys.readouterr().out
    found = json.loads((tmp_path / "found" / "summary.json").read_text(encoding="utf-8"))
    jsonschema.validate(found, schema())
    assert found["units"]["coefficient"] == "W/K/m"
    assert len(found["grid"]["axes"]) == 3
    stored = np.load(tmp_path / "found" / "microstructure.npz")
    assert stored["coefficient"].shape == GRID.shape
    np.testing.assert_allclose(stored["z"], GRID.axes[2].coordinates)
    inner = (slice(1, -1),) * 3
    assert np.mean((stored["coefficient"] > 7)[inner] == (conductivity > 7)[inner]) >= 0.98
    table = np.loadtxt(tmp_path / "found" / "microstructure.csv", delimiter=",", skiprows=1)
    assert table.shape == (GRID.size, 3 + 7)
    assert main(["verify", str(tmp_path / "found")]) == 0


def test_check_draws_the_planes(block, tmp_path, capsys):
    assert main(["check", str(block[0]), "--out", str(tmp_path / "block.png")]) == 0
    assert "z from 0 to 0.7 m, 8 nodes, dirichlet" in capsys.readouterr().out
    assert (tmp_path / "block.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "got"),
    [
        (["--weights", "darcy"], "expected 2 axes"),
        (["--outline", "{plate}"], "expected the two ends along z, got []: write outline_heights = [0, 0.12]"),
        (["--outline", "{plate}", "--outline-heights", "0.7,0"], "expected a first and a larger last height"),
        (["--clamped", "left"], "solids are plane"),
    ],
)
def test_what_is_plane_so_far_says_so(block, tmp_path, capsys, words, got):
    (tmp_path / "plate.csv").write_text("x,y\n0.1,0.1\n0.7,0.1\n0.7,0.5\n0.1,0.5\n", encoding="utf-8")
    words = [word.format(plate=tmp_path / "plate.csv") for word in words]
    assert main(["discover", str(block[0]), *words, "--out", str(tmp_path / "found")]) != 0
    assert got in capsys.readouterr().err
    assert not (tmp_path / "found").exists()
