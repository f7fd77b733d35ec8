"""Every system of darcy-mixed draws its own law; what it drew is what its fields show."""

import numpy as np
import pytest

from nipde.data.darcy import MixedDarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import recipe_from_dict
from nipde.discretisation.links import Arithmetic
from nipde.errors import ArchiveError
from nipde.evaluation.truth import face_mean_of, true_laws
from nipde.physics.random_fields import GaussianField

RANGES = {"contrast": (1.5, 30.0), "field_alpha": (3.0, 5.0), "field_tau": (4.0, 7.0), "load_alpha": (1.0, 4.0)}


@pytest.fixture(scope="module")
def systems():
    plan = Plan(MixedDarcyRecipe(nodes=21, pairs=4), systems=60, seed=1)
    return [plan.recipe.build(plan.system_seed(system)) for system in range(plan.systems)]


def drawn(systems, name):
    return np.array([system.parameters[name] for system in systems])


@pytest.mark.parametrize("name", RANGES)
def test_drawn_numbers_fill_their_ranges_and_differ(systems, name):
    values, (low, high) = drawn(systems, name), RANGES[name]
    assert len(np.unique(values)) == len(systems)
    assert low <= values.min() < low + (high - low) / 5
    assert high - (high - low) / 5 < values.max() <= high


def test_contrasts_are_uniform_in_their_logarithm(systems):
    assert np.median(drawn(systems, "contrast")) == pytest.approx(np.sqrt(1.5 * 30.0), rel=0.4)


def test_both_kinds_and_both_directions_occur(systems):
    kinds, directions = drawn(systems, "log_normal"), drawn(systems, "rising")
    assert {(kind, way) for kind, way in zip(kinds, directions, strict=True)} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert 10 <= kinds.sum() <= 30  # a third of 60, within three standard deviations
    assert 18 <= directions.sum() <= 42


def test_two_phases_have_the_drawn_contrast_level_direction_and_area(systems):
    for system in systems:
        if not system.parameters["log_normal"]:
            low, high = np.unique(system.hidden).astype(float)
            assert high / low == pytest.approx(system.parameters["contrast"], rel=1e-6)
            assert np.sqrt(low * high) == pytest.approx(6.0, rel=1e-6)
            negative = system.hidden[0] == np.float32(low if system.parameters["rising"] else high)
            share = system.grid.integrate(negative.astype(float))
            assert share == pytest.approx(system.parameters["fraction_negative"], abs=1e-12)


def test_log_normal_rock_has_the_drawn_contrast_between_its_quantiles_and_the_level():
    recipe = MixedDarcyRecipe(nodes=81, pairs=1, log_normal_share=1.0, precision="float64", level=2.0)
    for seed in range(3):
        system = recipe.build(seed)
        low, high = np.quantile(np.log(system.hidden), (0.05, 0.95))
        assert np.exp(high - low) == pytest.approx(system.parameters["contrast"], rel=1e-10)
        assert np.exp(system.grid.integrate(np.log(system.hidden))[0]) == pytest.approx(2.0, rel=1e-10)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_same_seed_is_the_same_system_on_every_grid(share):
    for seed in range(4):
        fine, coarse = (MixedDarcyRecipe(nodes=n, pairs=3, log_normal_share=share).build(seed) for n in (21, 11))
        assert fine.parameters["log_normal"] == share
        assert all(fine.parameters[name] == coarse.parameters[name] for name in ("log_normal", "rising", *RANGES))
        np.testing.assert_allclose(fine.grid.restrict(fine.hidden, to=coarse.grid), coarse.hidden, rtol=1e-6)
        np.testing.assert_allclose(fine.grid.restrict(fine.loads, to=coarse.grid), coarse.loads, atol=1e-5)


def test_loads_are_as_smooth_as_their_parameter_says_and_of_unit_size():
    recipe = MixedDarcyRecipe(nodes=21, pairs=500)

    def roughness(loads):
        return np.mean(np.diff(loads, axis=-1) ** 2)

    for seed in range(6):
        system = recipe.build(seed)
        law = GaussianField(float(system.parameters["load_alpha"]), rms=1.0)
        of_that_law = law.sample(recipe.grid, rng=np.random.default_rng(0), count=2000)
        assert roughness(system.loads) == pytest.approx(roughness(of_that_law), rel=0.1)
        square = system.grid.integrate(system.loads.astype(float) ** 2)
        assert abs(square.mean() - 1) < 4 * square.std() / np.sqrt(recipe.pairs)


def test_an_archive_holds_all_of_it_and_its_true_laws_give_the_stored_responses(tmp_path):
    recipe = MixedDarcyRecipe(nodes=11, pairs=4, face_mean="arithmetic")
    archive = generate(Plan(recipe, systems=6, seed=2, shard_systems=3), tmp_path / "mixed", workers=1)
    read = archive[:]
    assert archive.plan.recipe == recipe
    assert face_mean_of(archive) == Arithmetic()
    assert set(read.parameters) == {"log_normal", "rising", "fraction_negative", *RANGES}
    for law, loads, responses in zip(true_laws(archive, read), read.loads, read.responses, strict=True):
        np.testing.assert_array_equal(law.solve(loads[:, 0]), responses[:, 0])
    archive.rebuild(4)


def test_ranges_of_one_value_give_that_value_and_survive_json():
    recipe = MixedDarcyRecipe(nodes=11, pairs=2, contrasts=(4.0, 4.0), field_taus=(5.0, 5.0), log_normal_share=0.0)
    assert recipe_from_dict(recipe.to_dict()) == recipe
    system = recipe.build(3)
    assert (system.parameters["contrast"], system.parameters["field_tau"]) == (4.0, 5.0)
    assert np.unique(system.hidden).tolist() == [3.0, 12.0]


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"shared_loads": True}, "shared loads"),
        ({"contrasts": (0.5, 2.0)}, (0.5, 2.0)),
        ({"contrasts": (3.0, 2.0)}, (3.0, 2.0)),
        ({"load_alphas": (0.0, 2.0)}, (0.0, 2.0)),
        ({"field_taus": (1.0, np.inf)}, (1.0, np.inf)),
        ({"log_normal_share": 1.5}, (1.5, 6.0)),
        ({"level": 0.0}, (1 / 3, 0.0)),
        ({"pairs": 0}, 0),
    ],
)
def test_options_that_make_no_sense_are_refused(options, got):
    with pytest.raises(ArchiveError) as error:
        MixedDarcyRecipe(**options)
    assert error.value.got == got
