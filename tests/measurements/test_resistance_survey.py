import warnings

import numpy as np
import pytest

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.parts import Specimen, Terminal
from nipde.errors import NipdeError
from nipde.estimators.inverse.electrode_inversion import ElectrodeInversion
from nipde.estimators.inverse.electrode_solver import ElectrodeSolver, system_of
from nipde.estimators.inverse.material_grid import material_grid
from nipde.estimators.inverse.material_models import MaternField
from nipde.measurements.read import read
from nipde.measurements.resistance_survey import ResistanceSurvey
from nipde.measurements.sandbox import Limits
from nipde.physics.triangles import triangulated
from nipde.shape import Shape
from tests.measurements.damaged_files import mutated
from tests.measurements.refused import refused
from tests.measurements.survey_files import dipole_dipole, ring_positions, unified, write

#: The example of the format's description, in two ways.
POSITIONS = [(x, 0) for x in range(6)]
PLAIN = """6# Number of electrodes
# x z position for each electrode
0 0
1 0
2 0     # loose ground
3 0

4 0
5 0
2# Number of data
# a b m n U I/mA err/% for each datum
1 2 3 4 -0.5305165 102.2 2.4
# 2 3 4 5 -0.5 99.9 1.4
3 4 5 6 -0.25 100 1.4   # possibly an outlier
"""


def test_the_example_of_the_description(tmp_path):
    survey = ResistanceSurvey.read(write(tmp_path / "line.ohm", PLAIN))
    np.testing.assert_array_equal(survey.positions, np.array(POSITIONS, dtype=float))
    np.testing.assert_array_equal(survey.electrodes, [[0, 1, 2, 3], [2, 3, 4, 5]])
    np.testing.assert_allclose(survey.resistances, [-0.5305165 / 0.1022, -2.5], rtol=1e-14)
    np.testing.assert_allclose(survey.deviations, [0.024 * 0.5305165 / 0.1022, 0.035], rtol=1e-14)
    assert len(survey.sha256) == 64


@pytest.mark.parametrize(
    ("columns", "row", "resistance", "deviation"),
    [
        ("a b m n r", [5.0], 5.0, np.nan),
        ("a b m n R/Ohm err", [5.0, 0.1], 5.0, 0.5),
        ("a b m n r err/Ohm", [5.0, 0.1], 5.0, 0.1),
        ("a b m n u/mV i/A", [20.0, 4.0], 0.005, np.nan),
        ("a b m n rhoa k err/%", [30.0, -6.0, 10.0], -5.0, 0.5),
        ("a b m n rhoa k r ip", [30.0, -6.0, 7.0, 1.0], 7.0, np.nan),
        ("C1 C2 P1 P2 R err", [5.0, 0.0], 5.0, np.nan),
    ],
)
def test_resistances_and_errors_of_every_kind_of_column(tmp_path, columns, row, resistance, deviation):
    text = unified(POSITIONS, [[1, 2, 3, 4, *row]], columns=columns)
    survey = ResistanceSurvey.read(write(tmp_path / "line.dat", text))
    np.testing.assert_allclose(survey.resistances, [resistance], rtol=1e-14)
    np.testing.assert_allclose(survey.deviations, [deviation], rtol=1e-14)


def test_tabs_and_comments_as_pygimli_writes_them(tmp_path):
    text = "# A profile\n# over a dump.\n3# Number of sensors\n#x\tz\n0\t1.5\n2\t1\n4\t1e-1\n"
    text += "1# Number of data\n#a\tb\tm\tn\ti\tv\tstd/%\n1\t2\t3\t1\t5e-005\t-0.01\t3\n"
    survey = ResistanceSurvey.read(write(tmp_path / "line.ohm", text))
    np.testing.assert_array_equal(survey.positions, [[0, 1.5], [2, 1], [4, 0.1]])
    np.testing.assert_allclose([survey.resistances, survey.deviations], [[-200], [6]], rtol=1e-14)


def test_columns_may_stand_in_any_order_and_invalid_data_are_left_out(tmp_path):
    rows = [[1, 7.5, 3, 4, 1, 2], [0, np.nan, 3, 4, 2, 5]]
    survey = ResistanceSurvey.read(write(tmp_path / "line.ohm", unified(POSITIONS, rows, columns="valid r m n a b")))
    np.testing.assert_array_equal(survey.electrodes, [[0, 1, 2, 3]])
    np.testing.assert_array_equal(survey.resistances, [7.5])


