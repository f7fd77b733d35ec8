import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

import nipde
from nipde.data.plan import Plan
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.errors import MeasurementError, PairsError
from nipde.measurements.description import Description
from nipde.measurements.parse import Raw
from nipde.measurements.read import interpret, read
from nipde.measurements.samples import sample, sample_truth
from tests.measurements.refused import refused

UNITS = {"x": "mm", "load": "N/mm^2", "response": "mm"}
X, Y = np.linspace(0, 3.6, 9), np.linspace(1, 2.5, 6)


def fields(pairs=3, seed=0):
    rng = np.random.default_rng(seed)
    bump = np.outer(np.sin(np.pi * X / 3.6), np.sin(np.pi * (Y - 1) / 1.5))
    loads = rng.standard_normal((pairs, 9, 6)) + 2
    return loads, bump * rng.uniform(0.1, 0.2, (pairs, 1, 1)) * (1 + 0.1 * rng.random((pairs, 9, 6)))


def raw(arrays, *, units=None, valid=None, format="npz", name="a.npz"):
    return Raw(Path(name), format, "0" * 64, arrays, units or {}, valid)


def interpreted(arrays, **keys):
    return interpret([raw(arrays)], Description(**{"units": UNITS, **keys}))


def warnings(measurement):
    return [note.text for note in measurement.notes if note.kind == "warning"]


def test_arrays_on_vectors_are_taken_as_they_are():
    loads, responses = fields()
    found = interpreted({"x": X, "y": Y, "loads": loads, "responses": responses})
    np.testing.assert_array_equal(found.pairs.loads[:, 0], loads)
    np.testing.assert_array_equal(found.pairs.responses[:, 0], responses)
    assert found.pairs.mask is None
    assert found.pairs.loads.dtype == torch.float64
    assert found.origin == (0.0, 1.0)
    assert [axis.length for axis in found.pairs.grid.axes] == [3.6, 1.5]
    assert found.units.coefficient == "N/mm"
    assert warnings(found) == []


