"""Reference data: every family and kind of loads, the same function on every mesh, and what the archive keeps."""

from dataclasses import replace
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from nipde.cli import main
from nipde.cli.info import card
from nipde.data.archive import open_archive
from nipde.data.generation import generate
from nipde.data.plan import SHARD_BYTES, Plan
from nipde.data.problems import PROBLEMS, recipe_from_dict
from nipde.data.recipe import streams
from nipde.data.reference import MATERIALS, Family, LoadKind, ReferenceDarcyRecipe, load_functions
from nipde.errors import ArchiveError, IntegrityError
from nipde.physics.darcy import Darcy
from nipde.physics.finite_elements import FiniteElements

KINDS = get_args(LoadKind)
every_family = pytest.mark.parametrize("family", get_args(Family))


def recipe(**options):
    return ReferenceDarcyRecipe(**{"nodes": 9, "pairs": 3, "refine": 4, **options})


def difference(grid, responses, exact):
    """Relative L2 difference of every pair."""
    return grid.norm(responses - exact) / grid.norm(exact)


# Archives


def test_every_family_has_a_material():
    assert tuple(MATERIALS) == get_args(Family)


@every_family
def test_every_family_is_generated_read_and_rebuilt(family, tmp_path):
    archive = generate(Plan(recipe(family=family), systems=2, seed=1), tmp_path / family, workers=1)
    archive.verify()
    assert archive.plan.recipe == recipe(family=family)
    system, both = archive[0], archive[:]
    assert system.fine.shape == (1, 32, 32)
    assert both.fine.shape == (2, 1, 32, 32)
    np.testing.assert_array_equal(both.fine[0], system.fine)
    assert not np.array_equal(both.fine[0], both.fine[1])
    assert np.max(system.diagnostics["residual"]) <= 1e-10
    archive.rebuild(0)


@pytest.mark.parametrize("loads", KINDS)
def test_every_kind_of_loads_is_generated_and_differs_between_pairs_and_systems(loads, tmp_path):
    words = f"--grid 9 --pairs 3 --systems 2 --refine 4 --family circles --seed 2 --workers 1 --loads {loads}".split()
    assert main(["generate", "darcy-reference", *words, "--out", str(tmp_path / loads)]) == 0
    archive = open_archive(tmp_path / loads, verify=True)
    assert archive.plan.recipe == recipe(family="circles", loads=loads)
    archive.rebuild(1)
    fields = archive[:].loads.reshape(6, -1)
    assert len(np.unique(fields, axis=0)) == 6
    work = archive.grid.integrate((archive[:].loads * archive[:].responses).astype(float))
    assert np.all(work > 0)


def test_info_names_the_fine_field(tmp_path, capsys, archive):
    made = generate(Plan(recipe(), systems=2), tmp_path / "made", workers=1)
    assert main(["info", str(tmp_path / "made")]) == 0
    lines = capsys.readouterr().out.splitlines()
    fine = next(line for line in lines if line.strip().startswith("fine "))
    assert "permeability in the 32 × 32 cells it was solved on: values 3 and 12" in fine
    assert lines[-1].endswith(".hidden, .fine")
    assert made[0].fine is not None
    assert "fine" not in card(archive).replace("refine", "")


def test_shards_are_as_large_with_the_fine_field_as_without():
    plan = Plan(ReferenceDarcyRecipe(pairs=10, refine=32), systems=10_000)
    values = plan.recipe.grid.size * 20 + np.prod(plan.recipe.fine_shape)
    assert plan.systems_per_shard * values * 4 <= SHARD_BYTES
    assert (plan.systems_per_shard + 1) * values * 4 > SHARD_BYTES


def test_the_seed_decides_the_digest(tmp_path):
    plans = {"one": 5, "again": 5, "other": 6}
    digests = {
        name: generate(Plan(recipe(), systems=2, seed=seed), tmp_path / name, workers=1).digest
        for name, seed in plans.items()
    }
    assert digests["one"] == digests["again"] != digests["other"]


def test_a_fine_field_that_cannot_be_reproduced_is_noticed(tmp_path, monkeypatch):
    archive = generate(Plan(recipe(), systems=1), tmp_path / "made", workers=1)
    built = recipe().build(archive[0].seed)
    archive.rebuild(0)
    other = replace(built, fine=built.fine[:, ::-1])
    monkeypatch.setattr(ReferenceDarcyRecipe, "build", lambda *given, **shared: other)
    with pytest.raises(IntegrityError) as error:
        archive.rebuild(0)
    assert error.value.message == "fine of system 0 cannot be reproduced"