def test_read_names_the_reader_of_surveys(tmp_path):
    with refused(got="a survey of resistances", remedy="ResistanceSurvey.read"):
        read(write(tmp_path / "line.ohm", PLAIN))


def test_infinitely_far_electrodes_are_kept_and_topography_is_left_alone(tmp_path):
    text = unified(POSITIONS, [[1, 0, 3, 4, 2.0, 0.1]], end="2\n0 1.5\n5 2.5")
    assert ResistanceSurvey.read(write(tmp_path / "line.ohm", text)).electrodes.tolist() == [[0, -1, 2, 3]]


DATUM = [1, 2, 3, 4, 5.0, 0.1]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            unified(POSITIONS, [DATUM], columns="a b m n rhoa err"),
            {"expected": "rhoa and k", "remedy": "factor k"},
        ),
        (unified(POSITIONS, [DATUM], columns="a b m n rho err"), {"expected": "r (resistance) or rhoa", "got": "rho"}),
        (unified(POSITIONS, [DATUM], columns="a b m n r/kOhm err"), {"expected": "r/ohm", "got": "kohm"}),
        (unified(POSITIONS, [[1, 2, 3, 7, 5.0, 0.1]]), {"expected": "electrodes 1 to 6", "remedy": "from 1"}),
        (unified(POSITIONS, [[1, 2, 3, 4.5, 5.0, 0.1]]), {"expected": "electrodes 1 to 6"}),
        (unified(POSITIONS, [DATUM[:4]], columns="a b m n"), {"expected": "r, or u and i"}),
        (unified(POSITIONS, [[*DATUM, 1]], columns="what they are"), {"got": "7 without names"}),
        (unified(POSITIONS, [[1, 2, 3, 4, 5.0, 0.0]], columns="a b m n u i"), {"expected": "finite", "remedy": "0"}),
        (unified(POSITIONS, [DATUM]).replace("1# Number of data", "2# Number of data"), {"got": "'0'"}),
        (unified(POSITIONS, [DATUM, DATUM]).replace("2# Number of data", "1# Number of data"), {"got": "2 more lines"}),
        (unified(POSITIONS, [DATUM]).replace("6# Number", "six# Number"), {"expected": "the number of electrodes"}),
        (unified(POSITIONS, [DATUM]).replace("5 0.1", "5 much"), {"expected": "numbers", "remedy": "correct the line"}),
        (unified(POSITIONS, [DATUM])[:30], {"expected": "6 electrodes", "got": "0"}),
        ("x,y,load,response\n1,2,3,4\n", {"expected": "the number of electrodes", "remedy": "unified data format"}),
        ("", {"expected": "the number of electrodes", "got": "the end"}),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path, text, fields):
    with refused(**fields):
        ResistanceSurvey.read(write(tmp_path / "line.ohm", text))


def test_declared_numbers_beyond_the_limit_are_refused_before_they_are_read(tmp_path):
    with refused(expected="at most 100 more values"):
        ResistanceSurvey.read(write(tmp_path / "a.ohm", f"{10**12}\n0 0\n"), limits=Limits(values=100))


def test_damaged_files_are_read_or_refused(tmp_path):
    content, rng = PLAIN.encode(), np.random.default_rng(0)
    for _ in range(60):
        (tmp_path / "damaged.ohm").write_bytes(mutated(content, rng))
        try:
            survey = ResistanceSurvey.read(tmp_path / "damaged.ohm")
        except NipdeError:
            continue
        assert np.isfinite(survey.resistances).all()
        assert survey.electrodes.max() < len(survey.positions)


COUNT, RADIUS, WIDTH, THICKNESS, CONDUCTIVITY = 16, 0.15, 0.01, 0.05, 0.04
DISC = Shape.disc((0.0, 0.0), RADIUS, vertices=480)


