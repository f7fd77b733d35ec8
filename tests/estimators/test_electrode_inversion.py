"""Voltages at electrodes to phases: the solver against cut cells, derivatives against differences, simulated tanks."""

from dataclasses import replace

import numpy as np
import pytest

from nipde.boundary import Neumann
from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Specimen, Terminal
from nipde.errors import PairsError, ShapeError
from nipde.estimators.inverse.electrode_inversion import ElectrodeInversion
from nipde.estimators.inverse.electrode_solver import ElectrodeSolver, system_of
from nipde.estimators.inverse.material_grid import material_grid
from nipde.estimators.inverse.material_models import Homogeneous, MaternField
from nipde.estimators.inverse.plateaus import Plateaus
from nipde.grid import Axis, Grid
from nipde.physics.conduction import Conduction
from nipde.physics.triangles import triangulated
from nipde.shape import Shape

COUNT, IMPEDANCE, NOISE = 12, 0.05, 2e-3


def tank(impedance=IMPEDANCE):
    shape = Shape.disc((1.0, 1.0), 1.0, vertices=480)
    names = [f"electrode {number}" for number in range(COUNT)]
    for number, name in enumerate(names):
        shape = shape.with_arc(name, number / COUNT, (number + 0.5) / COUNT)
    return Specimen(shape, {name: Terminal(impedance) for name in names})


CURRENTS = np.eye(COUNT) - np.roll(np.eye(COUNT), 3, axis=1)
PATTERNS = (np.eye(COUNT) - np.roll(np.eye(COUNT), 1, axis=1))[:-1]
RNG = np.random.default_rng(0)


def solver_of(tests, *, spacing=0.08, nodes=12):
    system, _ = system_of(tests)
    grid = material_grid(tests.specimen.shape, nodes)
    return ElectrodeSolver(grid, system, triangulated(tests.specimen.shape, spacing), nodes=grid)


def simulated(log_conductivity, *, spacing=0.045, drift=1.0, noise=0.0):
    """Voltages of a field of x and y, on another mesh than the inversion's, and of the empty tank."""
    specimen = tank()
    empty = ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, *np.zeros((2, COUNT, COUNT - 1)), noise=NOISE)
    solver = solver_of(empty, spacing=spacing, nodes=60)
    x, y = np.meshgrid(*(axis.coordinates for axis in solver.nodes.axes), indexing="ij")
    model, fields = MaternField(solver.nodes), (np.zeros(x.shape), log_conductivity(x - 1, y - 1))
    mixing = np.linalg.pinv(solver.system.currents.T) @ CURRENTS.T  # back from combined injections
    found = [(solver.predicted(model, field.ravel()) @ mixing).T for field in fields]
    size = np.abs(found[0]).max()
    voltages = drift * found[1] + noise * size * RNG.standard_normal(found[1].shape)
    return ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, voltages, found[0], noise=NOISE)


def disc(x, y, *, at, radius, height):
    return height * (np.hypot(x - at[0], y - at[1]) < radius)


def inversion(**options):
    return ElectrodeInversion(material=30, triangles=30, **options)


@pytest.fixture(scope="module")
def two_bodies():
    def field(x, y):
        return disc(x, y, at=(-0.4, 0.3), radius=0.3, height=4.0) + disc(
            x, y, at=(0.45, -0.2), radius=0.28, height=-4.0
        )

    return simulated(field, noise=2e-4)


def phases_on_a_lattice(law):
    line = np.linspace(-0.95, 0.95, 41)
    x, y = np.meshgrid(line, line, indexing="ij")
    inside = np.hypot(x, y) < 0.95
    points = np.stack([x[inside], y[inside]], axis=-1)
    return points, law.phase_at(points + 1)


