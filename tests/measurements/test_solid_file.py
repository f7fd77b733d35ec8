"""Files of tests on a plane solid: units, supports, loads and their directions, gaps; and what is refused."""

import hashlib
import json

import numpy as np
import pytest

from nipde.discretisation.parts import ClampedPart, GripPart, RollerPart
from nipde.errors import MeasurementError, NipdeError
from nipde.estimators.inverse.solid_inversion import SolidInversion
from nipde.measurements.bench import Bench, outward_normal
from nipde.measurements.solid_file import read_solid
from nipde.shape import Shape

#: A plate of 60 × 30 mm.
CORNERS = [(0, 0), (60, 0), (60, 30), (0, 30)]
POINTS = np.stack(np.meshgrid(np.arange(3.5, 60, 6.0), np.arange(2.5, 30, 5.0), indexing="ij"), -1).reshape(-1, 2)
HOLE = Shape.disc((40.0, 15.0), 6.0, vertices=48).rings[0]
MM = {"X": "mm", "Y": "mm", "U": "mm", "V": "mm"}
#: By 20 MPa on a bar of 3000 MPa whose Poisson's ratio is 0: the same by a traction and by a grip.
STRETCHED = np.stack([20 / 3000 * POINTS[:, 0], np.zeros(len(POINTS))], -1)
PULLED = Bench(clamped=("left",), tractions=({"right": "20 MPa"},))


def camera(folder, points=POINTS, moved=STRETCHED, *, name="camera.csv", length=1.0, moves=1.0, lost=()):
    """An export of VIC: pixels of 0.05 mm, and lengths in mm over `length` and `moves`."""
    rows = [
        f"{20 * x!r},{20 * y!r},{20 * u!r},{20 * v!r},{-1 if k in lost else 0.01},"
        f"{x / length!r},{y / length!r},{u / moves!r},{v / moves!r}"
        for k, ((x, y), (u, v)) in enumerate(zip(points.tolist(), moved.tolist(), strict=True))
    ]
    (folder / name).write_text("\n".join(["x,y,u,v,sigma,X,Y,U,V", *rows]) + "\n")
    return folder / name


def outline(folder, corners=CORNERS, *, size=1.0):
    (folder / "plate.csv").write_text("\n".join(["x,y", *(f"{size * x},{size * y}" for x, y in corners)]) + "\n")
    return folder / "plate.csv"