def simulated(body, *, spacing=0.0045):
    """Resistances in Ω of a tank with a field log σ / background of x and y, on a mesh of its own."""
    shape, names = DISC, [f"electrode {number + 1}" for number in range(COUNT)]
    for number, name in enumerate(names):
        half = WIDTH / 2 / (2 * np.pi * RADIUS)
        start = (number / COUNT - half) % 1
        shape = shape.with_arc(name, start, start + 2 * half)
    specimen = Specimen(shape, {name: Terminal(1e-5) for name in names})
    rows = dipole_dipole(COUNT) - 1
    unit = np.eye(COUNT)
    centred = unit - 1 / COUNT
    tests = ElectrodeTests.from_arrays(specimen, centred[:-1], centred, *np.zeros((2, COUNT - 1, COUNT)), noise=1.0)
    grid = material_grid(shape, 60)
    solver = ElectrodeSolver(grid, system_of(tests)[0], triangulated(shape, spacing), nodes=grid)
    x, y = np.meshgrid(*(axis.coordinates for axis in grid.axes), indexing="ij")
    field = np.log(CONDUCTIVITY) + body(x - RADIUS, y - RADIUS)
    voltages = solver.predicted(MaternField(grid), field.ravel())  # reading × combined injection
    transfer = voltages @ np.linalg.pinv(solver.system.currents.T)  # U of 1 A/m into every electrode
    dipole = unit[rows]
    return np.einsum("de,ef,df->d", dipole[:, 2] - dipole[:, 3], transfer, dipole[:, 0] - dipole[:, 1]) / THICKNESS


def inclusions(x, y):
    return 3.0 * (np.hypot(x + 0.06, y - 0.045) < 0.045) - 3.0 * (np.hypot(x - 0.07, y + 0.03) < 0.042)


@pytest.fixture(scope="module")
def tank(tmp_path_factory):
    """Two files of a laboratory tank: with bodies, and of plain water in another order with turned dipoles."""
    folder, rng, rows = tmp_path_factory.mktemp("tank"), np.random.default_rng(5), dipole_dipole(COUNT)
    positions, error = ring_positions(COUNT, RADIUS), 0.002
    files = []
    for name, body in (("body", inclusions), ("water", lambda x, y: 0 * x)):
        true = simulated(body)
        noisy = true * (1 + error * rng.standard_normal(len(true)))
        data = np.column_stack([rows, noisy, np.full(len(rows), 100 * error)])
        if name == "water":
            data = data[rng.permutation(len(data))]
            data[::2, [0, 1]], data[::2, 4] = data[::2, [1, 0]], -data[::2, 4]
        files.append(write(folder / f"{name}.ohm", unified(positions, data, axes="x y", columns="a b m n r err/%")))
    return files


def test_a_survey_of_a_tank_shows_its_bodies_and_the_conductivity_of_the_water(tank):
    body, water = (ResistanceSurvey.read(file) for file in tank)
    tests = body.tests(DISC, water, width=WIDTH, thickness=THICKNESS)
    assert tests.measured.sum() == len(body.resistances)
    assert tests.electrodes == tuple(f"electrode {number + 1}" for number in range(COUNT))
    law = ElectrodeInversion(material=30, triangles=40, contrast=3.0)(tests)
    assert np.exp(law.model.background) == pytest.approx(CONDUCTIVITY, rel=0.02)
    assert law.reference_misfit < 0.03
    assert law.chi_square < 2
    for phase, place in ((1, (-0.06, 0.045)), (-1, (0.07, -0.03))):
        angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
        near = np.array(place) + 0.02 * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        assert np.mean(law.phase_at(near) == phase) > 0.9
    water_points = np.array([[0.0, 0.0], [0.08, 0.08], [-0.08, -0.08], [0.0, -0.1]])
    assert np.all(law.phase_at(water_points) == 0)


def test_resistances_stay_with_their_electrodes_whatever_the_order(tank):
    body, water = (ResistanceSurvey.read(file) for file in tank)
    tests = body.tests(DISC, water, width=WIDTH, thickness=THICKNESS)
    for survey, values in ((body, tests.voltages), (water, tests.reference)):
        for (a, b, m, n), resistance in list(zip(survey.electrodes.tolist(), survey.resistances, strict=True))[::17]:
            injection = np.flatnonzero((tests.currents[:, a] != 0) & (tests.currents[:, b] != 0))[0]
            reading = np.flatnonzero((tests.patterns[:, m] != 0) & (tests.patterns[:, n] != 0))[0]
            sign = np.sign(tests.currents[injection, a] * tests.patterns[reading, m])
            assert values[injection, reading] == pytest.approx(sign * resistance, rel=1e-12)


def survey_of(positions, rows=((0, 1, 2, 3),), *, deviation=0.1):
    count = len(rows)
    return ResistanceSurvey(
        np.array(positions, dtype=float), np.array(rows), np.full(count, 5.0), np.full(count, deviation)
    )


