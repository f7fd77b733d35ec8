"""xarray in and out: nothing is lost on the way, labels and units are right, archives stay on disk until asked for."""

import numpy as np
import pytest
import torch
import xarray as xr

import nipde
from nipde.boundary import Neumann, Periodic
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe
from nipde.errors import IntegrityError, PairsError
from nipde.grid import Axis, Grid
from nipde.interop.labelled import discovery_dataset, from_xarray, open_xarray, predictions, to_xarray
from nipde.measurements.units import Units
from nipde.report.statements import statements

LINE = Grid((Axis(9, 0.7, Periodic()),))
PLANE = Grid((Axis(8, 1.3), Axis(7, 2.5, Neumann())))
SPACE = Grid((Axis(4, 1.3), Axis(5, 0.8, Periodic()), Axis(3)))
FIELDS = ("loads", "responses", "mask", "noise", "load_noise")


def some_pairs(grid, *, batch=(), components=(1, 1), dtype=torch.float64, **more):
    torch.manual_seed(0)
    loads, responses = (torch.randn(*batch, 4, count, *grid.shape, dtype=dtype) for count in reversed(components))
    return nipde.Pairs(grid, loads, responses, **more)


def same(one, other):
    assert one.grid == other.grid
    for name in FIELDS:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, torch.Tensor):
            assert torch.equal(mine, theirs), name
            assert mine.dtype == theirs.dtype
        else:
            assert mine == theirs, name


CASES = {
    "line": some_pairs(LINE),
    "plane-2-3": some_pairs(PLANE, components=(2, 3), dtype=torch.float32, noise=0.25),
    "space": some_pairs(SPACE, load_noise=0.5),
    "batch": some_pairs(PLANE, batch=(2,), noise=torch.tensor([0.1, 0.0], dtype=torch.float64)),
    "mask": some_pairs(PLANE, mask=torch.rand(4, 1, 8, 7) > 0.3),
}


@pytest.mark.parametrize("case", CASES)
def test_pairs_come_back_as_they_were(case):
    same(CASES[case], from_xarray(to_xarray(CASES[case])))


@pytest.mark.parametrize("case", CASES)
def test_pairs_come_back_from_a_netcdf_file(case, tmp_path):
    to_xarray(CASES[case]).to_netcdf(tmp_path / "pairs.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "pairs.nc", engine="h5netcdf") as read:
        same(CASES[case], from_xarray(read))


def test_axes_in_another_order_and_without_components_are_understood():
    pairs = CASES["space"]
    dataset = to_xarray(pairs).isel(load_component=0).transpose("z", "pair", "x", ..., "y")
    same(pairs, from_xarray(dataset))


def test_a_measurement_brings_units_and_origin():
    measurement = nipde.read(nipde.sample())
    dataset = to_xarray(measurement)
    assert (dataset.x.units, dataset.loads.units, dataset.responses.units) == (
        measurement.units.length, measurement.units.load, measurement.units.response,
    )  # fmt: skip
    assert float(dataset.x[0]) == measurement.origin[0]
    same(from_xarray(dataset), nipde.Pairs(
        measurement.pairs.grid, measurement.pairs.loads, measurement.pairs.responses,
        measurement.pairs.mask.expand_as(measurement.pairs.responses), measurement.pairs.noise,
    ))  # fmt: skip


def test_a_cut_axis_is_no_grid():
    dataset = to_xarray(CASES["plane-2-3"]).isel(x=slice(0, 5))
    with pytest.raises(PairsError) as error:
        from_xarray(dataset)
    assert error.value.got == "0.742857"
    dataset.x.attrs = {"boundary": "neumann"}
    found = from_xarray(dataset).grid.axes[0]
    assert (found.nodes, found.boundary) == (5, Neumann())
    assert found.length == pytest.approx(1.3 * 4 / 7)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda d: d.rename(loads="forces"), "got no loads"),
        (lambda d: d.rename(x="east", y="north"), "axes named x, y, z"),
        (lambda d: d.assign_coords(x=d.x**2), "coordinate x is no axis"),
        (lambda d: d.isel(x=slice(None, None, -1)), "coordinate x is no axis"),
        (lambda d: d.assign_coords(x=d.x.assign_attrs(boundary="fluffy")), "boundary fluffy"),
    ],
)
def test_what_is_no_dataset_of_pairs_is_refused(change, what):
    with pytest.raises(PairsError, match=what):
        from_xarray(change(to_xarray(CASES["plane-2-3"])))