def geojson(folder, corners, *, holes=(), parts=None):
    rings = [[list(map(float, point)) for point in (*ring, ring[0])] for ring in (corners, *holes)]
    features = [{"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": rings}}]
    for name, line in (parts or {}).items():
        geometry = {"type": "LineString", "coordinates": line}
        features.append({"type": "Feature", "properties": {"name": name}, "geometry": geometry})
    (folder / "plate.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return folder / "plate.geojson"


def read_plate(folder, bench=PULLED, *, files=None, **more):
    files = [camera(folder)] if files is None else files
    if "outline" not in more:
        more["outline"] = outline(folder)
    return read_solid(files, bench, **{"units": MM, **more})


def warnings_of(found):
    """On the measurement as a whole, not on an array."""
    return [note.text for note in found.notes if note.kind == "warning" and not note.where]


def modulus_of(found):
    """In MPa, at one point: it is the same everywhere."""
    law = SolidInversion(homogeneous=True, material=8, solver=10)(found.tests)
    return float(law.modulus_at(found.tests.points[:1])[0])


# Units


@pytest.mark.parametrize(
    ("length", "moves", "units", "unit"),
    [
        (1.0, 1.0, MM, "mm"),
        (1000.0, 1000.0, {"x": "m", "response": "m"}, "m"),
        (1.0, 0.001, {"X": "mm", "Y": "mm", "U": "um", "V": "um"}, "mm"),
        (1000.0, 1.0, {"X": "m", "Y": "m", "U": "mm", "V": "mm"}, "m"),
    ],
    ids=["mm", "m", "um", "m and mm"],
)
def test_files_of_other_units_say_the_same(tmp_path, length, moves, units, unit):
    file, plate = camera(tmp_path, length=length, moves=moves), outline(tmp_path, size=1 / length)
    found = read_solid([file], PULLED, units=units, outline=plate, noise="0.6 um")
    assert found.length == unit
    size = 1000.0 if unit == "m" else 1.0
    np.testing.assert_allclose(size * found.tests.points, POINTS, rtol=1e-9)
    np.testing.assert_allclose(size * found.tests.readings[0].T, STRETCHED, atol=1e-12)
    assert size * found.tests.noise == pytest.approx(0.0006)
    assert found.tests.loads[0].tractions["right"] == pytest.approx((20.0, 0.0))


def pixels(folder):
    """The part of the export that is in pixels."""
    rows = camera(folder).read_text().splitlines()
    (folder / "pixels.csv").write_text("\n".join(",".join(row.split(",")[:5]) for row in rows) + "\n")
    return folder / "pixels.csv"


def test_pixels_have_a_size(tmp_path):
    found = read_solid([pixels(tmp_path)], PULLED, scale="0.05 mm/px")
    assert found.length == "mm"
    np.testing.assert_allclose(found.tests.points, POINTS, rtol=1e-9)
    np.testing.assert_allclose(found.tests.readings[0].T, STRETCHED, atol=1e-12)
    with pytest.raises(MeasurementError, match="in pixels, expected the size of a pixel"):
        read_solid([tmp_path / "pixels.csv"], PULLED)


def test_the_outline_is_in_the_coordinates_of_the_file(tmp_path):
    plate = outline(tmp_path, size=20)
    found = read_solid([pixels(tmp_path)], PULLED, scale="0.05 mm/px", outline=plate)
    assert found.tests.specimen.shape.region.bounds == pytest.approx((0, 0, 60, 30))


GRIPS = {
    "kN": ({"right": "1.2 kN"}, "2 mm"),
    "thickness in m": ({"right": "1200 N"}, "0.002 m"),
    "no unit of force": ({"right": "1200"}, "2 mm"),
    "vector": ({"right": "1.2 kN : 0 N"}, "0.2 cm"),
}


@pytest.mark.parametrize("kind", GRIPS)
def test_a_force_over_thickness_and_side_is_the_traction(tmp_path, kind):
    force, thickness = GRIPS[kind]
    bench = Bench(clamped=("left",), forces=(force,), thickness=thickness)
    found = read_plate(tmp_path, bench, poisson=0.0, noise="0.0006 mm")
    assert found.tests.loads[0].forces["right"] == pytest.approx((20.0 * 30, 0.0))
    assert modulus_of(found) == pytest.approx(3000, rel=1e-4)


def test_the_modulus_is_the_same_from_a_file_in_metres(tmp_path):
    file, plate = camera(tmp_path, length=1000.0, moves=1000.0), outline(tmp_path, size=0.001)
    more = {"units": {"x": "m", "response": "m"}, "outline": plate, "poisson": 0.0, "noise": "0.0006 mm"}
    grip = Bench(clamped=("left",), forces=({"right": "1.2 kN"},), thickness="2 mm")
    assert [modulus_of(read_solid([file], bench, **more)) for bench in (PULLED, grip)] == pytest.approx(
        [3000, 3000], rel=1e-4
    )
    assert modulus_of(read_plate(tmp_path, poisson=0.0, noise=0.0006)) == pytest.approx(3000, rel=1e-4)


# Directions


def tractions(folder, plate, **loads):
    bench = Bench(clamped=("bottom",), tractions=({name.replace("_", " "): text for name, text in loads.items()},))
    return read_plate(folder, bench, outline=plate).tests.loads[0].tractions


@pytest.mark.parametrize("corners", [CORNERS, CORNERS[::-1]], ids=["to the left", "to the right"])
def test_tension_is_positive_on_every_side(tmp_path, corners):
    found = tractions(tmp_path, outline(tmp_path, corners), left="5 MPa", right="5 MPa", top="-2 MPa")
    assert found["left"] == pytest.approx((-5, 0))
    assert found["right"] == pytest.approx((5, 0))
    assert found["top"] == pytest.approx((0, -2))


@pytest.mark.parametrize("turn", [1, -1])
def test_a_slanted_side_is_pulled_along_its_normal(tmp_path, turn):
    plate = geojson(tmp_path, [(0, 0), (70, 0), (60, 30), (0, 30)][::turn], parts={"slope": [(70, 0), (60, 30)]})
    assert tractions(tmp_path, plate, slope="10 MPa")["slope"] == pytest.approx((30 / 10**0.5, 10 / 10**0.5))


def test_a_side_of_a_notch_is_pulled_into_the_notch():
    notched = Shape.polygon(
        [(0, 0), (9, 0), (9, 9), (6, 9), (6, 3), (3, 3), (3, 9), (0, 9)],
        sides=("bottom", "right", "top", "inner right", "floor", "inner left", "top", "left"),
    )
    assert outward_normal(notched, "inner right") == pytest.approx((-1, 0))
    assert outward_normal(notched, "inner left") == pytest.approx((1, 0))
    assert outward_normal(notched, "floor") == pytest.approx((0, 1))
    assert outward_normal(notched, "top") == pytest.approx((0, 1))  # both pieces of it


def test_a_hole_and_an_arc_need_two_numbers(tmp_path):
    plate = geojson(tmp_path, CORNERS, holes=[HOLE])
    with pytest.raises(MeasurementError, match=r"two numbers, along x and y.*got one number") as caught:
        tractions(tmp_path, plate, hole_1="3 MPa")
    assert caught.value.remedy == "write 120 N : 0 N"
    assert tractions(tmp_path, plate, hole_1="3 MPa : -4 kPa")["hole 1"] == pytest.approx((3, -0.004))
    arc = Shape.disc((0.0, 0.0), 1.0, vertices=256).with_arc("half", 0.0, 0.5).with_arc("nearly straight", 0.6, 0.65)
    with pytest.raises(MeasurementError, match="'half'"):
        outward_normal(arc, "half")
    middle = 2 * np.pi * 0.625
    assert outward_normal(arc, "nearly straight") == pytest.approx((np.cos(middle), np.sin(middle)), abs=1e-3)


def test_vectors_are_along_x_and_y(tmp_path):
    bench = Bench(clamped=("left",), forces=({"right": "0 N : 300 N"},), thickness="2 mm", rotating=("right",))
    found = read_plate(tmp_path, bench)
    assert found.tests.loads[0].forces["right"] == pytest.approx((0, 150))
    assert found.tests.specimen.condition("right") == GripPart(rotates=True)
    assert "force (0, 150) MPa·mm per thickness on right" in found.interpretation()


def test_supports_are_those_of_the_bench(tmp_path):
    plate = geojson(tmp_path, CORNERS, holes=[HOLE])
    bench = Bench(("hole 1",), {"left": "x", "bottom": "y"}, ({"right": "3 N"},), thickness="1 mm")
    found = read_plate(tmp_path, bench, outline=plate, plane="strain", poisson=0.25, uncertain=("motion",))
    specimen = found.tests.specimen
    held = {part: specimen.condition(part) for part in ("hole 1", "left", "bottom", "right")}
    assert held == {"hole 1": ClampedPart(), "left": RollerPart("x"), "bottom": RollerPart("y"), "right": GripPart()}
    assert (found.tests.plane, found.tests.poisson, found.tests.uncertain) == ("strain", 0.25, ("motion",))
    assert "Held: hole 1 (clamped), left (roller), bottom (roller), right (grip)" in found.interpretation()
    assert "Plane strain, Poisson's ratio 0.25; noise of the displacements not stated." in found.interpretation()


# Several tests, gaps, points


def test_points_that_differ_between_files_are_merged(tmp_path):
    first, second = POINTS[:-4], POINTS[6:]
    files = [camera(tmp_path, first, STRETCHED[:-4], name="a.csv")]
    files.append(camera(tmp_path, second[::-1], -STRETCHED[6:][::-1], name="b.csv"))
    bench = Bench(clamped=("left",), tractions=({"right": "20 MPa"}, {"right": "-20 MPa", "top": "1 MPa : 0 MPa"}))
    found = read_plate(tmp_path, bench, files=files).tests
    assert found.readings.shape == (2, 2, len(POINTS))
    assert {tuple(point) for point in found.points.tolist()} == {tuple(point) for point in POINTS.tolist()}
    where = {tuple(point): number for number, point in enumerate(found.points.tolist())}
    order = [where[tuple(point)] for point in POINTS.tolist()]
    wanted = np.stack([STRETCHED.T, -STRETCHED.T])
    wanted[0, :, -4:] = wanted[1, :, :6] = np.nan
    np.testing.assert_allclose(found.readings[:, :, order], wanted, atol=1e-12)
    assert [load.tractions["right"][0] for load in found.loads] == [20, -20]
    assert found.loads[1].tractions["top"] == (1, 0)
    assert "top" not in found.loads[0].tractions


def test_one_load_is_that_of_all_tests_of_a_long_table(tmp_path):
    rows = [
        f"{test},{x},{y},{test * u},{v}"
        for test in (1, 2, 3)
        for (x, y), (u, v) in zip(POINTS.tolist(), STRETCHED.tolist(), strict=True)
    ]
    (tmp_path / "long.csv").write_text("\n".join(["pair,x,y,U,V", *rows]))
    units = {"x": "mm", "response": "mm"}
    found = read_plate(tmp_path, files=[tmp_path / "long.csv"], units=units).tests
    assert [load.tractions for load in found.loads] == [{"right": (20, 0)}] * 3
    np.testing.assert_allclose(found.readings[2, 0], 60 / 3000 * found.points[:, 0], rtol=1e-9)


def test_what_the_camera_lost_is_a_gap(tmp_path):
    lost = (5, 17)
    files = [camera(tmp_path, name="a.csv", lost=lost), camera(tmp_path, name="b.csv")]
    found = read_plate(tmp_path, files=files)
    gaps = np.isnan(found.tests.readings)
    assert {tuple(point) for point in found.tests.points[gaps[0, 0]].tolist()} == {tuple(POINTS[k]) for k in lost}
    assert np.array_equal(gaps[0, 0], gaps[0, 1])
    assert not gaps[1].any()
    assert "gaps: 1.7 %" in found.interpretation()
    alone = read_plate(tmp_path, files=files[:1]).tests
    assert len(alone.points) == len(POINTS) - 2  # nobody saw them
    assert np.isfinite(alone.readings).all()


def test_lost_points_may_be_anywhere(tmp_path):
    """VIC writes 0 for their positions, wherever the origin is."""
    points, lost = POINTS + 100.0, range(0, len(POINTS), 3)
    points[list(lost)] = np.arange(len(lost))[:, None]
    file, plate = camera(tmp_path, points, lost=lost), outline(tmp_path, np.array(CORNERS) + 100)
    seen = np.delete(points, list(lost), axis=0)
    box = read_plate(tmp_path, files=[file], outline=None)
    assert box.tests.specimen.shape.region.bounds == pytest.approx((*seen.min(0), *seen.max(0)))
    found = read_plate(tmp_path, files=[file], outline=plate)
    assert len(found.tests.points) == len(seen)
    assert not any("outside" in text for text in warnings_of(found))


def test_few_points_outside_are_left_out_and_many_refused(tmp_path):
    stray = np.vstack([POINTS, [(70.0, 15.0), (30.0, -4.0)]])
    file = camera(tmp_path, stray, np.vstack([STRETCHED, np.ones((2, 2))]))
    found = read_plate(tmp_path, files=[file])
    assert "2 points lie outside of the outline and were left out." in warnings_of(found)
    assert len(found.tests.points) == len(POINTS)
    assert np.abs(found.tests.readings).max() < 1
    inner = read_plate(tmp_path)
    assert not warnings_of(inner)


@pytest.mark.parametrize("size", [0.001, 1000.0], ids=["m", "um"])
def test_an_outline_of_another_unit_is_refused(tmp_path, size):
    with pytest.raises(MeasurementError, match="do not match") as caught:
        read_plate(tmp_path, outline=outline(tmp_path, size=size))
    assert "same unit" in caught.value.remedy
    assert caught.value.got


def test_an_outline_with_another_origin_is_refused(tmp_path):
    with pytest.raises(MeasurementError, match="do not match") as caught:
        read_plate(tmp_path, outline=outline(tmp_path, np.array(CORNERS) - (20, 0)))
    away = int(np.sum(POINTS[:, 0] > 40))
    assert f"{away} of {len(POINTS)} outside" in caught.value.got
    assert "same origin" in caught.value.remedy


def test_without_an_outline_the_box_is_taken_and_said(tmp_path):
    found = read_plate(tmp_path, outline=None)
    low, high = POINTS.min(0), POINTS.max(0)
    assert found.tests.specimen.shape.region.bounds == pytest.approx((*low, *high))
    (said,) = warnings_of(found)
    assert said.startswith("The specimen is taken as the box around the points, from (3.5, 2.5) to (57.5, 27.5)")
    assert "WARNING: The specimen is taken as the box" in found.interpretation()
    assert found.tests.loads[0].tractions["right"] == (20, 0)


def test_sources_are_the_files(tmp_path):
    files = [camera(tmp_path, name="a.csv"), camera(tmp_path, name="b.csv", moved=2 * STRETCHED)]
    found = read_plate(tmp_path, files=files)
    assert [source.name for source in found.sources] == ["a.csv", "b.csv"]
    assert [source.format for source in found.sources] == ["vic", "vic"]
    assert [source.sha256 for source in found.sources] == [
        hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    ]


@pytest.mark.parametrize("program", ["aramis", "matchid"])
def test_exports_of_other_programs_give_the_same_modulus(tmp_path, program):
    rows = np.hstack([POINTS, STRETCHED]).tolist()
    force = 20 * 30 * 2 / 1000  # kN on 30 × 2 mm
    if program == "aramis":
        names = "#   ID; x_undef [mm]; y_undef [mm]; z_undef [mm]; u [mm]; v [mm]; w [mm]"
        lines = ["# SIGNALS:", f"# Load : analog_input : {force}", "#####", names]
        lines += [f"{k}; {x!r}; {y!r}; 0.0; {u!r}; {v!r}; 0.0" for k, (x, y, u, v) in enumerate(rows, start=1)]
    else:
        names = (
            "coor.X [mm],coor.Y [mm],disp.Horizontal Displacement U [mm],disp.Vertical Displacement V [mm],Load [kN]"
        )
        lines = [names, *(f"{x!r},{y!r},{u!r},{v!r},{force}" for x, y, u, v in rows)]
    path = tmp_path / "stage.csv"
    path.write_text("\n".join(lines) + "\n")
    bench = Bench(clamped=("left",), forces=({"right": "Load"},), thickness="2 mm")
    found = read_plate(tmp_path, bench, files=[path], units={"Load": "kN"}, poisson=0.0)
    assert [source.format for source in found.sources] == [program]
    assert modulus_of(found) == pytest.approx(3000, rel=0.02)


# What is warned of and refused


def test_what_nothing_holds_is_warned_of_unless_it_may_move(tmp_path):
    free = Bench(tractions=({"left": "20 MPa", "right": "20 MPa"},))
    (said,) = warnings_of(read_plate(tmp_path, free))
    assert "Nothing holds the specimen" in said
    assert "--uncertain [motion]" in said
    assert not warnings_of(read_plate(tmp_path, free, uncertain=("motion",)))
    assert not warnings_of(read_plate(tmp_path))


GRIP = {"right": "1 kN"}
REFUSED = {
    "roller": (Bench(rollers={"left": "z"}), {}, "roller on 'left', expected x or y.*got 'z'", "--roller left=x"),
    "thickness": (Bench(forces=(GRIP,)), {}, "thickness, expected.*got none", "--thickness"),
    "tests": (Bench(("left",), tractions=({}, {}, GRIP)), {}, "one entry, or 1, one per test, got 3", "semicolon"),
    "forces": (Bench(("left",), None, (GRIP, GRIP), thickness="1 mm"), {}, "^forces.*got 2", "semicolon"),
    "no units": (PULLED, {"units": {}}, "camera.csv: no unit of 'X', 'Y', 'U', 'V'", "--units x=mm,response=mm"),
    "unit of a load": (Bench(tractions=({"right": "2 N"},)), {}, "converts to 'MPa', got 'N'", "same kind"),
    "unit of a response": (PULLED, {"units": {**MM, "U": "K", "V": "K"}}, "converts to 'mm', got 'K'", "same kind"),
    "unit of the noise": (PULLED, {"noise": "2 MPa"}, "unit of the noise", "same kind"),
    "components": (PULLED, {"response": ("U",)}, "camera.csv, expected two displacements.*got 1", "--response U,V"),
    "clamped": (Bench(clamped=("lefft",)), {}, "part 'lefft', expected one of", "did you mean left?"),
    "grip": (Bench(("left",), forces=({"rihgt": "1 N"},), thickness="1 mm"), {}, "'rihgt'", "did you mean right?"),
    "traction": (Bench(("left",), tractions=({"tp": "1 MPa"},)), {}, "part 'tp'", "did you mean top?"),
    "rotating": (Bench(("left",), None, (GRIP,), (), ("rihgt",), "1 mm"), {}, "'rihgt'", "did you mean right?"),
    "far off": (Bench(clamped=("electrode",)), {}, "no such part of the outline", "draw it in the outline"),
    "no thickness": (Bench(("left",), None, (GRIP,), thickness="0 mm"), {}, "thickness", ""),
    "negative thickness": (Bench(("left",), None, (GRIP,), thickness="-2 mm"), {}, "thickness", ""),
    "thickness of no number": (Bench(("left",), None, (GRIP,), thickness="nan"), {}, "thickness", ""),
    "clamp and force": (Bench(("left", "right"), None, (GRIP,), thickness="2 mm"), {}, "right", ""),
    "clamp and roller": (Bench(("left",), {"left": "y"}, (), ({"right": "1 MPa"},)), {}, "left", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_benches_that_cannot_be_are_refused(tmp_path, kind):
    bench, more, says, remedy = REFUSED[kind]
    with pytest.raises(MeasurementError, match=says) as caught:
        read_plate(tmp_path, bench, **more)
    error = caught.value
    assert None not in (error.expected, error.got, error.remedy)
    assert remedy in error.remedy


@pytest.mark.parametrize("size", ["nan", "inf", "nan N : 1 N"])
def test_a_force_that_is_no_number_is_refused(tmp_path, size):
    bench = Bench(("left",), forces=({"right": size},), thickness="2 mm")
    with pytest.raises(NipdeError):
        modulus_of(read_plate(tmp_path, bench, poisson=0.0, noise=0.0006))


def test_a_part_has_either_a_traction_or_a_force(tmp_path):
    bench = Bench(("left",), None, (GRIP,), ({"right": "1 MPa"},), thickness="1 mm")
    with pytest.raises(NipdeError, match="part 'right', expected one condition for every part"):
        read_plate(tmp_path, bench)


# Forces of a load cell


def with_force(folder, forces, *, name="cell.csv"):
    """A table with a column of the load cell."""
    rows = [
        f"{x},{y},{u!r},{v!r},{force}"
        for (x, y), (u, v), force in zip(POINTS.tolist(), STRETCHED.tolist(), forces, strict=True)
    ]
    (folder / name).write_text("\n".join(["X,Y,U,V,Force", *rows]) + "\n")
    return folder / name


CELL = Bench(clamped=("left",), forces=({"right": "Force"},), thickness="2 mm")
IN_KN = {**MM, "Force": "kN"}


def test_a_force_is_the_median_of_its_column(tmp_path):
    forces = np.where(np.arange(len(POINTS)) % 2, 1.2004, 1.1998)
    found = read_plate(tmp_path, CELL, files=[with_force(tmp_path, forces)], units=IN_KN)
    (load,) = found.tests.loads
    assert load.forces["right"] == pytest.approx((np.median(forces) * 1000 / 2, 0.0), rel=1e-12)  # N/mm
    typed = read_plate(tmp_path, Bench(("left",), forces=({"right": "1.2001 kN"},), thickness="2 mm"))
    assert load.forces["right"] == pytest.approx(typed.tests.loads[0].forces["right"], rel=1e-9)


def test_every_file_has_its_own_force(tmp_path):
    files = [with_force(tmp_path, [one] * len(POINTS), name=f"{one}.csv") for one in (1.0, 2.5)]
    found = read_plate(tmp_path, CELL, files=files, units=IN_KN)
    assert [load.forces["right"][0] for load in found.tests.loads] == pytest.approx([500.0, 1250.0])


@pytest.mark.parametrize(
    ("column", "units", "expected"),
    [
        (np.linspace(1.0, 1.2, len(POINTS)), IN_KN, "one force, within 1 %, in all rows of a test"),
        (np.full(len(POINTS), np.nan), IN_KN, "one force, within 1 %, in all rows of a test"),
        (np.ones(len(POINTS)), MM, "its unit"),
    ],
)
def test_columns_that_are_no_force_are_refused(tmp_path, column, units, expected):
    with pytest.raises(MeasurementError) as error:
        read_plate(tmp_path, CELL, files=[with_force(tmp_path, column)], units=units)
    assert error.value.expected == expected


def test_a_file_without_the_column_is_named(tmp_path):
    files = [with_force(tmp_path, [1.0] * len(POINTS)), camera(tmp_path)]
    with pytest.raises(MeasurementError, match="camera") as error:
        read_plate(tmp_path, CELL, files=files, units=IN_KN)
    assert "'Force'" in error.value.expected