def test_voltages_of_the_triangles_are_those_of_cut_cells():
    specimen = tank()
    tests = ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, *np.ones((2, COUNT, COUNT - 1)), noise=NOISE)
    solver = solver_of(tests, spacing=0.03)
    potentials = solver.predicted(Homogeneous(solver.nodes), np.log([2.0]))
    box = Grid(tuple(Axis(121, 2.1, Neumann()) for _ in range(2)))
    moved = specimen.shape.transformed(shift=(0.05, 0.05))
    law = Conduction(cut_cells(box, moved, dict(specimen.conditions)), lambda x, y: np.full(x.shape, 2.0))
    names = tests.electrodes
    for number in (0, 5):
        current = solver.system.currents[number]
        found = law.solve(LoadCase(totals=dict(zip(names, current.tolist(), strict=True)))).terminals
        other = PATTERNS @ [found[name] for name in names]
        assert np.abs(potentials[:, number] - other).max() < 0.02 * np.abs(other).max()


@pytest.mark.parametrize("kind", [MaternField, Plateaus])
def test_derivatives_are_those_of_differences(kind):
    tests = ElectrodeTests.from_arrays(tank(), CURRENTS, PATTERNS, *np.ones((2, COUNT, COUNT - 1)), noise=NOISE)
    solver = solver_of(tests, spacing=0.25, nodes=5)
    model = kind(solver.nodes)
    parameters, direction = np.random.default_rng(1).normal(0, 0.6, (2, solver.nodes.size))
    near = solver.linearised(model, parameters)
    up, down = (solver.predicted(model, parameters + step * direction) for step in (1e-5, -1e-5))
    along = np.einsum("asi,a->si", near.jacobian, direction[near.active])
    assert np.abs(along - (up - down) / 2e-5).max() < 1e-6 * np.abs(along).max()


def test_both_bodies_are_found_and_told_apart(two_bodies):
    points, phases = phases_on_a_lattice(inversion()(two_bodies))
    true = np.where(np.hypot(points[:, 0] + 0.4, points[:, 1] - 0.3) < 0.3, 1, 0)
    true = np.where(np.hypot(points[:, 0] - 0.45, points[:, 1] + 0.2) < 0.28, -1, true)
    assert np.mean(phases == true) > 0.93
    for phase in (-1, 1):
        assert np.mean(phases[true == phase] == phase) > 0.6


def test_an_empty_tank_has_no_bodies_though_voltages_drift():
    tests = simulated(lambda x, y: 0 * x, drift=1.03, noise=2e-4)
    _, phases = phases_on_a_lattice(inversion()(tests))
    assert np.all(phases == 0)


def test_electrodes_that_are_missing_leave_the_bodies_on_the_other_side(two_bodies):
    voltages = two_bodies.voltages.copy()
    voltages[8:11] = np.nan
    voltages[:, 7:10] = np.nan
    points, phases = phases_on_a_lattice(inversion()(replace(two_bodies, voltages=voltages)))
    near = np.hypot(points[:, 0] + 0.4, points[:, 1] - 0.3) < 0.2
    assert np.mean(phases[near] == 1) > 0.6


def test_gaps_anywhere_leave_the_other_voltages(two_bodies):
    voltages = two_bodies.voltages.copy()
    voltages[np.random.default_rng(3).random(voltages.shape) < 0.3] = np.nan
    gaps = replace(two_bodies, voltages=voltages)
    law = inversion()(gaps)
    assert law.system.count == gaps.measured.sum()
    points, phases = phases_on_a_lattice(law)
    for phase, place in ((1, (-0.4, 0.3)), (-1, (0.45, -0.2))):
        near = np.hypot(*(points - place).T) < 0.2
        assert np.mean(phases[near] == phase) > 0.8


def test_one_noise_for_every_voltage_is_one_noise_where_injections_are_independent(two_bodies):
    everywhere = replace(two_bodies, noise=np.full(two_bodies.voltages.shape, NOISE))
    places = np.array([[1.0, 1.0], [0.6, 1.3], [1.45, 0.8]])
    one, many = (inversion()(tests) for tests in (two_bodies, everywhere))
    assert np.abs(one.field_at(places) - many.field_at(places)).max() < 0.1
    assert one.model.background == pytest.approx(many.model.background, abs=1e-6)
    assert many.reference_misfit < 0.02


