"""The Well's layout, point by point as its specification lists them, and the values of the archive in it."""

import json
from dataclasses import dataclass
from typing import ClassVar

import h5py
import numpy as np
import pytest

from nipde.boundary import Neumann, Periodic
from nipde.cli import main
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe
from nipde.data.recipe import Recipe
from nipde.data.system import Quantities, Quantity, System
from nipde.errors import ArchiveError
from nipde.grid import Axis, Grid
from nipde.interop.the_well import to_the_well

SYSTEMS, PAIRS = 10, 5


@dataclass(frozen=True)
class BoxRecipe(Recipe):
    """Numbers in a box: a vector load, a tensor response, a hidden field of two numbers, other boundaries."""

    problem: ClassVar[str] = "test-box"

    @property
    def grid(self):
        return Grid((Axis(5, 2.0, Periodic()), Axis(4, 1.5, Neumann()), Axis(3)))

    @property
    def quantities(self):
        axes = "xyz"
        tensor = tuple(one + other for one in axes for other in axes)
        return Quantities(
            Quantity("body force", "N/m^3", tuple(axes)),
            Quantity("stress", "Pa", tensor),
            Quantity("angle", "1", ("cos 2α", "sin 2α")),
        )

    parameter_names = ("number",)
    diagnostic_names = ("residual",)

    def draw_loads(self, rng):
        return rng.standard_normal((self.pairs, 3, *self.grid.shape))

    def solve(self, rng, loads, seed):
        responses, hidden = rng.standard_normal((self.pairs, 9, *self.grid.shape)), rng.random((2, *self.grid.shape))
        told = {"residual": np.zeros(self.pairs)}
        kept = (loads, responses.astype(self.precision), hidden.astype(self.precision), np.asarray(seed))
        return System(self.grid, *kept, {"number": np.asarray(rng.random())}, told)


RECIPES = {
    "darcy": DarcyRecipe(nodes=11, pairs=PAIRS),
    "darcy, shared loads, float64": DarcyRecipe(nodes=11, pairs=PAIRS, shared_loads=True, precision="float64"),
    "advection": AdvectionRecipe(nodes=11, pairs=PAIRS),
    "box": BoxRecipe(pairs=PAIRS),
}


@pytest.fixture(scope="module", params=RECIPES)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("well")
    archive = generate(Plan(RECIPES[request.param], systems=SYSTEMS, seed=1), folder / "archive", workers=1)
    with h5py.File(to_the_well(archive, folder / "it.hdf5")) as file:
        yield archive, file


def a_bool(value):
    assert isinstance(value, bool | np.bool_), type(value)
    return bool(value)


def words(values):
    assert isinstance(values, np.ndarray)
    assert all(isinstance(word, str) for word in values)
    return list(values)


def test_the_root_says_what_it_is(made):
    archive, file = made
    assert sorted(file) == ["boundary_conditions", "dimensions", "scalars", "t0_fields", "t1_fields", "t2_fields"]
    attributes = file.attrs
    assert attributes["dataset_name"] == f"nipde_{archive.plan.recipe.problem}"
    assert attributes["grid_type"] == "cartesian"
    assert attributes["n_spatial_dims"] == archive.grid.dimension
    assert isinstance(attributes["n_trajectories"], np.integer)
    assert attributes["n_trajectories"] == SYSTEMS
    for name in words(attributes["simulation_parameters"]):
        assert attributes[name] == getattr(archive.plan.recipe, name)
    assert json.loads(attributes["nipde_plan"])["seed"] == 1


def test_dimensions_are_named_and_placed(made):
    archive, file = made
    group = file["dimensions"]
    assert words(group.attrs["spatial_dims"]) == list("xyz"[: archive.grid.dimension])
    assert group["time"].dtype == np.float32
    assert group["time"].shape == (PAIRS,)
    assert not a_bool(group["time"].attrs["sample_varying"])
    for name, axis in zip("xyz", archive.grid.axes, strict=False):
        assert group[name].dtype == np.float32
        np.testing.assert_array_equal(group[name], axis.coordinates.astype(np.float32))
        assert not a_bool(group[name].attrs["sample_varying"])
        assert not a_bool(group[name].attrs["time_varying"])


def test_boundaries_have_a_kind_a_mask_and_values(made):
    archive, file = made
    group = file["boundary_conditions"]
    assert list(group) == [f"{name}_boundary" for name in "xyz"[: archive.grid.dimension]]
    for name, axis in zip("xyz", archive.grid.axes, strict=False):
        side = group[f"{name}_boundary"]
        assert words(side.attrs["associated_dims"]) == [name]
        fields = words(side.attrs["associated_fields"])
        assert fields == ([archive.quantities.response.name] if axis.boundary.essential else [])
        assert side.attrs["bc_type"] == ("periodic" if axis.boundary.periodic else "wall")
        assert not a_bool(side.attrs["sample_varying"])
        assert not a_bool(side.attrs["time_varying"])
        assert side["mask"].dtype == bool
        assert list(np.flatnonzero(side["mask"])) == [0, axis.nodes - 1]
        assert side["values"].dtype == np.float32
        assert side["values"].shape == (side["mask"][:].sum(),)


