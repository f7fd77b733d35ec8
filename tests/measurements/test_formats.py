import json

import h5py
import meshio
import numpy as np
import pytest
import scipy.io
import xarray

from nipde.measurements.parse import parse
from tests.measurements.refused import refused


def arrays(path, **options):
    return parse(path, **options).arrays


class TestNpz:
    def test_arrays_units_and_attributes(self, tmp_path):
        given = {"f": np.arange(3, dtype=np.float32), "i": np.arange(4).reshape(2, 2), "b": np.array([True, False])}
        given["big"] = np.arange(3.0).astype(">f8")
        given["column_major"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        units = np.array(json.dumps({"f": "mm"}))
        np.savez(tmp_path / "x.npz", **given, units=units, name=np.array("plate"), scale=2.0)
        raw = parse(tmp_path / "x.npz")
        assert raw.format == "npz"
        assert raw.units == {"f": "mm"}
        assert raw.attributes == {"name": "plate", "scale": 2.0}
        for name, array in given.items():
            np.testing.assert_array_equal(raw.arrays[name], array)
            assert raw.arrays[name].dtype == array.dtype.newbyteorder("=")

    def test_arrays_can_be_written_to(self, tmp_path):
        np.savez(tmp_path / "x.npz", x=np.zeros(3))
        arrays(tmp_path / "x.npz")["x"][0] = 1

    def test_empty_arrays_keep_their_shape(self, tmp_path):
        np.savez(tmp_path / "x.npz", x=np.zeros((0, 3)), y=np.zeros(2))
        assert arrays(tmp_path / "x.npz")["x"].shape == (0, 3)


class TestCsv:
    @pytest.mark.parametrize(
        "text",
        [
            "x [mm],load (N),n\n1.5,2e3,\n,NaN,n/a\n",
            "x [mm];load (N);n\n1,5;2000;\n;NaN;n/a\n",
            "x, mm;load,N;n\n1.5;2000;\n;NaN;n/a\n",
            "x [mm]\tload (N)\tn\n1.5\t2000\t\n\tNaN\tn/a\n",
            "# a comment\n\n x [mm] , load (N) , n \r\n1.5,2000, \r\n , nan , N/A \r\n\r\n",
            '"x [mm]", "load,N", "n",\n1.5, "2000", ,\n, , ,\n',
        ],
        ids=["comma", "decimal comma", "unit after comma", "tab", "spaces and blank lines", "quoted"],
    )
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
    def test_ways_to_write_one_table(self, tmp_path, text, encoding):
        (tmp_path / "x.csv").write_bytes(text.encode(encoding))
        raw = parse(tmp_path / "x.csv")
        assert raw.format == "csv"
        assert raw.units == {"x": "mm", "load": "N"}
        for name, column in {"x": [1.5, np.nan], "load": [2000, np.nan], "n": [np.nan, np.nan]}.items():
            np.testing.assert_array_equal(raw.arrays[name], column)

    def test_latin_letters(self, tmp_path):
        (tmp_path / "x.csv").write_bytes("Größe [µm]\n1\n".encode("latin-1"))
        assert parse(tmp_path / "x.csv").units == {"Größe": "µm"}

    @pytest.mark.parametrize(
        ("text", "message", "fields"),
        [
            ("x,u\n1,2\n\n1,abc\n", "column 'u', row 4", {"got": "'abc'", "remedy": "empty"}),
            ("x,u\n1,2\n1\n", "row 3", {"expected": "2 columns", "got": "1"}),
            ("x,u\n1,2,3\n", "row 2", {"expected": "2 columns", "got": "3"}),
            ("1,2\n3,4\n", "line 1", {"got": "'1 | 2'"}),
            ("x,x\n3,4\n", "line 1", {"expected": "each once"}),
            ("x,,u\n3,4,5\n", "line 1", {"got": "'x |  | u'"}),
            ("x;u\n1.5;2,5\n", "", {"expected": "decimal commas or decimal points", "got": "both"}),
            ("x,u\n1_000,2\n", "column 'x', row 2", {"got": "'1_000'"}),
            ('x,u\n"1,5",2\n', "column 'x', row 2", {"got": "'1,5'", "remedy": "point"}),
            ("pair,u\ntest A,2\n", "column 'pair', row 2", {"got": "'test A'", "remedy": "1, 2, 3"}),
            ("", "", {"expected": "names"}),
            ("x,u\n", "", {"expected": "numbers below the names", "got": "none"}),
            ("# only\n", "", {"got": "comments"}),
        ],
    )
    def test_a_wrong_cell_is_named(self, tmp_path, text, message, fields):
        (tmp_path / "x.csv").write_text(text)
        with refused(message=f"x.csv: {message}" if message else "x.csv", **fields):
            parse(tmp_path / "x.csv")


class TestVic:
    def test_pixels_and_lost_points(self, tmp_path):
        (tmp_path / "x.csv").write_text(
            '"X [mm]", "Y [mm]", "U", "V", "x", "y", "u", "v", "sigma [pixel]"\n'
            "1, 2, 0.1, 0.2, 10, 20, 1, 2, 0.01\n0, 0, 0, 0, 15, 20, 0, 0, -1\n"
        )
        raw = parse(tmp_path / "x.csv")
        assert raw.format == "vic"
        assert raw.units == {"X": "mm", "Y": "mm", "x": "px", "y": "px", "u": "px", "v": "px", "sigma": "px"}
        np.testing.assert_array_equal(raw.valid, [True, False])
        np.testing.assert_array_equal(raw.arrays["X"], [1, 0])

    def test_other_units_are_not_vic(self, tmp_path):
        (tmp_path / "x.csv").write_text("x [mm],y [mm],u [mm],v [mm],sigma\n1,2,3,4,5\n")
        assert parse(tmp_path / "x.csv").format == "csv"

    def test_format_overrides(self, tmp_path):
        (tmp_path / "x.csv").write_text("x,y,u,v,sigma\n1,2,3,4,-1\n")
        assert parse(tmp_path / "x.csv").format == "vic"
        assert parse(tmp_path / "x.csv", format="csv").valid is None
        (tmp_path / "y.csv").write_text("x,y\n1,2\n")
        with refused(expected="sigma", got="x, y"):
            parse(tmp_path / "y.csv", format="vic")


class TestMatchID:
    SINCE = (
        "Coordinates.Image X [Pixel],Coordinates.Image Y [Pixel],coor.X [mm],coor.Y [mm],"
        "disp.Horizontal Displacement U [mm],disp.Vertical Displacement V [mm],strain.Strain-global frame: Exx [ ]\n"
        "100,200,1.5,2.5,0.01,-0.02,0.001\n110,200,2.5,2.5,NaN,NaN,NaN\n"
    )

    def test_names_of_today(self, tmp_path):
        (tmp_path / "x.csv").write_text(self.SINCE)
        raw = parse(tmp_path / "x.csv")
        assert raw.format == "matchid"
        assert raw.units == {"x": "px", "y": "px", "X": "mm", "Y": "mm", "U": "mm", "V": "mm"}
        np.testing.assert_array_equal(raw.valid, [True, False])
        np.testing.assert_array_equal(raw.arrays["V"], [-0.02, np.nan])
        assert "strain.Strain-global frame: Exx" in raw.arrays

    def test_pictures_alone_are_in_pixels(self, tmp_path):
        header, row, _ = self.SINCE.replace("coor.X [mm],coor.Y [mm],", "").replace("[mm]", "[Pixel]").splitlines()
        (tmp_path / "x.csv").write_text(f"{header}\n{row.replace('1.5,2.5,', '')}\n")
        assert parse(tmp_path / "x.csv").units == dict.fromkeys(("x", "y", "U", "V"), "px")

    def test_names_before_2024_have_no_units(self, tmp_path):
        (tmp_path / "x.csv").write_text("x_pic,y_pic,x,y,z,u,v,w,exx\n100,200,1,2,0,0.1,0.2,0,0.01\n")
        raw = parse(tmp_path / "x.csv")
        assert (raw.format, raw.units) == ("matchid", {"x": "px", "y": "px"})
        assert [float(raw.arrays[name][0]) for name in "XYUV"] == [1, 2, 0.1, 0.2]

    def test_others_are_refused(self, tmp_path):
        (tmp_path / "x.csv").write_text("x,y\n1,2\n")
        with refused(expected="U, V", got="x, y"):
            parse(tmp_path / "x.csv", format="matchid")


class TestAramis:
    TEXT = (
        "# Process data:\n# specimen                      : plate 3\n####\n# SIGNALS:\n"
        "# Force                         : analog_input        : 12.5\n"
        "# Trigger                       : value_element       : on\n####\n"
        "#        ID;         x_undef [mm];         y_undef [mm];         z_undef [mm];   u [mm];   v [mm];   w [mm];"
        "  epsx [%]\n"
        "         1;   1.5;   2.5;   0.1;   0.01;   0.02;   0.0;  0.5\n"
        "         2;   2.5;   2.5;   nan;  nan;   nan;  nan;  nan\n"
    )

    def test_a_stage_with_its_force(self, tmp_path):
        (tmp_path / "x.txt").write_text(self.TEXT)
        raw = parse(tmp_path / "x.txt")
        assert raw.format == "aramis"
        assert raw.units == {**dict.fromkeys("XYZUVW", "mm"), "epsx": "%"}
        np.testing.assert_array_equal(raw.valid, [True, False])
        np.testing.assert_array_equal(raw.arrays["Force"], [12.5, 12.5])
        assert "Trigger" not in raw.arrays
        np.testing.assert_array_equal(raw.arrays["X"], [1.5, 2.5])

    def test_a_table_below_other_comments_is_none(self, tmp_path):
        (tmp_path / "x.txt").write_text("# a; b\nx;u\n1;2\n")
        assert parse(tmp_path / "x.txt").format == "csv"

    def test_a_cell_is_named_by_its_line(self, tmp_path):
        (tmp_path / "x.txt").write_text(self.TEXT.replace("2.5;   2.5;   nan", "2.5;   word;   nan"))
        with refused(message="column 'y_undef', row 10", got="'word'"):
            parse(tmp_path / "x.txt")


class TestDice:
    NAMES = "COORDINATE_X COORDINATE_Y DISPLACEMENT_X DISPLACEMENT_Y SIGMA GAMMA BETA STATUS_FLAG UNCERTAINTY"
    ROWS = ("1 2 0.1 0.2 0.01 0 0 4 0.1", "2 2 0 0 -1 -1 -1 4 -1", "3 2 0 0 0.01 0 0 8 0", "4 2 0.1 0.2 0.01 0 0 0 0")

    @pytest.mark.parametrize("separator", [",", " "])
    def test_lost_points(self, tmp_path, separator):
        lines = ["***", "*** Subset size: 27", "***", self.NAMES, *self.ROWS]
        (tmp_path / "x.txt").write_text(
            "\n".join(line.replace(" ", separator) if "*" not in line else line for line in lines)
        )
        raw = parse(tmp_path / "x.txt")
        assert raw.format == "dice"
        assert raw.units == dict.fromkeys(self.NAMES.split()[:4], "px")
        assert raw.attributes == {"Subset size": "27"}
        np.testing.assert_array_equal(raw.valid, [True, False, False, True])
        np.testing.assert_array_equal(raw.arrays["UNCERTAINTY"], [0.1, -1, 0, 0])


def write_mat73(path, variables):
    """As MATLAB lays it out, for numbers, texts, structures and cells."""

    def put(group, name, value, references):
        if isinstance(value, dict):
            for key, field in value.items():
                put(group.require_group(name), key, field, references)
            return
        if isinstance(value, list):
            cell = group.create_dataset(name, (len(value), 1), dtype=h5py.ref_dtype)
            for number, one in enumerate(value):
                put(references, f"{name}{number}", one, references)
                cell[number, 0] = references[f"{name}{number}"].ref
            cell.attrs["MATLAB_class"] = np.bytes_("cell")
            return
        kind = "char" if isinstance(value, str) else "logical" if np.asarray(value).dtype == bool else "double"
        numbers = np.array([[ord(letter)] for letter in value], np.uint16) if kind == "char" else np.atleast_2d(value).T
        data = numbers.astype(np.uint8) if kind == "logical" else numbers
        group.create_dataset(name, data=data).attrs["MATLAB_class"] = np.bytes_(kind)

    with h5py.File(path, "w", userblock_size=512) as file:
        references = file.create_group("#refs#")
        for name, value in variables.items():
            put(file, name, value, references)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


WRITERS = {"5": scipy.io.savemat, "7.3": write_mat73}


@pytest.mark.parametrize("version", WRITERS)
class TestMat:
    def test_both_versions_give_the_same(self, tmp_path, version):
        field = np.arange(6.0).reshape(2, 3)
        WRITERS[version](
            tmp_path / "x.mat",
            {"field": field, "x": np.arange(3.0), "mask": field > 2, "scale": 2.0, "material": "steel",
             "units": {"x": "mm", "field": "N/m^2"}, "test": {"t": np.arange(4.0)}},
        )  # fmt: skip
        raw = parse(tmp_path / "x.mat")
        assert raw.format == "mat"
        assert raw.units == {"x": "mm", "field": "N/m^2"}
        assert raw.attributes == {"scale": 2.0, "material": "steel"}
        np.testing.assert_array_equal(raw.arrays["field"], field)
        np.testing.assert_array_equal(raw.arrays["x"], np.arange(3.0))
        np.testing.assert_array_equal(raw.arrays["mask"], field > 2)
        np.testing.assert_array_equal(raw.arrays["test.t"], np.arange(4.0))

    def test_one_unit_for_everything_is_only_noted(self, tmp_path, version):
        WRITERS[version](tmp_path / "x.mat", {"x": np.arange(3.0), "units": "mm"})
        raw = parse(tmp_path / "x.mat")
        assert raw.units == {}
        assert raw.attributes == {"units": "mm"}

    @pytest.mark.parametrize("masked", [True, False])
    def test_ncorr(self, tmp_path, version, masked):
        u = np.array([[0.1, 0.2, 0.0], [0.3, 0.0, 0.0]])
        v = np.array([[0.1, 0.0, 0.0], [0.3, 0.1, 0.0]])
        mask = np.array([[True, True, True], [True, False, False]])
        frames = {"plot_u_ref_formatted": [u, 2 * u], "plot_v_ref_formatted": [v, 2 * v]}
        if masked:
            frames["roi_ref_formatted"] = [{"mask": mask}, {"mask": mask}]
        info = {"pixtounits": 0.05, "units": "mm", "spacing": 4.0, "cutoff_corrcoef": np.array([0.1, 0.3])}
        if version == "5":  # a structure with one element a frame
            stack = np.empty(2, dtype=[(name, object) for name in frames])
            for frame in range(2):
                stack[frame] = tuple(values[frame] for values in frames.values())
        displacements = stack if version == "5" else frames
        WRITERS[version](tmp_path / "x.mat", {"data_dic_save": {"displacements": displacements, "dispinfo": info}})
        raw = parse(tmp_path / "x.mat")
        assert raw.format == "ncorr"
        assert raw.units == {"x": "px", "y": "px", "u": "mm", "v": "mm"}
        assert raw.attributes["pixtounits"] == 0.05
        assert raw.attributes["units"] == "mm"
        assert raw.attributes["cutoff_corrcoef"] == 0.3
        np.testing.assert_array_equal(raw.arrays["x"], [0, 5, 10])
        np.testing.assert_array_equal(raw.arrays["u"], [u, 2 * u])
        np.testing.assert_array_equal(raw.valid[1], mask if masked else (u != 0) | (v != 0))


class TestNcorr:
    def test_before_formatting_displacements_are_in_pixels(self, tmp_path):
        field = np.ones((2, 3))
        data = {"displacements": {"plot_u_dic": field, "plot_v_dic": field, "plot_u_ref_formatted": np.zeros((0, 0))}}
        scipy.io.savemat(tmp_path / "x.mat", {"data_dic_save": {**data, "dispinfo": {"units": "mm", "spacing": 0}}})
        raw = parse(tmp_path / "x.mat")
        assert raw.units["u"] == "px"
        assert raw.attributes["field"] == "plot_u_dic"

    def test_without_displacements_it_is_refused(self, tmp_path):
        scipy.io.savemat(tmp_path / "x.mat", {"data_dic_save": {"dispinfo": {"spacing": 0}}})
        with refused(expected="data_dic_save.displacements"):
            parse(tmp_path / "x.mat")


class TestMuDic:
    def test_fields(self, tmp_path):
        coords = np.random.default_rng(0).normal(size=(1, 2, 3, 4, 5))
        coords[0, 0, 1, 1, 2] = np.nan
        disp = coords - coords[..., :1]
        np.savez(tmp_path / "x.npz", coords=coords, disp=disp)
        raw = parse(tmp_path / "x.npz")
        assert raw.format == "mudic"
        assert raw.units == dict.fromkeys(("x", "y", "ux", "uy"), "px")
        np.testing.assert_array_equal(raw.arrays["y"], coords[0, 1, :, :, 0])
        np.testing.assert_array_equal(raw.arrays["ux"][2], disp[0, 0, :, :, 2])
        assert raw.valid.shape == (5, 3, 4)
        assert raw.valid.sum() == 59

    def test_other_shapes_are_refused(self, tmp_path):
        np.savez(tmp_path / "x.npz", coords=np.zeros((3, 2)), disp=np.zeros((3, 2)))
        with refused(expected="(1, 2, i, j, frames)", got="(3, 2)"):
            parse(tmp_path / "x.npz")
        assert parse(tmp_path / "x.npz", format="npz").arrays["disp"].shape == (3, 2)

    def test_table(self, tmp_path):
        (tmp_path / "x.csv").write_text("id,x,y,ux,uy,true_strain_xx\n0,1,2,0.1,0.2,0\n1,2,2,nan,nan,nan\n")
        raw = parse(tmp_path / "x.csv")
        assert raw.format == "mudic"
        assert raw.units["ux"] == "px"
        np.testing.assert_array_equal(raw.valid, [True, False])


class TestHdf5:
    def test_tree(self, tmp_path):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["a/b/x"] = np.arange(6).reshape(2, 3)
            file["a/b/x"].attrs["units"] = "mm"
            file["flags"] = np.array([True, False])
            file["name"] = "plate"
            file["words"] = ["a", "b"]
            file["again"] = h5py.SoftLink("/a/b/x")
            file.attrs["scale"] = 0.5
        raw = parse(tmp_path / "x.h5")
        assert raw.units == {"a/b/x": "mm"}
        assert raw.attributes == {"scale": 0.5, "name": "plate", "skipped": "again, words"}
        np.testing.assert_array_equal(raw.arrays["a/b/x"], [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_array_equal(raw.arrays["flags"], [True, False])


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
def test_netcdf(tmp_path, engine):
    field = xarray.DataArray([[1.0, np.nan], [3.0, 4.0]], dims=("y", "x"), attrs={"units": "N/m^2"})
    coordinates = {"x": ("x", [0.0, 1.0], {"units": "mm"}), "y": ("y", [0.0, 2.0], {"units": "mm"})}
    dataset = xarray.Dataset({"load": field, "scale": 2.0}, coordinates, {"title": "plate"})
    dataset.to_netcdf(tmp_path / "x.nc", engine=engine, encoding={"load": {"_FillValue": -999.0}})
    raw = parse(tmp_path / "x.nc")
    assert raw.format == "netcdf"
    assert raw.units == {"load": "N/m^2", "x": "mm", "y": "mm"}
    assert raw.attributes == {"title": "plate", "scale": 2.0}
    np.testing.assert_array_equal(raw.arrays["load"], field)
    np.testing.assert_array_equal(raw.arrays["y"], [0, 2])


@pytest.mark.filterwarnings("ignore")
class TestVtk:
    POINTS = np.array([[0, 0, 0], [1, 0, 0], [1, 2, 0], [0, 2, 0]], float)
    CELLS = (("triangle", np.array([[0, 1, 2], [0, 2, 3]])),)

    @pytest.mark.parametrize("name", ["x.vtk", "x.vtu"])
    def test_fields_on_points(self, tmp_path, name):
        data = {"p": np.arange(4.0), "u": np.arange(12.0).reshape(4, 3)}
        meshio.write(tmp_path / name, meshio.Mesh(self.POINTS, self.CELLS, point_data=data))
        found = arrays(tmp_path / name)
        assert list(found) == ["x", "y", "z", "p", "u_0", "u_1", "u_2"]
        np.testing.assert_array_equal(found["y"], [0, 0, 2, 2])
        np.testing.assert_array_equal(found["u_1"], [1, 4, 7, 10])

    def test_fields_on_cells(self, tmp_path):
        meshio.write(tmp_path / "x.vtk", meshio.Mesh(self.POINTS, self.CELLS, cell_data={"k": [np.array([5.0, 6.0])]}))
        found = arrays(tmp_path / "x.vtk")
        np.testing.assert_allclose(found["x"], [2 / 3, 1 / 3])
        np.testing.assert_array_equal(found["k"], [5, 6])

    def test_structured_points(self, tmp_path):
        (tmp_path / "x.vtk").write_text(
            "# vtk DataFile Version 3.0\nplate\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 3 2 1\nORIGIN 0 0 0\n"
            "SPACING 0.5 1 1\nPOINT_DATA 6\nSCALARS p double 1\nLOOKUP_TABLE default\n0 1 2 3 4 5\n"
        )
        found = arrays(tmp_path / "x.vtk")
        np.testing.assert_array_equal(found["x"], [0, 0.5, 1, 0, 0.5, 1])
        np.testing.assert_array_equal(found["p"], np.arange(6))
