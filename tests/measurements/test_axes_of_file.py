import csv
import json

import h5py
import meshio
import numpy as np
import pytest
import xarray

import nipde
from nipde.errors import MeasurementError
from nipde.grid import Axis, Grid
from nipde.measurements.description import Description
from nipde.measurements.outline import PartDescription
from nipde.physics.darcy import Darcy

GRID = Grid((Axis(5, 4.2), Axis(4, 3.3), Axis(6, 5.5)))
AXES = dict(zip("xyz", (axis.coordinates for axis in GRID.axes), strict=True))
UNITS = {"x": "m", "y": "m", "z": "m", "load": "W/m^3", "response": "K"}


def fields(grid=GRID, pairs=3):
    loads = np.random.default_rng(0).standard_normal((pairs, *grid.shape))
    return loads, Darcy(grid, np.ones(grid.shape)).solve(loads)


def as_npz(path, loads, responses):
    np.savez(path / "block.npz", **AXES, loads=loads, responses=responses)
    return path / "block.npz"


def as_hdf5(path, loads, responses):
    with h5py.File(path / "block.h5", "w") as file:
        for name, values in {**AXES, "loads": loads, "responses": responses}.items():
            file[name] = values
    return path / "block.h5"


def as_netcdf(path, loads, responses):
    variables = {"loads": (("pair", *"xyz"), loads), "responses": (("pair", *"xyz"), responses)}
    xarray.Dataset(variables, coords=AXES).to_netcdf(path / "block.nc", engine="h5netcdf")
    return path / "block.nc"