def test_every_field_has_the_shape_that_its_attributes_say(made):
    archive, file = made
    dimension = archive.grid.dimension
    for order in range(3):
        group = file[f"t{order}_fields"]
        assert sorted(words(group.attrs["field_names"])) == sorted(group)
        for dataset in group.values():
            assert dataset.dtype == np.float32
            varying = dataset.attrs["dim_varying"]
            assert varying.dtype == bool
            assert list(varying) == [True] * dimension
            leading = (SYSTEMS,) * a_bool(dataset.attrs["sample_varying"])
            leading += (PAIRS,) * a_bool(dataset.attrs["time_varying"])
            assert dataset.shape == (*leading, *archive.grid.shape, *(dimension,) * order)
            if order == 2:
                assert not a_bool(dataset.attrs["symmetric"])
                assert not a_bool(dataset.attrs["antisymmetric"])


def test_scalars_vary_as_they_say(made):
    archive, file = made
    group, systems = file["scalars"], archive[:]
    assert sorted(words(group.attrs["field_names"])) == sorted(group)
    assert set(group) == set(systems.parameters) | set(systems.diagnostics)
    for name, dataset in group.items():
        assert a_bool(dataset.attrs["sample_varying"])
        assert a_bool(dataset.attrs["time_varying"]) == (name in systems.diagnostics)
        expected = {**systems.parameters, **systems.diagnostics}[name]
        np.testing.assert_array_equal(dataset, expected.astype(np.float32))


def test_values_are_those_of_the_archive(made):
    archive, file = made
    systems, problem = archive[:], archive.plan.recipe.problem

    def single(field, *components):
        return np.moveaxis(np.asarray(field, np.float32), -archive.grid.dimension - 1, -1)[..., list(components)]

    if problem == "darcy":
        np.testing.assert_array_equal(file["t0_fields/pressure"], single(systems.responses, 0)[..., 0])
        np.testing.assert_array_equal(file["t0_fields/permeability"], single(systems.hidden, 0)[..., 0])
        loads = single(systems.loads, 0)[..., 0]
        shared = archive.plan.recipe.shared_loads
        np.testing.assert_array_equal(file["t0_fields/source"], loads[0] if shared else loads)
        assert len(file["t1_fields"]) == len(file["t2_fields"]) == 0
    elif problem == "advection":
        np.testing.assert_array_equal(file["t1_fields/velocity"], single(systems.hidden, 0, 1))
        assert not file["t1_fields/velocity"].attrs["time_varying"]
        assert file["t0_fields/concentration"].attrs["units"] == "1"
    else:
        np.testing.assert_array_equal(file["t1_fields/body_force"], single(systems.loads, 0, 1, 2))
        stress = file["t2_fields/stress"]
        np.testing.assert_array_equal(stress[..., 1, 2], single(systems.responses, 5)[..., 0])
        assert stress.attrs["units"] == "Pa"
        np.testing.assert_array_equal(file["t0_fields/angle_sin_2α"], single(systems.hidden, 1)[..., 0])


def test_the_command_writes_a_part(tmp_path, capsys):
    archive = generate(Plan(RECIPES["darcy"], systems=SYSTEMS, seed=1), tmp_path / "archive", workers=1)
    out = tmp_path / "test.hdf5"
    words = ["export", "the-well", str(tmp_path / "archive"), "--out", str(out)]
    assert main([*words, "--part", "test"]) == 0
    assert str(out) in capsys.readouterr().out
    with h5py.File(out) as file:
        assert file.attrs["n_trajectories"] == 1
        expected = archive.read(archive.indices("test")).responses[:, :, 0].astype(np.float32)
        np.testing.assert_array_equal(file["t0_fields/pressure"], expected)
    assert main(words) == 0
    with h5py.File(out) as file:
        assert file.attrs["n_trajectories"] == SYSTEMS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "test.hdf5"]


def test_an_empty_part_and_a_missing_archive_are_typed_errors(tmp_path, capsys):
    archive = generate(Plan(RECIPES["darcy"], systems=2, seed=1, split=(1.0, 0.0, 0.0)), tmp_path / "it", workers=1)
    with pytest.raises(ArchiveError, match="got none"):
        to_the_well(archive, tmp_path / "none.hdf5", part="test")
    assert main(["export", "the-well", str(tmp_path / "nowhere"), "--out", "x.hdf5"]) == 2
    assert "ArchiveError" in capsys.readouterr().err
    assert not (tmp_path / "none.hdf5").exists()
