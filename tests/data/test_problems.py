from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nipde.data.darcy import DarcyRecipe, MixedDarcyRecipe
from nipde.data.problems import AdvectionRecipe, described, problem, problem_names, recipe_from_dict
from nipde.data.recipe import Recipe
from nipde.errors import ArchiveError
from nipde.physics.darcy import Darcy

RECIPES = [DarcyRecipe(nodes=11, pairs=5), MixedDarcyRecipe(nodes=11, pairs=5), AdvectionRecipe(nodes=21, pairs=5)]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.problem)
def test_a_system_is_a_function_of_its_seed(recipe):
    one, again, other = recipe.build(1), recipe.build(1), recipe.build(2)
    np.testing.assert_array_equal(one.responses, again.responses)
    assert not np.array_equal(one.hidden, other.hidden)
    assert not np.array_equal(one.loads, other.loads)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.problem)
def test_every_pair_is_solved_and_does_positive_work(recipe):
    system = recipe.build(7)
    assert np.max(system.diagnostics["residual"]) <= 1e-10
    assert np.all(np.isfinite(system.responses))
    work = recipe.grid.integrate((system.loads * system.responses).astype(float))
    assert np.all(work > 0)


def test_the_stored_float64_pairs_themselves_satisfy_the_equation():
    recipe = DarcyRecipe(nodes=21, pairs=20, precision="float64")
    system = recipe.build(5)
    law = Darcy(recipe.grid, system.hidden[0])
    assert np.max(law.residual(system.loads[:, 0], system.responses[:, 0])) <= 1e-10


def test_the_stored_float32_load_is_the_one_that_was_solved():
    recipe = DarcyRecipe(nodes=21, pairs=5)
    system = recipe.build(5)
    law = Darcy(recipe.grid, system.hidden[0].astype(float))
    exact = law.solve(system.loads[:, 0].astype(float))
    np.testing.assert_array_equal(system.responses[:, 0], exact.astype(np.float32))


def test_the_same_seed_is_the_same_specimen_on_every_grid():
    fine, coarse = DarcyRecipe(nodes=41, pairs=3).build(9), DarcyRecipe(nodes=21, pairs=3).build(9)
    np.testing.assert_array_equal(fine.grid.restrict(fine.hidden, to=coarse.grid), coarse.hidden)
    np.testing.assert_allclose(fine.grid.restrict(fine.loads, to=coarse.grid), coarse.loads, atol=1e-6)
    fine, coarse = AdvectionRecipe(nodes=41, pairs=3).build(9), AdvectionRecipe(nodes=21, pairs=3).build(9)
    np.testing.assert_allclose(fine.grid.restrict(fine.hidden, to=coarse.grid), coarse.hidden, atol=1e-4)


def test_shared_loads_come_from_the_shared_seed_alone():
    recipe = DarcyRecipe(nodes=11, pairs=4)
    one, other = (recipe.build(seed, shared_seed=99) for seed in (1, 2))
    np.testing.assert_array_equal(one.loads, other.loads)
    np.testing.assert_array_equal(one.hidden, recipe.build(1).hidden)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.problem)
def test_the_law_of_a_stored_field_gives_the_stored_responses(recipe):
    system = replace(recipe, precision="float64").build(3)
    law = recipe.law_of(system.hidden)
    np.testing.assert_allclose(law.solve(system.loads[:, 0]), system.responses[:, 0], rtol=1e-12, atol=1e-14)


def test_loads_have_unit_root_mean_square_on_average():
    recipe = DarcyRecipe(nodes=21, pairs=2000, load_alpha=4.0)
    loads = recipe.draw_loads(np.random.default_rng(0))
    square = recipe.grid.integrate(loads**2)
    assert abs(square.mean() - 1) < 4 * square.std() / np.sqrt(2000)


def test_a_list_of_smoothnesses_mixes_them():
    rough, smooth, mixed = (
        DarcyRecipe(nodes=41, pairs=200, load_alpha=alpha).draw_loads(np.random.default_rng(0))
        for alpha in (1.0, 4.0, (1.0, 4.0))
    )

    def roughness(loads):
        return np.mean(np.diff(loads, axis=-1) ** 2)

    assert roughness(smooth) < 0.9 * roughness(mixed) < 0.9 * roughness(rough)


def test_recipes_survive_json():
    recipe = DarcyRecipe(load_alpha=(1.0, 2.0, 4.0), phases=(5.0, 1.0))
    assert recipe_from_dict(recipe.to_dict()) == recipe
    with pytest.raises(ArchiveError) as error:
        recipe_from_dict({"problem": "telepathy"})
    assert error.value.got == "'telepathy'"


def entry(name, load):
    return SimpleNamespace(name=name, load=load)


def test_a_recipe_of_another_package_is_imported_when_its_name_is_needed(monkeypatch):
    def define():
        class Puddle(DarcyRecipe):
            """Shallow flow."""

            problem = "puddle"

    def fail():
        raise ImportError("no such module")

    entries = [entry("puddle", define), entry("broken", fail)]

    def entry_points(*, group, name=None):
        assert group == "nipde.problems"
        return [one for one in entries if name in (None, one.name)]

    monkeypatch.setattr("nipde.data.problems.entry_points", entry_points)
    monkeypatch.setattr(Recipe, "kinds", dict(Recipe.kinds))
    assert problem_names()[-2:] == ["puddle", "broken"]
    assert "puddle" not in Recipe.kinds  # listing names imports nothing
    assert recipe_from_dict({**DarcyRecipe().to_dict(), "problem": "puddle"}).problem == "puddle"
    texts = dict(described())
    assert texts["puddle"] == "Shallow flow."
    assert "no such module" in texts["broken"]
    with pytest.raises(ArchiveError) as error:
        problem("pudle")
    assert error.value.got == "'pudle'"
    assert "puddle" in error.value.remedy
