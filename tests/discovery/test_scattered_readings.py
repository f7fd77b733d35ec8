"""From a table of readings at scattered points to a map: an aquifer by an independent solver, pumped at eight wells."""

import json

import numpy as np
import pytest

import nipde
from nipde.boundary import Dirichlet, Neumann
from nipde.cli import main
from nipde.context.sensors import Sensors
from nipde.grid import Axis, Grid
from nipde.physics.finite_elements import FiniteElements

LENGTHS, WELLS = (1000.0, 800.0), ((200, 200), (500, 150), (800, 250), (250, 600), (500, 400), (800, 600), (350, 400))


def transmissivity(x, y):
    """A buried channel, m²/d."""
    return 150 + 650 * np.exp(-(((y - 400 - 120 * np.sin(2 * np.pi * x / 1000)) / 90) ** 2))


@pytest.fixture(scope="module")
def aquifer(tmp_path_factory):
    """heads.csv and aquifer.toml of 30 observation points, 1 % noise."""
    mesh = Grid((Axis(161, LENGTHS[0], Dirichlet()), Axis(129, LENGTHS[1], Neumann())))
    x, y = (one[1::2, 1::2] for one in mesh.refine(2).coordinates)
    moments = np.zeros((len(WELLS), *mesh.shape))
    for number, (across, along) in enumerate(WELLS):
        moments[number, round(across / 6.25), round(along / 6.25)] = -800.0
    heads = FiniteElements(mesh, transmissivity(x, y)).solve_moments(moments)
    rng = np.random.default_rng(3)
    points = rng.uniform((30, 30), (970, 770), (30, 2)).round(1)
    readings = (Sensors.at(points).matrix(mesh) @ heads.reshape(len(heads), -1).T).T
    readings = readings + 0.01 * np.sqrt(np.mean(readings**2)) * rng.standard_normal(readings.shape)
    folder = tmp_path_factory.mktemp("aquifer")
    names = ",".join(f"drawdown_{number + 1} [m]" for number in range(len(WELLS)))
    rows = [
        f"{a},{b}," + ",".join(f"{value:.5f}" for value in row) for (a, b), row in zip(points, readings.T, strict=True)
    ]
    (folder / "heads.csv").write_text("\n".join([f"x [m],y [m],{names}", *rows]) + "\n")
    loads = "".join(f'\n[[loads]]\nkind = "point"\nposition = [{a}, {b}]\ntotal = "-800 m^3/d"\n' for a, b in WELLS)
    (folder / "aquifer.toml").write_text(
        'files = "heads.csv"\nresponse = "drawdown"\nnoise = "1 %"\nnodes = [21, 17]\nbox = [[0, 1000], [0, 800]]\n'
        'boundary = ["dirichlet", "neumann"]\n\n[units]\nload = "m/d"\n' + loads
    )
    return folder


def test_readings_are_kept_at_their_points(aquifer):
    measurement = nipde.read(aquifer / "aquifer.toml")
    assert measurement.readings is not None
    assert (len(measurement.readings.sensors), measurement.readings.count) == (30, len(WELLS))
    table = np.loadtxt(aquifer / "heads.csv", delimiter=",", skiprows=1)
    order = np.lexsort(table[:, 1::-1].T)
    np.testing.assert_allclose(measurement.readings.sensors.points, table[order, :2])
    np.testing.assert_allclose(measurement.readings.readings.numpy().T, table[order, 2:])


def test_points_that_are_nodes_are_no_scattered_readings():
    assert nipde.read(nipde.sample()).readings is None


def test_thirty_points_map_the_aquifer_and_bands_hold(aquifer, capsys):
    out = aquifer / "out"
    assert main(["discover", str(aquifer / "aquifer.toml"), "--baselines", "false", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "In-distribution check passed" in printed
    found = np.load(out / "microstructure.npz")
    truth = transmissivity(*np.meshgrid(found["x"], found["y"], indexing="ij"))[1:-1]
    ratio = np.abs(np.log(found["coefficient"][1:-1] / truth))
    assert np.median(ratio) < 0.12
    held = (found["coefficient_low"][1:-1] <= truth) & (truth <= found["coefficient_high"][1:-1])
    assert held.mean() > 0.85
    assert json.loads((out / "summary.json").read_text())["provenance"]["weights"] == "SensorInversion"
