import json
import re

import numpy as np
import pytest

from nipde.cli import main
from nipde.context.sensors import Sensors
from nipde.grid import Grid
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField

UNITS = {"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"}


def loads_of(grid, *, seed, count):
    return GaussianField(1.0, waves=6, rms=0.01).sample(grid, rng=np.random.default_rng(seed), count=count)


@pytest.fixture(scope="module", params=[8, 11], ids=["small", "larger"])
def measured(request, tmp_path_factory):
    """The small grid has fewer candidates than others."""
    path, grid = tmp_path_factory.mktemp("cli") / "rock.npz", Grid.uniform(request.param, length=80.0)
    loads, x = loads_of(grid, seed=0, count=4), grid.axes[0].coordinates
    answers = Darcy(grid, np.full(grid.shape, 3.0)).solve(loads)
    np.savez(path, x=x + 10, y=x - 5, loads=loads, responses=answers, noise=0.0, units=json.dumps(UNITS))
    return path, grid


def listed(printed):
    lines = [line.split("%") for line in printed.splitlines() if line.startswith("  ")]
    return [float(gain) for gain, _ in lines], [name.strip() for _, name in lines]


def test_patches_are_ranked_and_written(measured, tmp_path, capsys):
    path, grid = measured
    words = ["--weights", "darcy-two-phase", "--count", "2", "--out", str(tmp_path / "new" / "next.npz")]
    assert main(["design", str(path), *words]) == 0
    gains, names = listed(capsys.readouterr().out)
    assert len(gains) == 2
    assert gains == sorted(gains, reverse=True)
    assert all(re.fullmatch(r"patch of .+ × .+ mm centred at \(.+, .+\) mm, 0\.0\d+ N/mm²", name) for name in names)
    with np.load(tmp_path / "new" / "next.npz", allow_pickle=False) as stored:
        assert set(stored.files) == {"x", "y", "loads", "gains"}
        assert (stored["x"][0], stored["y"][0]) == pytest.approx((10, -5))  # as in the file of the measurement
        assert stored["loads"].shape == (2, *grid.shape)
        assert 100 * stored["gains"] == pytest.approx(gains, abs=0.06)
        load, x, y = stored["loads"][0], stored["x"], stored["y"]
        centre = [grid.integrate(at * load) / grid.integrate(load) for at in np.meshgrid(x, y, indexing="ij")]
    named = re.search(r"\((.+), (.+)\)", names[0].replace("−", "-")).groups()
    assert tuple(map(float, named)) == pytest.approx(centre, abs=0.3)
    assert load.max() == pytest.approx(np.abs(loads_of(grid, seed=0, count=4)).max(), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("points", r"point load at \(.+, .+\) mm, total .+ N"),
        ("doublets", r"doublet of .+ N at \(.+\) mm and −.+ N at \(.+\) mm"),
        ("waves", r"\d half waves? along x, \d half waves? along y, rms 0\.0\d+ N/mm²"),
    ],
)
def test_other_kinds_can_be_asked_for(measured, kind, form, capsys):
    words = ["--weights", "darcy-two-phase", "--count", "2", "--candidates", kind]
    assert main(["design", str(measured[0]), *words]) == 0
    _, names = listed(capsys.readouterr().out)
    assert len(names) == 2
    assert all(re.fullmatch(form, name) for name in names), names


def test_help_says_what_each_kind_is(capsys):
    with pytest.raises(SystemExit):
        main(["design", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    for words in ("patches: uniform load", "points: a well", "doublets: half of it", "waves: products of sines"):
        assert words in told


def test_a_word_that_is_neither_a_kind_nor_a_file(measured, capsys):
    assert main(["design", str(measured[0]), "--candidates", "patchez"]) == 2
    assert "expected patches, points, doublets, waves, or a file with an array loads" in capsys.readouterr().err


def test_candidates_of_ones_own_are_ranked(measured, tmp_path, capsys):
    path, grid = measured
    again, fresh = loads_of(grid, seed=0, count=4)[2], loads_of(grid, seed=7, count=2)
    np.savez(tmp_path / "mine.npz", loads=np.stack([again, *fresh]))
    words = ["--weights", "darcy-two-phase", "--candidates", str(tmp_path / "mine.npz")]
    # Read again, noise is less: the coefficient gains a little by it, the kernel next to nothing.
    for by, share in (([], 0.8), (["--by", "kernel", "--out", str(tmp_path / "next")], 0.2)):
        assert main(["design", str(path), *words, *by]) == 0
        gains, names = listed(capsys.readouterr().out)
        assert sorted(names) == ["candidate 0", "candidate 1", "candidate 2"]
        assert names[-1] == "candidate 0"  # it was applied before
        assert gains[-1] < share * gains[0]
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


@pytest.mark.slow
def test_readings_at_few_points_are_estimated_by_output_error(tmp_path, capsys):
    """Wells that pump, thirty heads; nobody names an estimator."""
    grid, rng = Grid.uniform(13, length=600.0), np.random.default_rng(0)
    loads = np.zeros((3, *grid.shape))
    for load, node in zip(loads, ((3, 4), (9, 5), (6, 9)), strict=True):
        load[node] = -500 / grid.weights[node]
    points = rng.uniform(50, 550, (30, 2)).round(1)
    heads = Sensors.at(points).matrix(grid) @ Darcy(grid, np.full(grid.shape, 300.0)).solve(loads).reshape(3, -1).T
    table = np.column_stack([points, heads])
    names = "x [m],y [m],head_1 [m],head_2 [m],head_3 [m]"
    np.savetxt(tmp_path / "heads.csv", table, delimiter=",", header=names, comments="", fmt="%.6g")
    wells = "".join(f'\n[[loads]]\nkind = "point"\nposition = [{50 * i}, {50 * j}]\ntotal = "-500 m^3/d"\n'
                    for i, j in ((3, 4), (9, 5), (6, 9)))  # fmt: skip
    (tmp_path / "aquifer.toml").write_text(
        'files = "heads.csv"\nresponse = "head"\nnoise = "1 %"\nnodes = 13\nbox = [[0, 600], [0, 600]]\n\n[units]\n'
        'load = "m/d"\n' + wells
    )
    assert main(["design", str(tmp_path / "aquifer.toml"), "--count", "2"]) == 0
    gains, names = listed(capsys.readouterr().out)
    assert all(re.fullmatch(r"well at \(\d+, \d+\) m, rate −500 m³/d", name) for name in names), names
    assert 100 > gains[0] >= gains[1] > 0


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
