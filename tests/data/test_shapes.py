"""Reference data of specimens with an outline: against cut cells, their supports and loads, and their archives."""

import numpy as np
import pytest

from nipde.cli.__main__ import main
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.random_specimens import SPECIMENS
from nipde.data.shapes import ShapedDarcyRecipe
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart
from nipde.errors import ArchiveError, PairsError
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.estimators.regression.ridge import Ridge
from nipde.evaluation.evaluate import evaluate
from nipde.evaluation.specimens import evaluate_specimens, readings_of
from nipde.grid import Grid
from nipde.physics.conduction import Conduction

KINDS = [kind.replace(" ", "-") for kind in SPECIMENS]


def recipe(**options):
    return ShapedDarcyRecipe(**{"nodes": 11, "pairs": 4, "refine": 8, "precision": "float64", **options})


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    plan = Plan(recipe(nodes=21, pairs=14, refine=4, loads="smooth", shape="disc"), systems=3, split=(0.0, 0.0, 1.0))
    return generate(plan, tmp_path_factory.mktemp("shapes") / "discs", workers=1)


@pytest.mark.parametrize("loads", ["smooth", "outline"])
@pytest.mark.parametrize("shape", KINDS)
def test_responses_are_those_of_cut_cells_on_the_same_specimen(shape, loads):
    """Another discretisation, on a grid eight times finer than that of the data."""
    made = recipe(shape=shape, loads=loads, contrast=1.0)
    system, specimen = made.build(7), made.specimen_of(7)
    fine = made.grid.refine(8)
    law = Conduction(cut_cells(fine, specimen.shape, specimen.conditions), lambda x, y: np.full_like(x, 6.0))
    inside = np.isfinite(system.responses[0, 0])
    for pair in range(2):
        if loads == "outline":
            case = made.outline_of(7)[pair]
        else:  # smooth enough to be known from its values on the grid
            case = LoadCase(density=made.grid.interpolate(system.loads[pair, 0], to=fine))
        found = fine.restrict(law.solve(case).response, to=made.grid)
        off = (found - system.responses[pair, 0])[inside]
        assert np.linalg.norm(off) < 0.03 * np.linalg.norm(system.responses[pair, 0][inside])


def test_extrapolated_responses_are_nearer_to_those_of_smaller_triangles():
    plain, better, finest = (
        recipe(refine=refine, shape="disc", supports="random", loads="outline", contrast=1.0, extrapolated=given)
        for refine, given in ((8, False), (8, True), (32, False))
    )
    exact = finest.build(5).responses
    errors = [np.nanmean(np.abs(made.build(5).responses - exact)) for made in (plain, better)]
    assert errors[1] < errors[0] / 2


def test_fields_are_known_inside_only():
    made = recipe(shape="plate-with-hole")
    system, shape = made.build(1), made.specimen_of(1).shape
    inside = shape.holds_nodes(made.grid)
    assert np.array_equal(np.isfinite(system.hidden[0]), inside)
    assert np.array_equal(np.isfinite(system.responses[:, 0]), np.broadcast_to(inside, (4, 11, 11)))
    assert np.isfinite(system.fine).mean() == pytest.approx(shape.region.area, abs=0.01)
    assert set(np.unique(system.fine[np.isfinite(system.fine)])) == {3.0, 12.0}


def test_any_shape_draws_all_of_them():
    drawn = {int(recipe(pairs=1, refine=2).build(seed).parameters["shape"]) for seed in range(25)}
    assert drawn == set(range(len(SPECIMENS)))


@pytest.mark.parametrize("shape", KINDS)
def test_random_supports_hold_a_part_of_the_outer_outline(shape):
    places = set()
    for seed in range(6):
        specimen = recipe(shape=shape, supports="random").specimen_of(seed)
        held = [name for name in specimen.shape.parts if isinstance(specimen.condition(name), DirichletPart)]
        assert held == ["support"]
        line = specimen.shape.parts["support"]
        assert 0.29 < line.length / specimen.shape.region.exterior.length < 0.71
        places.add(round(line.centroid.x, 3))
    assert len(places) == 6


def test_wells_stand_inside_away_from_the_outline():
    made = recipe(nodes=21, pairs=30, shape="blob", loads="wells", refine=2)
    loads, shape = made.build(3).loads[:, 0], made.specimen_of(3).shape
    assert np.array_equal((loads != 0).sum((1, 2)), np.ones(30))
    assert np.allclose(loads.sum((1, 2)) * np.prod(made.grid.spacing), 1.0)
    _, x, y = np.nonzero(loads)
    assert shape.region.buffer(-0.099).covers(type(shape.region.centroid)(0.05 * x[0], 0.05 * y[0]))