def test_repeated_data_are_averaged():
    positions = ring_positions(8, RADIUS)
    survey = survey_of(positions, [(0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 4, 5)])
    survey.resistances[:] = [5.0, -7.0, 2.0]
    tests = survey.tests(DISC, survey, width=WIDTH, thickness=1.0)
    np.testing.assert_allclose(np.sort(tests.voltages.ravel()), [2.0, 6.0])
    np.testing.assert_allclose(tests.noise, 0.1 * np.sqrt(2))


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"positions": 2 * ring_positions(8, RADIUS)}, {"expected": "on the outline", "got": "0.15 m"}),
        ({"width": 0.2}, {"message": "width", "expected": "less than 0.118"}),
        ({"thickness": 0.0}, {"expected": "thickness > 0"}),
        ({"rows": [(0, -1, 2, 3)]}, {"got": "infinitely far"}),
        ({"rows": [(0, 1, 2, 2)]}, {"got": "same twice"}),
        ({"deviation": np.nan}, {"message": "errors", "remedy": "noise="}),
        ({"positions": np.random.default_rng(0).random((8, 3))}, {"expected": "in a plane", "remedy": "pyGIMLi"}),
        ({"positions": np.arange(8.0)[:, None]}, {"got": "x alone"}),
    ],
)
def test_what_is_no_body_in_the_plane_is_refused(change, fields):
    options = {"positions": ring_positions(8, RADIUS), "rows": [(0, 1, 2, 3)], "deviation": 0.1} | change
    survey = survey_of(options["positions"], options["rows"], deviation=options["deviation"])
    with refused(**fields):
        survey.tests(DISC, survey, width=options.get("width", 0.01), thickness=options.get("thickness", 1.0))


def test_a_reference_with_other_electrodes_is_refused():
    here, there = survey_of(ring_positions(8, RADIUS)), survey_of(ring_positions(8, RADIUS)[::-1])
    with refused(message="reference", expected="same places"):
        here.tests(DISC, there, width=0.01, thickness=1.0)


def test_surveys_with_too_many_dipoles_are_refused():
    rng, positions = np.random.default_rng(0), ring_positions(40, RADIUS)
    rows = [rng.permutation(40)[:4] for _ in range(600)]
    with refused(expected="at most 20,000", remedy="part of the survey"):
        survey_of(positions, rows).tests(DISC, survey_of(positions, rows), width=0.005, thickness=1.0)


def test_electrodes_on_a_hill_are_those_of_the_ground_too():
    positions = np.array([(x, 0.3 * np.sin(x / 3)) for x in np.arange(12.0)])
    section = Shape.polygon([*positions.tolist(), (11, -8), (0, -8)])
    survey = survey_of(positions)
    with pytest.warns(UserWarning, match="three dimensions"):
        survey.tests(section, survey, width=0.1, thickness=1.0)


def test_flow_from_the_surface_of_the_ground_is_warned_of_and_does_not_fit_the_plane():
    positions = np.array([(x, 0.0) for x in np.arange(12.0)])
    rows = np.array([(a, a + 1, m, m + 1) for a in range(9) for m in range(a + 2, 11)])
    a, b, m, n = (positions[rows[:, place], 0] for place in range(4))
    ground = 100 / (2 * np.pi) * (1 / abs(a - m) - 1 / abs(b - m) - 1 / abs(a - n) + 1 / abs(b - n))
    survey = ResistanceSurvey(positions, rows, ground, 0.02 * abs(ground))
    section = Shape.rectangle(33.0, 11.0, origin=(-11.0, -11.0))
    with pytest.warns(UserWarning, match="three dimensions"):
        tests = survey.tests(section, survey, width=0.1, thickness=1.0)
    assert ElectrodeInversion(material=20, triangles=40, steps=1)(tests).reference_misfit > 0.15


def test_three_columns_of_a_plane_section_are_two(tank):
    body = ResistanceSurvey.read(tank[0])
    upright = np.insert(body.positions, 1, 0.7, axis=1)  # x, y, z with one y
    survey = ResistanceSurvey(upright, body.electrodes, body.resistances, body.deviations)
    with warnings.catch_warnings(action="error"):
        tests = survey.tests(DISC, survey, width=WIDTH, thickness=THICKNESS)
    assert tests.measured.sum() == len(body.resistances)