def test_predictions_have_labels_and_bands():
    measurement = nipde.read(nipde.sample())
    kernel = nipde.load("darcy-two-phase")(measurement.pairs)
    loads = measurement.pairs.loads[:3]
    found = predictions(kernel, loads, units=measurement.units, band=0.9)
    np.testing.assert_array_equal(found.responses, kernel @ loads)
    assert found.responses.dims == ("pair", "response_component", "x", "y")
    assert found.responses.units == found.low.units == measurement.units.response
    assert bool(((found.low <= found.responses) & (found.responses <= found.high)).all())
    assert found.attrs["band"] == 0.9
    peak = found.responses.isel(pair=0, response_component=0).sel(x=45, y=45, method="nearest")
    assert float(peak) == float((kernel @ loads)[0, 0, 10, 10])
    with pytest.raises(PairsError) as error:
        predictions(nipde.Ridge()(measurement.pairs), loads, band=0.9)
    assert error.value.expected == "a kernel with bands"


@pytest.mark.slow
def test_the_coefficient_has_its_unit(tmp_path):
    found = nipde.discover(nipde.read(nipde.sample()), nipde.load("darcy-two-phase"))
    dataset = discovery_dataset(found)
    assert dataset.coefficient.units == dataset.coefficient_high.units == found.material.unit
    assert (dataset.phase.units, dataset.x.units) == ("1", found.measurement.units.length)
    np.testing.assert_array_equal(dataset.coefficient, found.material.values)
    assert dataset.attrs["statements"].splitlines() == list(statements(found))
    dataset.to_netcdf(tmp_path / "found.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "found.nc", engine="h5netcdf") as read:
        xr.testing.assert_identical(read.load(), dataset)


# Archives


@pytest.fixture(scope="module", params=[DarcyRecipe, AdvectionRecipe, "shared"])
def archive(request, tmp_path_factory):
    recipe = DarcyRecipe(nodes=11, pairs=5, shared_loads=True) if request.param == "shared" else request.param(11, 5)
    return generate(Plan(recipe, systems=10, seed=3), tmp_path_factory.mktemp("data") / "it", workers=1)


def test_an_archive_is_a_dataset_with_all_that_is_in_it(archive):
    dataset, systems = open_xarray(archive), archive[:]
    for name in ("loads", "responses", "hidden"):
        stored = dataset[name].to_numpy()
        np.testing.assert_array_equal(np.broadcast_to(stored, getattr(systems, name).shape), getattr(systems, name))
    np.testing.assert_array_equal(dataset.seed, systems.seed)
    np.testing.assert_array_equal(dataset.residual, systems.diagnostics["residual"])
    for name, values in systems.parameters.items():
        np.testing.assert_array_equal(dataset[name], values)
    assert list(dataset.hidden_component.values) == list(archive.quantities.hidden.components)
    assert dataset.responses.units == archive.quantities.response.unit
    assert dataset.responses.long_name == archive.quantities.response.name
    assert dataset.attrs["digest"] == archive.digest
    assert list(np.flatnonzero(dataset.part == "test")) == list(archive.indices("test"))


def test_a_system_of_a_dataset_is_pairs(archive):
    one = open_xarray(str(archive.storage.address)).isel(system=4)
    one = one.isel(load_set=0) if "load_set" in one.dims else one
    found = from_xarray(one)
    assert found.grid == archive.grid
    np.testing.assert_array_equal(found.loads, archive[4].loads)
    np.testing.assert_array_equal(found.responses, archive[4].responses)


def test_opening_reads_no_values_and_reading_checks_them(tmp_path):
    made = generate(Plan(DarcyRecipe(7, 5), systems=4, seed=3), tmp_path / "it", workers=1)
    for key in made.manifest.files:
        if key.startswith("responses/c"):
            (tmp_path / "it" / key).unlink()
    dataset = open_xarray(tmp_path / "it")
    assert dataset.responses.shape == (4, 5, 1, 7, 7)
    dataset.loads.load()
    with pytest.raises(IntegrityError, match="missing"):
        dataset.responses.load()


def test_a_batch_of_units_may_be_given():
    dataset = to_xarray(CASES["line"], units=Units("mm", "N/mm^2", "K"))
    assert (dataset.x.units, dataset.loads.units, dataset.responses.units) == ("mm", "N/mm^2", "K")