@pytest.mark.parametrize("turn", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("rows_first", [False, True])
def test_order_and_direction_of_axes_are_read_from_the_vectors(turn, rows_first):
    loads, responses = fields()
    step = [-1 if turned else 1 for turned in turn]
    cut = (slice(None), slice(None, None, step[0]), slice(None, None, step[1]))
    arrays = {"loads": loads[cut], "responses": responses[cut]}
    if rows_first:
        arrays = {name: array.swapaxes(1, 2) for name, array in arrays.items()}
    found = interpreted({"x": X[:: step[0]], "y": Y[:: step[1]], **arrays})
    np.testing.assert_array_equal(found.pairs.responses[:, 0], responses)
    assert f"arrays run over ({'y, x' if rows_first else 'x, y'})." in found.interpretation()


def test_a_square_is_taken_as_x_y_and_says_so():
    square = np.random.default_rng(0).standard_normal((2, 9, 9))
    arrays = {"x": X, "y": X, "loads": square, "responses": square}
    assert "sizes do not tell" in interpreted(arrays).interpretation()
    turned = interpreted(arrays, axes="yx")
    np.testing.assert_array_equal(turned.pairs.responses[:, 0], square.swapaxes(1, 2))


def test_components_meshes_and_single_fields():
    loads, responses = fields()
    both = np.stack([responses, 2 * responses], axis=1)
    mesh_x, mesh_y = np.meshgrid(X, Y, indexing="ij")
    found = interpreted({"x": mesh_x, "y": mesh_y, "loads": loads, "responses": both})
    assert found.pairs.components == (2, 1)
    np.testing.assert_array_equal(found.pairs.responses, both)
    by_name = interpreted({"x": X, "y": Y, "loads": loads, "U": responses, "V": 2 * responses})
    np.testing.assert_array_equal(by_name.pairs.responses, both)
    single = interpreted({"x": X, "y": Y, "load": loads[0], "response": responses[0]})
    assert single.pairs.count == 1
    assert any("One pair" in text for text in warnings(single))


def test_weights_for_one_component_say_so_clearly():
    loads, responses = fields()
    two = interpreted({"x": X, "y": Y, "loads": loads, "U": responses, "V": responses})
    with pytest.raises(PairsError, match=r"components \(1, 1\).*\(2, 1\)"):
        nipde.load("darcy-two-phase")(two.pairs)


def test_long_and_wide_tables(tmp_path):
    loads, responses = fields()
    x, y = (axis.ravel() for axis in np.meshgrid(X, Y, indexing="ij"))
    order = np.random.default_rng(1).permutation(3 * len(x))
    long = {
        "pair": np.repeat([1, 2, 3], len(x))[order], "x": np.tile(x, 3)[order], "y": np.tile(y, 3)[order],
        "load": loads.ravel()[order], "response": responses.ravel()[order],
    }  # fmt: skip
    wide = {"x": x, "y": y, **{f"load_{k + 1}": loads[k].ravel() for k in range(3)}}
    wide |= {f"response_{k + 1}": responses[k].ravel() for k in range(3)}
    for table in (long, wide):
        found = interpreted(table)
        np.testing.assert_array_equal(found.pairs.loads[:, 0], loads)
        np.testing.assert_array_equal(found.pairs.responses[:, 0], responses)
    path = tmp_path / "long.csv"
    head = "pair,x [mm],y [mm],load [N/mm^2],response [mm]"
    np.savetxt(path, np.stack(list(long.values()), axis=1), fmt="%.17g", delimiter=",", header=head, comments="")
    np.testing.assert_array_equal(read(path).pairs.responses[:, 0], responses)


@pytest.mark.parametrize("how", ["nan", "mask", "valid", "sentinel", "zeros"])
def test_gaps_come_back_bit_by_bit(how):
    loads, responses = fields()
    there = np.random.default_rng(2).random(responses.shape) > 0.3
    responses[responses == 0] = 1e-9
    mark = {"nan": np.nan, "sentinel": -999.0, "zeros": 0.0}.get(how)
    stored = responses if mark is None else np.where(there, responses, mark)
    arrays = {"x": X, "y": Y, "loads": loads, "responses": stored}
    if how == "mask":
        arrays["mask"] = there.astype(np.int8)
    keys = {"sentinel": {"missing": (-999,)}, "zeros": {"zeros_missing": True}}.get(how, {})
    found = interpret(
        [raw(arrays, valid=there if how == "valid" else None)], Description(units=UNITS, **keys)
    )  # fmt: skip
    np.testing.assert_array_equal(found.pairs.mask[:, 0], there)
    np.testing.assert_array_equal(found.pairs.responses[:, 0], np.where(there, responses, 0))


def test_unmarked_gaps_are_warned_of():
    loads, responses = fields(6)
    there = np.random.default_rng(2).random(responses.shape) > 0.2
    for mark, word in ((-1.0, "missing = -1"), (9999.0, "missing = 9999"), (0.0, "zeros_missing")):
        found = interpreted({"x": X, "y": Y, "loads": loads, "responses": np.where(there, responses, mark)})
        assert any(word in text for text in warnings(found))


def test_units_are_never_guessed():
    loads, responses = fields()
    arrays = {"x": X, "y": Y, "loads": loads, "responses": responses}
    with pytest.raises(MeasurementError) as error:
        interpret([raw(arrays)], Description())
    assert all(f"'{name}'" in error.value.message for name in ("x", "y", "loads", "responses"))
    assert "--units x=mm,load=" in error.value.remedy
    stated = {"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"}
    assert interpret([raw(arrays, units=stated)], Description()).units.response == "mm"
    overridden = interpret([raw(arrays, units=stated)], Description(units={"responses": "um"}))
    assert overridden.units.response == "um"
    assert [note.where for note in overridden.notes if note.kind == "warning"] == [("a.npz", "responses")]


def test_files_in_other_units_are_converted():
    loads, responses = fields()
    first = raw({"x": X, "y": Y, "loads": loads, "responses": responses},
                units={"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"})  # fmt: skip
    second = raw({"x": X / 1e3, "y": Y, "loads": loads * 1e6, "responses": responses * 1e3},
                 units={"x": "m", "y": "mm", "loads": "Pa", "responses": "um"}, name="b.npz")  # fmt: skip
    found = interpret([first, second], Description())
    assert found.pairs.count == 6
    torch.testing.assert_close(found.pairs.responses[3:], found.pairs.responses[:3], rtol=1e-12, atol=0)
    torch.testing.assert_close(found.pairs.loads[3:], found.pairs.loads[:3], rtol=1e-12, atol=0)
    assert [source.name for source in found.sources] == ["a.npz", "b.npz"]


def test_pixels_become_lengths():
    loads, responses = fields()
    arrays = {"x": np.arange(9) * 10.0, "y": np.arange(6) * 10.0, "loads": loads, "responses": responses}
    found = interpreted(arrays, units={"x": "px", "load": "N/mm^2", "response": "px"}, scale="0.05 mm/px")
    assert found.units.length == found.units.response == "mm"
    assert found.pairs.grid.axes[0].length == pytest.approx(4.0)
    np.testing.assert_allclose(found.pairs.responses[:, 0], 0.05 * responses, rtol=1e-14)
    with pytest.raises(MeasurementError) as error:
        interpreted(arrays, units={"x": "px", "load": "N/mm^2", "response": "px"})
    assert "scale=" in error.value.remedy


def test_counted_positions_are_warned_of_unless_they_are_pixels():
    loads, responses = fields()
    arrays = {"x": np.arange(9) * 10.0, "y": np.arange(6) * 10.0, "loads": loads, "responses": responses}
    assert any("pixels taken for mm" in text for text in warnings(interpreted(arrays)))
    units = {"x": "px", "load": "N/mm^2", "response": "mm"}
    assert warnings(interpreted(arrays, units=units, scale="0.1 mm/px")) == []


def test_a_box_stands_in_for_positions():
    loads, responses = fields()
    found = interpreted({"loads": loads, "responses": responses}, box=((0, 3.6), (1, 2.5)))
    np.testing.assert_array_equal(found.pairs.responses[:, 0], responses)
    with pytest.raises(MeasurementError) as error:
        interpreted({"loads": loads, "responses": responses})
    assert "'x'" in error.value.expected
    assert "box" in error.value.remedy


def test_noise_is_stated_in_three_ways():
    loads, responses = fields()
    arrays = {"x": X, "y": Y, "loads": loads, "responses": responses}
    assert interpreted(arrays).pairs.noise is None
    assert interpreted(arrays, noise="2 um").pairs.noise == pytest.approx(0.002)
    size = np.sqrt(np.mean(responses**2))
    assert interpreted(arrays, noise="1 %").pairs.noise == pytest.approx(0.01 * size)
    assert interpreted({**arrays, "noise": np.array([0.3, 0.4])}).pairs.noise == pytest.approx(np.sqrt(0.125))
    for wrong in ({"noise": -1.0}, {"noise": "nan mm"}):
        with pytest.raises(MeasurementError) as error:
            interpreted(arrays, **wrong)
        assert error.value.got in ("-1", "'nan mm'")
    with pytest.raises(MeasurementError) as error:
        interpreted({**arrays, "noise": np.array([0.3, -0.4])})
    assert error.value.got == "-0.4"
    assert interpreted({**arrays, "noise": np.array([-1.0])}, noise=0.5).pairs.noise == 0.5


def test_sides_held_at_other_values_than_0_are_refused():
    loads, responses = fields()
    rng = np.random.default_rng(0)
    head = np.linspace(10.0, 8.0, len(X))[:, None]
    with refused(message="axis x", expected="0 on a Dirichlet", got="10 and 8", remedy="give an outline"):
        interpreted({"x": X, "y": Y, "loads": loads, "responses": responses + head})
    one = responses + (np.arange(len(responses)) == 1)[:, None, None] * head
    with refused(message="pair 2"):
        interpreted({"x": X, "y": Y, "loads": loads, "responses": one + 0.01 * rng.standard_normal(one.shape)})
    free = interpreted(
        {"x": X, "y": Y, "loads": loads, "responses": responses + head}, boundary=["neumann", "dirichlet"]
    )
    assert free.pairs.count == len(responses)


def test_rigid_motion_is_removed_on_request():
    loads, responses = fields()
    x, y = np.meshgrid(X, Y, indexing="ij")
    arrays = {"x": X, "y": Y, "loads": loads, "u": responses + 0.3 - 0.02 * y, "v": responses - 0.1 + 0.02 * x}
    with refused(message="axis x", remedy="rigid_motion"):
        interpreted(arrays)
    shifted = interpreted({**arrays, "u": responses + 0.3, "v": responses - 0.1})
    assert any("should be 0" in text for text in warnings(shifted))
    still = interpreted(arrays, rigid_motion=True)
    assert "Rigid motion removed" in still.interpretation()
    for component in (0, 1):
        assert abs(float(still.pairs.responses[:, component].mean())) < 1e-12


def test_a_description_names_frames_and_loads(tmp_path):
    _, responses = fields(2)
    x, y = (axis.ravel() for axis in np.meshgrid(X, Y, indexing="ij"))
    for k in range(2):
        np.savetxt(tmp_path / f"frame_{k}.csv", np.c_[x, y, responses[k].ravel()], fmt="%.17g", delimiter=",",
                   header="X [mm],Y [mm],w [mm]", comments="")  # fmt: skip
    (tmp_path / "rates.csv").write_text("rate_1,rate_2\n1,0\n0.5,2\n")
    (tmp_path / "experiment.toml").write_text("""
files = ["frame_0.csv", "frame_1.csv"]
response = "w"
amounts = "rates.csv"
[units]
load = "N/mm^2"
[[loads]]
kind = "point"
position = [1.2, 1.7]
amount = "rate_1"
[[loads]]
kind = "gaussian"
centre = [2, 2]
width = 0.5
amount = "rate_2"
""")
    found = read(tmp_path / "experiment.toml")
    np.testing.assert_array_equal(found.pairs.responses[:, 0], responses)
    assert float(found.pairs.grid.integrate(found.pairs.loads)[0, 0]) == pytest.approx(1.0, rel=1e-12)
    assert "Loads are described: 1 point, 1 gaussian." in found.interpretation()
    assert read(tmp_path / "experiment.toml", units={"load": "kPa"}).units.load == "kPa"


def test_images_of_ncorr_have_rows_first(tmp_path):
    u = np.arange(1.0, 26.0).reshape(5, 5)
    frame = {"plot_u_ref_formatted": u, "plot_v_ref_formatted": -u}
    info = {"pixtounits": 0.1, "units": "mm", "spacing": 3.0}
    savemat(tmp_path / "dic.mat", {"data_dic_save": {"displacements": frame, "dispinfo": info}})
    loads = Description.from_dict({"loads": [{"kind": "constant"}], "units": {"load": "N/mm^2"}, "boundary": "neumann"})
    found = read(tmp_path / "dic.mat", description=loads)
    assert found.pairs.grid.axes[0].length == pytest.approx(1.6)
    np.testing.assert_array_equal(found.pairs.responses[0, 0], u.T)


def make_membrane(folder):
    """Write the sample's files anew; the same seed gives the same numbers."""
    recipe = ReferenceDarcyRecipe(pairs=20)
    system, side, pressure = recipe.build(Plan(recipe, 1, 1712).system_seed(0)), 90.0, 0.01
    deflections = pressure * side**2 * system.responses[:, 0].astype(np.float64)
    rng = np.random.default_rng(1712)
    noise = 0.01 * float(np.sqrt(np.mean(deflections**2)))
    # The edge is fixed to a frame: its deflection is known without measuring.
    measured = deflections + noise * rng.standard_normal(deflections.shape) * recipe.grid.unknown
    measured[rng.random(measured.shape) < 0.05] = np.nan
    x, responses = side * recipe.grid.axes[0].coordinates, measured.astype(np.float32)
    pressures = (pressure * system.loads[:, 0]).astype(np.float32)
    units = json.dumps({"x": "mm", "y": "mm", "loads": "N/mm^2", "responses": "mm"})
    noise = np.float64(noise)
    np.savez_compressed(
        folder / "membrane.npz", x=x, y=x, loads=pressures, responses=responses, noise=noise, units=units
    )
    units = json.dumps({"x": "mm", "y": "mm", "b": "N/mm"})
    cells, step = system.fine[0].astype(np.float32), recipe.refine
    at = np.minimum(step * np.arange(recipe.nodes), len(cells) - 1)
    np.savez_compressed(folder / "membrane_truth.npz", x=x, y=x, b=cells[np.ix_(at, at)], cells=cells, units=units)


def test_the_interpretation_tells_the_whole_story():
    loads, responses = fields()
    responses[0, 6, 2] = 1.5
    text = interpreted({"x": X, "y": Y, "loads": loads, "responses": responses}).interpretation()
    for words in ("a.npz: read as npz", "3 pairs; 1 component", "x from 0 to 3.6 mm, 9 nodes, dirichlet",
                  "load N/mm²", "b is in N/mm", "0 % of them missing", "Noise of the responses: not stated",
                  "Largest response of pair 1 at x = 2.7, y = 1.6 mm: 1.5 mm"):  # fmt: skip
        assert words in text


def test_the_sample_reads_without_a_question(tmp_path):
    found = read(sample())
    assert found.pairs.count == 20
    assert found.pairs.grid.shape == (21, 21)
    assert warnings(found) == []
    assert 0.03 < 1 - float(found.pairs.mask.double().mean()) < 0.07
    assert found.units.coefficient == "N/mm"
    assert set(np.unique(sample_truth())) == set(np.unique(sample_truth(cells=True))) == {3.0, 12.0}
    assert sample_truth(cells=True).shape == (160, 160)
    with pytest.raises(MeasurementError) as error:
        sample("plate")
    assert (error.value.expected, error.value.got) == ("one of membrane", "'plate'")
    make_membrane(tmp_path)
    for name in ("membrane.npz", "membrane_truth.npz"):
        with np.load(tmp_path / name) as made, np.load(sample().with_name(name)) as kept:
            for key in kept.files:
                np.testing.assert_array_equal(made[key], kept[key])
    assert json.loads(str(np.load(sample())["units"]))["loads"] == "N/mm^2"


def test_a_vector_is_not_taken_for_pairs(tmp_path):
    x = np.linspace(0, 1, 5)
    fields = {"disp_0": np.zeros((5, 5)), "disp_1": np.ones((5, 5)), "loads": np.ones((1, 5, 5))}
    np.savez(tmp_path / "vector.npz", x=x, y=x, **fields)
    with pytest.raises(MeasurementError) as error:
        read(tmp_path / "vector.npz", response="disp", units=UNITS)
    assert "'disp_0', 'disp_1'" in error.value.remedy


@pytest.mark.parametrize("spoilt", ["x", "y", "both"])
def test_a_table_of_points_on_a_line_is_refused_by_name(tmp_path, spoilt):
    columns = {name: np.arange(6.0) for name in "xyfu"}
    for name in "xy" if spoilt == "both" else spoilt:
        columns[name] = np.full(6, 2.0)
    path = tmp_path / "line.csv"
    path.write_text("\n".join(["x,y,f,u", *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]))
    with pytest.raises(MeasurementError) as error:
        read(path, units=UNITS, response="u", load="f")
    assert error.value.message.startswith("line.csv: ")
    assert error.value.got.endswith("= 2 at all 6 points")


def test_rows_without_positions_are_refused_where_a_pair_has_no_others():
    columns = {"x": np.array([0.0, 1, 2] * 3), "y": np.repeat([0.0, 1, 2], 3), "f": np.ones(9), "u": np.arange(9.0)}
    twice = {name: np.tile(column, 2) for name, column in columns.items()}
    twice["pair"] = np.repeat([4, 7], 9)
    keys = {"response": ("u",), "load": ("f",)}
    assert interpreted(twice, **keys).pairs.count == 2
    twice["x"][9:] = np.nan
    with pytest.raises(MeasurementError) as error:
        interpreted(twice, **keys)
    assert "pair 2" in error.value.expected
    assert error.value.got == "none in 9 rows"
    with pytest.raises(MeasurementError) as error:
        interpreted({**columns, "x": np.full(9, np.nan)}, **keys)
    assert error.value.got == "none in 9 rows"


def test_what_is_said_of_many_files_is_said_once():
    loads, responses = fields()
    arrays = {"x": X, "y": Y, "loads": loads, "responses": responses.astype(np.float16)}
    found = interpret([raw(arrays, name=f"{k}.npz") for k in range(4)], Description(units=UNITS))
    halves = [note for note in found.notes if "half precision" in note.text]
    assert [note.where for note in halves] == [("0.npz", "responses")]
    assert "3 more" in halves[0].text


def test_the_columns_of_each_role_are_named():
    loads, responses = fields()
    named = interpreted({"x": X, "y": Y, "p": loads, "w": responses}, load=("p",), response=("w",))
    assert "a.npz: positions in x, y; loads in p; responses in w." in named.interpretation()
