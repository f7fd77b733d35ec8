"""Files in the layout of the Kuopio Tomography Challenge 2023, written here by its description."""

import h5py
import numpy as np
import pytest
import scipy.io

from nipde.discretisation.parts import Specimen, Terminal
from nipde.errors import MeasurementError, NipdeError
from nipde.measurements.electrode_voltages import ElectrodeVoltages
from nipde.measurements.sandbox import Limits
from nipde.shape import Shape
from tests.measurements.damaged_files import mutated
from tests.measurements.refused import refused

ELECTRODES, INJECTIONS, READINGS = 8, 5, 7
RNG = np.random.default_rng(0)
#: As MATLAB has them: columns are injections and readings.
INJ = (np.eye(ELECTRODES) - np.roll(np.eye(ELECTRODES), 3, axis=0))[:, :INJECTIONS]
MPAT = (np.eye(ELECTRODES) - np.roll(np.eye(ELECTRODES), 1, axis=0))[:, :READINGS]
#: The readings of the first injection, then of the second, and so on.
UEL = RNG.standard_normal((INJECTIONS * READINGS, 1))


def write(path, *, reference=False, **others):
    ending = "ref" if reference else ""
    variables = {f"Inj{ending}": INJ, "Mpat": MPAT, f"Uel{ending}": UEL, **others}
    scipy.io.savemat(path, {name: value for name, value in variables.items() if value is not None})
    return path


def tank():
    shape, names = Shape.disc((0.0, 0.0), 1.0), [f"electrode {number}" for number in range(ELECTRODES)]
    for number, name in enumerate(names):
        shape = shape.with_arc(name, number / ELECTRODES, (number + 0.5) / ELECTRODES)
    return Specimen(shape, {name: Terminal(0.01) for name in names})


@pytest.mark.parametrize("reference", [False, True])
def test_every_voltage_belongs_to_its_injection_and_reading(tmp_path, reference):
    found = ElectrodeVoltages.read(write(tmp_path / "data1.mat", reference=reference))
    np.testing.assert_array_equal(found.currents, INJ.T)
    np.testing.assert_array_equal(found.patterns, MPAT.T)
    for injection in range(INJECTIONS):
        for reading in range(READINGS):
            assert found.voltages[injection, reading] == UEL[injection * READINGS + reading, 0]
    assert len(found.sha256) == 64


def test_a_matrix_of_voltages_has_one_column_per_injection(tmp_path):
    square = UEL.reshape(INJECTIONS, READINGS).T
    found = ElectrodeVoltages.read(write(tmp_path / "data1.mat", Uel=square))
    np.testing.assert_array_equal(found.voltages, square.T)


def test_files_of_version_7_3_are_the_same(tmp_path):
    with h5py.File(tmp_path / "data1.mat", "w", userblock_size=512) as file:
        for name, value in (("Inj", INJ), ("Mpat", MPAT), ("Uel", UEL)):
            file.create_dataset(name, data=value.T).attrs["MATLAB_class"] = np.bytes_("double")
    with (tmp_path / "data1.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(116) + b" " * 8 + b"\x00\x02IM")
    found = ElectrodeVoltages.read(tmp_path / "data1.mat")
    np.testing.assert_array_equal(found.voltages, UEL.reshape(INJECTIONS, READINGS))
    np.testing.assert_array_equal(found.currents, INJ.T)


def test_a_body_and_its_reference_are_tests_and_gaps_stay_gaps(tmp_path):
    gaps = UEL.copy()
    gaps[3] = np.nan
    body = ElectrodeVoltages.read(write(tmp_path / "data1.mat", Uel=gaps))
    empty = ElectrodeVoltages.read(write(tmp_path / "ref.mat", reference=True))
    tests = body.tests(tank(), empty, noise=1e-3)
    assert tests.measured.sum() == UEL.size - 1
    assert not tests.measured[0, 3]
    np.testing.assert_array_equal(tests.reference, UEL.reshape(INJECTIONS, READINGS))


def test_a_reference_of_other_injections_is_refused(tmp_path):
    body = ElectrodeVoltages.read(write(tmp_path / "data1.mat"))
    other = ElectrodeVoltages.read(write(tmp_path / "ref.mat", reference=True, Injref=INJ[:, ::-1]))
    fewer = ElectrodeVoltages.read(write(tmp_path / "few.mat", Mpat=MPAT[:, 1:], Uel=UEL[INJECTIONS:]))
    with refused(message="currents of the reference", expected="same order", remedy="same injections"):
        body.tests(tank(), other, noise=1e-3)
    with refused(message="patterns of the reference", got="shapes (6, 8) and (7, 8)"):
        body.tests(tank(), fewer, noise=1e-3)


@pytest.mark.parametrize(
    ("variables", "fields"),
    [
        ({"Uel": None}, {"expected": "Uel or Uelref", "got": "Inj, Mpat"}),
        (
            {"Uelref": UEL},
            {"expected": "one variable", "got": "Uel and Uelref", "remedy": "file of its own"},
        ),
        ({"Uel": UEL[1:]}, {"expected": "5 injections × 7 readings = 35", "got": "34", "remedy": "NaN"}),
        ({"Mpat": MPAT[1:]}, {"expected": "(electrode, injection)", "got": "(8, 5) and (7, 7)"}),
        ({"Inj": "text"}, {"message": "Inj", "expected": "real numbers"}),
        ({"Uel": 1j * UEL}, {"message": "Uel", "expected": "real numbers"}),
    ],
)
def test_other_layouts_are_refused(tmp_path, variables, fields):
    with refused(**fields):
        ElectrodeVoltages.read(write(tmp_path / "data1.mat", **variables))


def test_too_many_values_are_refused_by_their_declared_shape(tmp_path):
    with refused(MeasurementError, message="Mpat", expected="at most 10 more"):
        ElectrodeVoltages.read(write(tmp_path / "data1.mat"), limits=Limits(values=50))


def test_damaged_files_are_read_or_refused(tmp_path):
    content = write(tmp_path / "whole.mat").read_bytes()
    rng, path = np.random.default_rng(0), tmp_path / "damaged.mat"
    for _ in range(40):
        path.write_bytes(mutated(content, rng))
        try:
            found = ElectrodeVoltages.read(path)
        except NipdeError:
            continue
        assert found.voltages.shape == (len(found.currents), len(found.patterns))