def test_archives_of_other_problems_have_no_fine_field(archive, made):
    assert archive[0].fine is None
    assert archive[:].fine is None
    assert not (made / "fine").exists()
    with_mesh = {name for name, kind in PROBLEMS.items() if kind().fine_shape is not None}
    assert with_mesh == {"darcy-reference", "darcy-shapes", "conduction-3d"}


# Materials


@pytest.mark.parametrize("family", ["two-phase", "circles", "voronoi", "stripes"])
def test_two_phases_have_the_contrast_and_the_geometric_mean_6(family):
    for seed in range(3):
        system = recipe(family=family, contrast=9.0).build(seed)
        assert np.unique(system.fine) == pytest.approx([2.0, 18.0], rel=1e-6)
        assert system.parameters["contrast"] == 9.0


def test_three_phases_have_equal_shares_and_the_contrast_between_the_extremes():
    values, counts = np.unique(recipe(family="three-phase", contrast=9.0).build(0).fine, return_counts=True)
    assert values == pytest.approx([2.0, 6.0, 18.0], rel=1e-6)
    assert counts / counts.sum() == pytest.approx([1 / 3] * 3, abs=0.01)


def test_a_log_normal_material_has_the_contrast_between_plus_and_minus_one_deviation():
    fine = recipe(family="log-normal", contrast=9.0, precision="float64").build(0).fine
    assert np.exp(2 * np.sqrt(np.mean(np.log(fine / 6) ** 2))) == pytest.approx(9.0, rel=1e-10)
    assert len(np.unique(fine)) == fine.size


@every_family
def test_the_material_is_the_same_function_on_every_mesh(family):
    # The middle one of 3 × 3 cells has the centre of the cell they were cut from.
    coarse, fine = (recipe(family=family, refine=refine, precision="float64").build(3).fine[0] for refine in (4, 12))
    middle = fine[1::3, 1::3]
    moved = np.abs(np.log(middle / coarse)) > 1e-12
    assert moved.mean() < 0.002
    other = recipe(family=family, precision="float64").build(4).fine[0]
    assert np.mean(other != coarse) > 0.1


@pytest.mark.parametrize("refine", [2, 8])
def test_the_hidden_field_is_the_geometric_mean_of_the_cells_within_half_a_spacing(refine):
    system = recipe(nodes=5, refine=refine, family="log-normal", precision="float64").build(1)
    centres = (np.arange(4 * refine) + 0.5) / (4 * refine)
    near = np.abs(system.grid.axes[0].coordinates[:, None] - centres) < 1 / 8
    logarithms = np.einsum("ip,jq,pq->ij", near, near, np.log(system.fine[0]))
    exact = np.exp(logarithms / np.outer(near.sum(1), near.sum(1)))
    np.testing.assert_allclose(system.hidden[0], exact, rtol=1e-12)


# Loads and responses


@every_family
def test_responses_converge_as_the_mesh_is_refined(family):
    def change(seed):
        systems = [recipe(family=family, loads="rough", refine=refine).build(seed) for refine in (4, 8, 16)]
        return [np.mean(difference(a.grid, a.responses, b.responses)) for a, b in pairwise(systems)]

    first, second = np.mean([change(seed) for seed in range(3)], axis=0)
    assert 0 < first < 0.05
    assert second < 0.7 * first


@pytest.mark.parametrize("family", ["stripes", "log-normal"])
def test_extrapolated_responses_are_nearer_to_those_of_much_smaller_elements(family):
    plain, better = (recipe(family=family, precision="float64", extrapolated=given) for given in (False, True))
    assert np.array_equal(plain.build(4).fine, better.build(4).fine)
    assert np.array_equal(plain.build(4).loads, better.build(4).loads)
    cells = np.kron(plain.build(4).fine[0], np.ones((8, 8)))
    law = FiniteElements(plain.mesh.refine(8), cells)
    rng = streams(np.uint64(4))[1]
    exact = law.grid.restrict(law.solve(load_functions("middle", rng, law.grid, 3)), to=plain.grid)
    errors = [difference(plain.grid, made.build(4).responses[:, 0], exact) for made in (plain, better)]
    assert np.mean(errors[1]) < np.mean(errors[0]) / 3