def as_table(path, loads, responses):
    nodes = list(np.ndindex(GRID.shape))
    rows = [
        (pair + 1, *(x[i] for x, i in zip(AXES.values(), node, strict=True)), loads[pair][node], responses[pair][node])
        for pair in range(len(loads))
        for node in map(tuple, np.random.default_rng(pair).permutation(nodes))
    ]
    with (path / "block.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("pair", *"xyz", "load", "response"), *rows])
    return path / "block.csv"


def as_vtk(path, loads, responses):
    points = np.stack([x.ravel() for x in GRID.coordinates], axis=1)
    data = {f"{name}_{i + 1}": field.ravel() for name, all_ in (("load", loads), ("response", responses))
            for i, field in enumerate(all_)}  # fmt: skip
    meshio.Mesh(points, [("vertex", np.arange(len(points))[:, None])], point_data=data).write(path / "block.vtu")
    return path / "block.vtu"


@pytest.mark.parametrize("write", [as_npz, as_hdf5, as_netcdf, as_table, as_vtk])
def test_a_box_is_read_from_every_kind_of_file(tmp_path, write):
    loads, responses = fields()
    found = nipde.read(write(tmp_path, loads, responses), units=UNITS)
    assert found.pairs.grid.shape == GRID.shape
    np.testing.assert_allclose([axis.length for axis in found.pairs.grid.axes], [4.2, 3.3, 5.5])
    np.testing.assert_allclose(found.pairs.loads[:, 0], loads, rtol=1e-12)
    np.testing.assert_allclose(found.pairs.responses[:, 0], responses, rtol=1e-12, atol=1e-15)
    assert found.units.coefficient == "W/K/m"
    assert [note for note in found.notes if note.kind == "warning"] == []


@pytest.mark.parametrize("order", ["xyz", "zyx", "yzx"])
def test_the_order_of_axes_is_read_from_the_vectors(tmp_path, order):
    loads, responses = fields()
    turned = [field.transpose(0, *("xyz".index(name) + 1 for name in order)) for field in (loads, responses)]
    found = nipde.read(as_npz(tmp_path, *turned), units=UNITS)
    np.testing.assert_array_equal(found.pairs.responses[:, 0], responses)


def test_a_cube_has_three_axes_and_gaps_and_noise(tmp_path):
    cube = Grid.uniform(5, dimension=3)
    loads, responses = fields(cube)
    responses[1, 2, 3, 1] = np.nan
    x = cube.axes[0].coordinates
    np.savez(
        tmp_path / "cube.npz", x=x, y=x, z=x, loads=loads, responses=responses, noise=0.01, units=json.dumps(
            {"x": "m", "y": "m", "z": "m", "loads": "W/m^3", "responses": "K"})
    )  # fmt: skip
    found = nipde.read(tmp_path / "cube.npz")
    assert found.pairs.grid.shape == (5, 5, 5)
    assert np.argwhere(~found.pairs.mask[:, 0].numpy()).tolist() == [[1, 2, 3, 1]]
    assert float(found.pairs.noise) == 0.01


def test_a_description_of_three_axes(tmp_path):
    loads, responses = fields()
    np.savez(tmp_path / "block.npz", loads=loads.swapaxes(1, 3), responses=responses.swapaxes(1, 3))
    (tmp_path / "block.toml").write_text(
        'files = ["block.npz"]\naxes = "zyx"\nbox = [[0, 4], [0, 3], [1, 6]]\n'
        'boundary = ["dirichlet", "neumann", "dirichlet"]\n'
        '[units]\nx = "m"\ny = "m"\nz = "m"\nload = "W/m^3"\nresponse = "K"\n'
    )
    found = nipde.read(tmp_path / "block.toml")
    np.testing.assert_array_equal(found.pairs.loads[:, 0], loads)
    assert found.origin == (0.0, 0.0, 1.0)
    assert [axis.boundary.name for axis in found.pairs.grid.axes] == ["dirichlet", "neumann", "dirichlet"]


def test_scattered_points_in_space_are_interpolated(tmp_path):
    rng = np.random.default_rng(0)
    points = np.vstack([rng.uniform(0, 1, (300, 3)), np.stack(np.meshgrid(*[[0, 1]] * 3), -1).reshape(-1, 3)])
    linear = points @ [1.0, 2.0, 3.0]
    columns = dict(zip("xyz", points.T, strict=True), load_1=linear, load_2=-linear, response_1=linear)
    np.savez(tmp_path / "points.npz", **columns, response_2=linear)
    described = Description(coordinates=("x", "y", "z"), nodes=(5,), boundary=("neumann",))
    found = nipde.read(tmp_path / "points.npz", units=UNITS, description=described)
    x, y, z = found.pairs.grid.coordinates
    np.testing.assert_allclose(found.pairs.loads[0, 0], x + 2 * y + 3 * z, atol=1e-9)
    assert "output error" not in found.interpretation()


def test_the_height_of_a_surface_is_no_axis(tmp_path):
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(5.0), np.arange(4.0), indexing="ij"))
    table = {"x": x, "y": y, "z": np.sin(x), "load": np.ones(20), "response": np.ones(20)}
    np.savez(tmp_path / "shell.npz", **table)
    found = nipde.read(tmp_path / "shell.npz", units=UNITS)
    assert found.pairs.grid.dimension == 2
    assert any("differ in z alone" in note.text for note in found.notes if note.kind == "warning")
    np.savez(tmp_path / "plane.npz", **{**table, "z": np.zeros(20)})
    assert "differ in z" not in nipde.read(tmp_path / "plane.npz", units=UNITS).interpretation()
    described = Description(response=("z",), boundary=("neumann",))
    assert nipde.read(tmp_path / "shell.npz", units=UNITS, description=described).pairs.grid.dimension == 2


def test_an_outline_over_three_axes_needs_its_heights(tmp_path):
    path, outline = as_npz(tmp_path, *fields()), tmp_path / "plate.csv"
    outline.write_text("x,y\n1,1\n2,1\n2,2\n1,2\n", encoding="utf-8")
    with pytest.raises(MeasurementError) as error:
        nipde.read(path, units=UNITS, outline=outline, parts={"left": PartDescription("dirichlet")})
    assert error.value.expected == "the two ends along z"
    assert "outline_heights" in error.value.remedy
