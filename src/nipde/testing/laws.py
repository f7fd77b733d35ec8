"""What a law promises: a system is a function of its seed, every pair solves its equation, archives reproduce it."""

import dataclasses
import tempfile

import numpy as np

from nipde.data.archive import open_archive
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import problem, recipe_from_dict
from nipde.data.recipe import Recipe
from nipde.errors import NipdeError
from nipde.testing.check import Check, expect, expect_close, expect_equal, named

#: Largest relative residual of a stored pair.
RESIDUAL = 1e-6


def check_law(recipe: Recipe) -> None:
    """All of `law_checks`, for a recipe of few nodes and pairs."""
    for check in law_checks():
        check(recipe)


def law_checks() -> list[Check]:
    """Checks to be called with a recipe; those that do not apply to it pass."""
    return named(
        _it_is_named_described_and_survives_json, _fields_have_the_stated_shapes, _every_pair_is_solved,
        _a_system_is_a_function_of_its_seed, _shared_loads_come_from_the_shared_seed,
        _the_stated_operator_gives_the_stored_responses, _an_archive_can_be_reproduced,
    )  # fmt: skip


def _it_is_named_described_and_survives_json(recipe: Recipe) -> None:
    expect_equal(problem(recipe.problem), type(recipe), f"the recipe of {recipe.problem!r} to be")
    expect(type(recipe).__doc__, expected="a docstring, which is its help text", got="none")
    for field in dataclasses.fields(recipe):
        expect(field.metadata.get("help"), expected=f"{field.name} = option(default, help)", got="no help text")
    expect_equal(recipe_from_dict(recipe.to_dict()), recipe, "after to_dict and back")


def _fields_have_the_stated_shapes(recipe: Recipe) -> None:
    system, grid, quantities = recipe.build(1), recipe.grid, recipe.quantities
    loads, responses, hidden = (len(getattr(quantities, role).components) for role in ("load", "response", "hidden"))
    specimen = recipe.specimen_of(1)
    inside = np.ones(grid.shape, dtype=bool) if specimen is None else specimen.shape.holds_nodes(grid)
    shapes = {"loads": (recipe.pairs, loads), "responses": (recipe.pairs, responses), "hidden": (hidden,)}
    for name, leading in shapes.items():
        values = getattr(system, name)
        expect_equal(values.shape, (*leading, *grid.shape), f"{name} of shape")
        expect_equal(values.dtype.name, recipe.precision, f"{name} in")
        expect(np.isfinite(values[..., inside]).all(), expected=f"finite {name} inside", got="NaN or infinity")
    expect(np.isfinite(system.loads).all(), expected="finite loads", got="NaN or infinity")
    expect_equal(tuple(system.parameters), recipe.parameter_names, "parameters")
    expect_equal(tuple(system.diagnostics), recipe.diagnostic_names, "diagnostics")


def _a_system_is_a_function_of_its_seed(recipe: Recipe) -> None:
    one, again, other = recipe.build(1), recipe.build(1), recipe.build(2)
    for name in ("loads", "responses", "hidden"):
        first, second, third = (getattr(system, name) for system in (one, again, other))
        expect(
            np.array_equal(first, second, equal_nan=True), expected=f"the same {name} from the same seed", got="others"
        )
        expect(
            not np.array_equal(first, third, equal_nan=True), expected=f"other {name} from another seed", got="the same"
        )


def _every_pair_is_solved(recipe: Recipe) -> None:
    residual = np.max(recipe.build(7).diagnostics["residual"])
    expect(residual <= RESIDUAL, expected=f"relative residuals up to {RESIDUAL:g}", got=residual)


def _shared_loads_come_from_the_shared_seed(recipe: Recipe) -> None:
    try:
        shared = dataclasses.replace(recipe, shared_loads=True)
    except NipdeError:
        return  # a recipe may refuse to share loads
    one, other = (shared.build(seed, shared_seed=99) for seed in (1, 2))
    expect(np.array_equal(one.loads, other.loads), expected="the same loads for two systems", got="others")
    expect(np.array_equal(one.hidden, recipe.build(1).hidden), expected="a hidden field of its own seed", got="another")


def _the_stated_operator_gives_the_stored_responses(recipe: Recipe) -> None:
    exact = dataclasses.replace(recipe, precision="float64")
    system = exact.build(3)
    law = exact.law_of(system.hidden)
    if law is None:
        return
    responses, _ = law.checked_solve(system.loads[:, 0])
    expect_close(responses, system.responses[:, 0], "responses of law_of", within=1e-9)
    flat = (system.loads[:, 0] * exact.grid.weights).reshape(exact.pairs, -1)
    integral = (flat @ law.green().T).reshape(responses.shape)
    expect_close(integral, responses, "∫ G(x, y) f(y) dy", within=1e-8)


def _an_archive_can_be_reproduced(recipe: Recipe) -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(Plan(recipe, systems=3, seed=5, split=(0.4, 0.3, 0.3)), folder, workers=1)
        archive = open_archive(folder, verify=True)
        expect_equal(archive.plan.recipe, recipe, "the recipe of the archive to be")
        for system in range(len(archive)):
            archive.rebuild(system)  # raises unless every stored bit is the same