@pytest.mark.parametrize("loads", ["rough", "middle", "smooth", "bumps"])
def test_the_grid_of_the_data_only_samples_what_the_mesh_solves(loads):
    fine, coarse = (recipe(nodes=nodes, refine=64 // (nodes - 1), loads=loads).build(7) for nodes in (17, 9))
    np.testing.assert_array_equal(fine.fine, coarse.fine)
    for name in ("loads", "responses"):
        np.testing.assert_array_equal(fine.grid.restrict(getattr(fine, name), to=coarse.grid), getattr(coarse, name))


@pytest.mark.parametrize("loads", ["smooth", "bumps"])
def test_in_an_even_material_the_control_volumes_answer_the_stored_loads_alike(loads):
    system = recipe(nodes=33, refine=2, contrast=1.0, loads=loads, precision="float64").build(2)
    responses = Darcy(system.grid, system.hidden[0]).solve(system.loads[:, 0])
    errors = difference(system.grid, responses, system.responses[:, 0])
    assert errors.max() < 0.02
    assert errors.min() > 1e-6  # another discretisation
    assert difference(system.grid, responses, np.roll(system.responses[:, 0], 1, axis=0)).min() > 0.1


def test_loads_are_rough_middle_and_smooth():
    def roughness(loads):
        fields = recipe(nodes=41, pairs=50, refine=1, loads=loads).build(0).loads
        assert np.mean(fields**2) == pytest.approx(1.0, rel=0.3)
        return np.mean(np.diff(fields, axis=-1) ** 2)

    assert roughness("smooth") < 0.7 * roughness("middle") < 0.7 * roughness("rough")


def test_a_well_is_one_node_away_from_the_sides_and_its_load_integrates_to_one():
    loads = recipe(nodes=21, pairs=200, refine=2, loads="wells").build(0).loads
    assert np.all(np.count_nonzero(loads, axis=(1, 2, 3)) == 1)
    assert recipe(nodes=21).grid.integrate(loads.astype(float)) == pytest.approx(1.0, rel=1e-6)
    _, _, x, y = np.nonzero(loads)
    assert {x.min(), x.max(), y.min(), y.max()} == {2, 18}
    assert len(np.unique(x * 21 + y)) > 100


def test_the_pressure_of_a_well_converges_but_at_its_own_node():
    systems = [recipe(loads="wells", contrast=1.0, refine=refine, precision="float64").build(1) for refine in (8, 16)]
    (coarse, fine), well = (system.responses for system in systems), systems[0].loads > 0
    assert fine[well] - coarse[well] == pytest.approx(np.log(2) / (2 * np.pi * 6.0), rel=1e-2)  # b = 6
    assert fine[~well] == pytest.approx(coarse[~well], abs=5e-4 * fine.max())


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_stored_wells_and_the_stored_fine_field_give_the_stored_responses(precision):
    drawn = recipe(loads="wells", family="voronoi", anisotropy=3.0, precision=precision)
    system = drawn.build(4)
    assert system.parameters["anisotropy"] == 3.0
    moments = np.zeros((3, *drawn.mesh.shape))
    drawn.mesh.restrict(moments, to=drawn.grid)[system.loads[:, 0] > 0] = 1.0

    def answer(ratio):
        solution = FiniteElements(drawn.mesh, system.fine[0].astype(float), ratio).solve_moments(moments)
        return drawn.mesh.restrict(solution, to=drawn.grid).astype(precision)

    np.testing.assert_array_equal(answer(3.0), system.responses[:, 0])
    assert np.max(np.abs(answer(1 / 3.0) - system.responses[:, 0])) > 0.01 * np.max(system.responses)


@pytest.mark.parametrize("loads", KINDS)
def test_given_loads_are_those_that_are_solved_for(loads):
    drawn = recipe(nodes=21, refine=2, loads=loads, precision="float64")
    own, other = drawn.build(1), drawn.build(2)
    shared = drawn.build(1, shared_seed=2)
    np.testing.assert_array_equal(shared.loads, other.loads)
    np.testing.assert_array_equal(shared.fine, own.fine)
    # In the other's material they have the other's responses: sums of up to 20 cosines are known by 21 nodes.
    again = drawn.solve(streams(2)[0], other.loads, np.uint64(1))
    np.testing.assert_array_equal(again.fine, other.fine)
    assert difference(own.grid, again.responses, other.responses).max() < (1e-3 if loads == "bumps" else 1e-9)
    assert difference(own.grid, shared.responses, own.responses).min() > 0.1


# Options


def test_the_recipe_survives_json():
    one = recipe(family="voronoi", loads="wells", contrast=30.0, anisotropy=2.0)
    assert recipe_from_dict(one.to_dict()) == one
    with pytest.raises(ArchiveError) as error:
        recipe_from_dict({**one.to_dict(), "family": "marble"})
    assert error.value.got == "marble"


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"shared_loads": True}, "shared loads"),
        ({"refine": 0}, (0, 4.0, 1.0)),
        ({"refine": 65}, (65, 4.0, 1.0)),
        ({"contrast": 0.5}, (4, 0.5, 1.0)),
        ({"contrast": np.inf}, (4, np.inf, 1.0)),
        ({"anisotropy": 0.0}, (4, 4.0, 0.0)),
        ({"pairs": 0}, 0),
    ],
)
def test_options_that_make_no_sense_are_refused(options, got):
    with pytest.raises(ArchiveError) as error:
        recipe(**options)
    assert error.value.got == got