def test_a_voltage_of_much_noise_is_as_good_as_a_gap(two_bodies):
    noise, wrong = np.full(two_bodies.voltages.shape, NOISE), two_bodies.voltages.copy()
    noise[2, 4] = noise[7, 1] = 1e4
    wrong[2, 4], wrong[7, 1] = 30.0, -20.0
    gaps = np.where(noise > 1, np.nan, wrong)
    places = np.array([[1.0, 1.0], [0.6, 1.3], [1.45, 0.8]])
    steady = inversion(share=0.0)
    first = steady(replace(two_bodies, voltages=wrong, noise=noise)).field_at(places)
    second = steady(replace(two_bodies, voltages=gaps)).field_at(places)
    third = steady(replace(two_bodies, voltages=gaps, noise=np.where(noise > 1, np.nan, noise))).field_at(places)
    assert np.abs(first - second).max() < 1e-3
    assert np.abs(third - second).max() < 1e-9


def test_ten_times_the_noise_leaves_larger_deviations(two_bodies):
    places = np.array([[1.0, 1.0], [0.6, 1.3], [1.0, 1.9], [1.45, 0.8]])
    law = inversion()(two_bodies)
    noisy = replace(law, system=replace(law.system, weights=law.system.weights / 100))
    assert np.all(law.deviation_at(places) > 0)
    assert np.all(noisy.deviation_at(places) > 1.02 * law.deviation_at(places))


def test_what_is_expected_stays_where_nothing_is_measured_and_gives_way_where_voltages_object(two_bodies):
    def elsewhere(points):  # a body where there is water
        return 1.5 * (np.hypot(points[:, 0] - 1.0, points[:, 1] - 0.35) < 0.25)

    here = np.array([[1.0, 0.35], [1.1, 0.4], [0.9, 0.3]])
    corrected = inversion()(two_bodies, expected=elsewhere).field_at(here)
    assert np.all(np.abs(corrected) < 0.67)
    deaf = replace(two_bodies, noise=1e3)
    assert np.abs(inversion()(deaf, expected=elsewhere).field_at(here) - elsewhere(here)).max() < 0.05
    assert np.abs(inversion()(deaf).field_at(here)).max() < 0.05


def test_what_cannot_be_is_refused():
    specimen, zeros = tank(), np.zeros((COUNT, COUNT - 1))
    with pytest.raises(PairsError, match="sum to 0"):
        ElectrodeTests.from_arrays(specimen, np.eye(COUNT), PATTERNS, zeros, zeros, noise=NOISE)
    with pytest.raises(ShapeError, match="one per terminal"):
        ElectrodeTests.from_arrays(specimen, CURRENTS[:, :-1], PATTERNS, zeros, zeros, noise=NOISE)
    with pytest.raises(ShapeError, match="voltages"):
        ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, zeros.T, zeros, noise=NOISE)
    with pytest.raises(PairsError, match="none"):
        ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, zeros * np.nan, zeros, noise=NOISE)
    with pytest.raises(PairsError, match="noise > 0"):
        ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, zeros, zeros, noise=0.0)
    with pytest.raises(PairsError, match="noise > 0"):
        ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, zeros, zeros, noise=zeros)
    with pytest.raises(ShapeError, match="noise"):
        ElectrodeTests.from_arrays(specimen, CURRENTS, PATTERNS, zeros, zeros, noise=np.ones(3))


def test_the_unit_of_the_voltages_does_not_matter(two_bodies):
    in_millivolt = replace(
        two_bodies,
        voltages=1e3 * two_bodies.voltages,
        reference=1e3 * two_bodies.reference,
        noise=1e3 * NOISE,
        specimen=tank(1e3 * IMPEDANCE),
    )
    _, phases = phases_on_a_lattice(inversion()(two_bodies))
    assert np.mean(phases_on_a_lattice(inversion()(in_millivolt))[1] == phases) > 0.995
