import json

import numpy as np
import pytest

from nipde.cli import main
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField

UNITS = {"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"}


def loads_of(grid, *, seed, count):
    return GaussianField(1.0, waves=6, rms=0.01).sample(grid, rng=np.random.default_rng(seed), count=count)


@pytest.fixture(scope="module", params=[8, 11], ids=["small", "larger"])
def measured(request, tmp_path_factory):
    """The small grid has fewer waves than are asked about."""
    path, grid = tmp_path_factory.mktemp("cli") / "rock.npz", Grid.uniform(request.param, length=80.0)
    loads, x = loads_of(grid, seed=0, count=4), grid.axes[0].coordinates
    answers = Darcy(grid, np.full(grid.shape, 3.0)).solve(loads)
    np.savez(path, x=x + 10, y=x - 5, loads=loads, responses=answers, noise=0.0, units=json.dumps(UNITS))
    return path, grid


def listed(printed):
    lines = [line.split("%") for line in printed.splitlines() if line.startswith("  ")]
    return [float(gain) for gain, _ in lines], [name.strip() for _, name in lines]


def test_waves_are_ranked_and_written(measured, tmp_path, capsys):
    path, grid = measured
    words = ["--weights", "darcy-two-phase", "--count", "3", "--out", str(tmp_path / "new" / "next.npz")]
    assert main(["design", str(path), *words]) == 0
    gains, names = listed(capsys.readouterr().out)
    assert len(gains) == 3
    assert gains == sorted(gains, reverse=True)
    assert all("half wave" in name and name.endswith("N/mm²") for name in names)
    with np.load(tmp_path / "new" / "next.npz", allow_pickle=False) as stored:
        assert set(stored.files) == {"x", "y", "loads", "gains"}
        assert (stored["x"][0], stored["y"][0]) == pytest.approx((10, -5))  # as in the file of the measurement
        assert stored["loads"].shape == (3, *grid.shape)
        assert 100 * stored["gains"] == pytest.approx(gains, abs=0.06)
        rms = np.sqrt(grid.integrate(stored["loads"] ** 2) / grid.volume)
    assert rms == pytest.approx(np.full(3, np.sqrt(np.mean(loads_of(grid, seed=0, count=4) ** 2))), rel=1e-5)


def test_candidates_of_ones_own_are_ranked(measured, tmp_path, capsys):
    path, grid = measured
    again, fresh = loads_of(grid, seed=0, count=4)[2], loads_of(grid, seed=7, count=2)
    np.savez(tmp_path / "mine.npz", loads=np.stack([again, *fresh]))
    words = [
        "--weights",
        "darcy-two-phase",
        "--candidates",
        str(tmp_path / "mine.npz"),
        "--out",
        str(tmp_path / "next"),
    ]
    assert main(["design", str(path), *words]) == 0
    gains, names = listed(capsys.readouterr().out)
    assert sorted(names) == ["candidate 0", "candidate 1", "candidate 2"]
    assert names[-1] == "candidate 0"  # it was applied before
    assert gains[-1] < 0.2 * gains[0]
    (written,) = tmp_path.glob("next*")
    assert np.load(written)["loads"][-1] == pytest.approx(again)


def test_candidates_on_another_grid_are_refused(measured, tmp_path, capsys):
    path, _ = measured
    np.savez(tmp_path / "mine.npz", loads=np.ones((2, 5, 5)))
    words = ["--weights", "darcy-two-phase", "--candidates", str(tmp_path / "mine.npz")]
    assert main(["design", str(path), *words]) == 2
    said = capsys.readouterr().err
    assert "expected an array loads (candidate, " in said
    assert "(2, 5, 5)" in said


def test_weights_that_infer_no_material_rank_loads_as_well(measured, capsys):
    assert main(["design", str(measured[0]), "--weights", "darcy-two-phase-gated", "--count", "2"]) == 0
    assert len(listed(capsys.readouterr().out)[0]) == 2


@pytest.mark.parametrize("relative", ["false", "true"])
def test_loads_are_ranked_by_what_they_tell_about_the_material(measured, relative, capsys):
    path, _ = measured
    words = ["--weights", "darcy-two-phase", "--by", "material", "--count", "3", "--relative", relative]
    assert main(["design", str(path), *words]) == 0
    gains, names = listed(capsys.readouterr().out)
    assert len(set(names)) == 3
    assert 100 >= gains[0] >= gains[1] >= gains[2] > 0


@pytest.mark.parametrize("weights", ["darcy-two-phase-gated", "advection"])
def test_weights_without_a_material_at_rest_cannot_rank_by_it(measured, weights, capsys):
    assert main(["design", str(measured[0]), "--weights", weights, "--by", "material"]) == 2
    assert "an inferred coefficient and no drift" in capsys.readouterr().err