def test_an_archive_gives_specimens_and_their_loads_back(tmp_path):
    made = generate(Plan(recipe(loads="outline", supports="random", refine=2), systems=2), tmp_path / "a", workers=1)
    made.verify()
    made.rebuild(1)
    seed = made[1].seed
    first, second = (made.plan.recipe.specimen_of(seed).shape.region for _ in range(2))
    assert first.equals(second)
    x = np.array([0.3, 0.4])
    for one, other in zip(*(made.plan.recipe.outline_of(seed) for _ in range(2)), strict=True):
        assert all(np.array_equal(one.fluxes[part](x, x), other.fluxes[part](x, x)) for part in one.fluxes)
    readings = readings_of(made, 1, pairs=[3, 0])
    assert len(readings.outline) == 2
    assert np.array_equal(readings.outline[1].values["support"](x, x), other_values(made, seed, 0, x))


def other_values(archive, seed, pair, x):
    return archive.plan.recipe.outline_of(seed)[pair].values["support"](x, x)


def test_sensors_read_what_is_stored(archive):
    exact, noisy = (readings_of(archive, 1, sensors=30, noise=noise, seed=4) for noise in (0.0, 0.01))
    assert noisy.readings.shape == (14, 30)
    assert np.array_equal(exact.sensors.points, noisy.sensors.points)
    system = archive[1]
    column = np.rint(exact.sensors.points * 20).astype(int)
    assert np.allclose(exact.readings.numpy(), system.responses[:, 0, column[:, 0], column[:, 1]])
    relative = (noisy.readings - exact.readings).std() / exact.readings.square().mean().sqrt()
    assert 0.008 < relative < 0.012
    assert float(noisy.noise) == pytest.approx(0.01 * float(exact.readings.square().mean().sqrt()))


def test_next_to_a_well_nothing_is_read(tmp_path):
    plan = Plan(recipe(nodes=21, pairs=3, shape="disc", loads="wells", refine=2), systems=1)
    made = generate(plan, tmp_path / "wells", workers=1)
    found = readings_of(made, 0)
    away = found.sensors.points[:, None] - wells_of(made[0])
    missing = np.isnan(found.readings.numpy()).T
    assert np.array_equal(missing, np.abs(away).max(-1) < 0.075)


def wells_of(system):
    return np.stack(np.nonzero(system.loads[:, 0])[1:], -1) / 20


def test_estimators_are_judged_inside(archive):
    found = evaluate_specimens(
        SensorInversion(material=20, solver=40), archive, context=10, noise=0.01, sensors=60, systems=1
    )
    assert found.held_out.mean < 0.03
    assert found.phase_accuracy.mean > 0.93
    assert (found.systems, found.pairs, found.queries) == (1, 10, 4)


def test_what_needs_a_whole_box_is_refused(archive, tmp_path, capsys):
    with pytest.raises(PairsError, match="takes readings of sensors"):
        evaluate_specimens(Ridge(), archive, context=10)
    with pytest.raises(ArchiveError, match="fill the box"):
        evaluate(Ridge(), archive, context=10)
    where = archive.storage.address
    for words in (["estimate", where], ["train", "nips-2", "--data", where, "--out", str(tmp_path / "run")]):
        assert main(words) == 2
        assert "fill the box" in capsys.readouterr().err
    assert main(["evaluate", "output-error", "--data", where, "--load-noise", "0.1"]) == 2
    with pytest.raises(PairsError, match=r"1 to 2.. sensors"):
        readings_of(archive, 0, sensors=1000)
    square = generate(Plan(DarcyRecipe(nodes=9, pairs=2), systems=1), tmp_path / "box", workers=1)
    with pytest.raises(ArchiveError, match="specimens with an outline"):
        readings_of(square, 0)


def test_commands_describe_and_draw_specimens(archive, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["info", archive.storage.address]) == 0
    card = capsys.readouterr().out
    assert "the box around specimens" in card
    assert "nan" not in card
    assert main(["show", archive.storage.address, "--out", str(tmp_path / "disc.png")]) == 0
    assert (tmp_path / "disc.png").stat().st_size > 10_000


@pytest.mark.parametrize("options", [{"refine": 1}, {"contrast": 0.5}, {"nodes": 9}, {"shared_loads": True}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ArchiveError):
        recipe(**options)


def test_seeds_differ_in_everything():
    one, other = (recipe(shape="blob", refine=2).build(seed) for seed in (1, 2))
    assert not np.array_equal(one.loads, other.loads)
    assert not np.array_equal(np.isfinite(one.fine), np.isfinite(other.fine))
    assert Grid.uniform(11) == one.grid
