"""Output error on a disc and on a plate with a hole: truth by linear triangles on meshes that follow the outline."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import splu
from skfem import Basis, BilinearForm, ElementTriP0, ElementTriP1, MeshTri, asm
from skfem.helpers import dot, grad

from benchmarks import specimens
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.discretisation.domain import domain_of
from nipde.discretisation.interpolation import extension_from
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import DirichletPart, NeumannPart, RobinPart, Specimen, Terminal
from nipde.errors import GridError, PairsError, PhysicsError
from nipde.estimators.inverse.material_models import MaternField
from nipde.estimators.inverse.output_error import LinkSolver, SensorSystem
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.physics.triangles import TriangleConduction, triangulated
from nipde.shape import Shape

GRID, CENTRE, PAIRS = Grid.uniform(17), (0.5, 0.5), 14
X, Y = GRID.coordinates
QUERIES = slice(PAIRS - 4, PAIRS)
#: A round inclusion of four times the coefficient.
INCLUSION = ((0.56, 0.62), 0.16)


def disc_mesh():
    return MeshTri.init_circle(5).scaled(0.45).translated(CENTRE)


def plate_mesh(around=448, across=126):
    """Between a circle and the square: straight lines from one to the other."""
    angle = 2 * np.pi * np.arange(around) / around
    ray = np.stack([np.cos(angle), np.sin(angle)])
    square = 0.45 * ray / np.abs(ray).max(axis=0)
    share = np.linspace(0, 1, across + 1)[:, None, None]
    points = np.asarray(CENTRE)[:, None] + (1 - share) * 0.15 * ray + share * square
    number = np.arange((across + 1) * around).reshape(across + 1, around)
    a, b = number[:-1], np.roll(number, -1, axis=1)[:-1]
    c, d = number[1:], np.roll(number, -1, axis=1)[1:]
    triangles = np.concatenate([np.stack([one.ravel() for one in each]) for each in ((a, b, c), (b, d, c))], axis=1)
    return MeshTri(np.moveaxis(points, 1, 0).reshape(2, -1), triangles)


def plate(sides):
    corners = np.array([(0.05, 0.05), (0.95, 0.05), (0.95, 0.95), (0.05, 0.95)])
    circle = Shape.disc(CENTRE, 0.15).rings[0]
    shape = Shape.polygon(corners, holes=[circle], sides=("bottom", "right", "top", "left"))
    return Specimen(shape, {side: DirichletPart() for side in sides})


CASES = {
    "disc": (disc_mesh, Specimen(Shape.disc(CENTRE, 0.45), {"rim": DirichletPart()}),
             lambda x, y: np.hypot(x - 0.5, y - 0.5) > 0.45 - 1e-6),
    "plate": (plate_mesh, plate(("left", "right")), lambda x, y: np.abs(x - 0.5) > 0.45 - 1e-6),
}  # fmt: skip


def coefficient(x, y):
    (a, b), radius = INCLUSION
    return np.where(np.hypot(x - a, y - b) < radius, 12.0, 3.0)


def measured(name, *, noise=0.01):
    """Pairs, exact responses at the sensors, and where these are: nodes inside. Loads of the disc are 0 outside."""
    made, specimen, fixed = CASES[name]
    mesh, rng = made(), np.random.default_rng(3)
    fine = Grid.uniform(129)
    fields = GaussianField(1.0, waves=5, rms=1.0).sample(fine, rng=rng, count=PAIRS)
    basis = Basis(mesh, ElementTriP1())
    b = Basis(mesh, ElementTriP0()).interpolate(coefficient(*mesh.p[:, mesh.t].mean(axis=1)))
    stiffness = asm(BilinearForm(lambda u, v, w: w.b * dot(grad(u), grad(v))), basis, b=b).tocsc()
    mass = asm(BilinearForm(lambda u, v, w: u * v), basis)
    at = Sensors.at(np.clip(mesh.p.T, 0, 1)).matrix(fine)
    right = mass @ (at @ fields.reshape(PAIRS, -1).T)
    free = np.flatnonzero(~fixed(*mesh.p))
    solution = np.zeros((mesh.p.shape[1], PAIRS))
    solution[free] = splu(stiffness[free][:, free]).solve(right[free])
    inside = specimen.shape.holds_nodes(GRID) & ~fixed(X, Y)
    points = np.stack([X[inside], Y[inside]], axis=-1)
    exact = (basis.probes(points.T) @ solution).T
    deviation = noise * np.sqrt(np.mean(exact**2))
    readings = exact + deviation * rng.standard_normal(exact.shape)
    loads = fine.restrict(fields, to=GRID)
    if name == "disc":
        loads = np.where(specimen.shape.holds_nodes(GRID), loads, 0.0)
    pairs = SensorPairs.from_arrays(
        loads, readings, grid=GRID, sensors=Sensors.at(points), noise=deviation, specimen=specimen
    )
    return pairs, exact, inside


@pytest.fixture(scope="module", params=list(CASES))
def found(request):
    pairs, exact, inside = measured(request.param)
    kernel = SensorInversion(phases=(2,), material=28, solver=64)(pairs.take(list(range(PAIRS - 4))))
    return kernel, pairs, exact, inside


def test_held_out_loads_are_predicted(found):
    kernel, pairs, exact, inside = found
    predicted = kernel.laws[0].solve(pairs.loads[QUERIES, 0].numpy())
    error = np.linalg.norm(predicted[:, inside] - exact[QUERIES], axis=1) / np.linalg.norm(exact[QUERIES], axis=1)
    assert error.mean() < 0.01
    outside = ~pairs.specimen.shape.holds_nodes(GRID)
    assert np.all(predicted[:, outside] == 0)


def test_the_inclusion_is_found_and_the_law_explains_the_readings(found):
    law = found[0].laws[0]
    assert law.summary["model"] == "2 phases"
    rng = np.random.default_rng(0)
    points = rng.uniform(0.05, 0.95, (4000, 2))
    points = points[found[1].specimen.shape.contains(points)]
    right = (law.log_coefficient_at(points) > np.log(6)) == (coefficient(*points.T) > 6)
    assert right.mean() > 0.985
    assert 0.8 < law.summary["chi_square"] < 1.15
    assert not bool(law.bands.outlier_test.is_outlier)


def test_bands_hold(found):
    kernel, pairs, exact, inside = found
    loads = pairs.loads[QUERIES, 0].numpy()
    law = kernel.laws[0]
    off = np.abs(law.solve(loads)[:, inside] - exact[QUERIES])
    assert np.mean(off <= 1.645 * law.posterior.response_deviation(loads)[:, inside]) > 0.7
    assert kernel.not_calibrated == ("fewer than 20 pairs on a specimen with an outline",)


def test_the_kernel_is_linear_and_has_its_transpose(found):
    kernel, pairs, *_ = found
    rng = np.random.default_rng(0)
    first, second = torch.as_tensor(rng.standard_normal((2, 1, 1, *GRID.shape)))
    weights = torch.tensor(GRID.weights)
    there, back = ((weights * second * (kernel @ first)).sum(), (weights * first * (kernel.T @ second)).sum())
    assert float(there) == pytest.approx(float(back), rel=1e-9)
    np.testing.assert_allclose(kernel @ (2 * first - second), 2 * (kernel @ first) - kernel @ second, atol=1e-9)
    assert np.array_equal(kernel.interior, pairs.specimen.shape.holds_nodes(GRID))


def test_a_rectangle_as_a_shape_is_the_box():
    rng = np.random.default_rng(0)
    loads, sensors = rng.standard_normal((3, *GRID.shape)), Sensors.at(rng.uniform(0.1, 0.9, (12, 2)))
    sides = dict.fromkeys(("left", "right", "bottom", "top"), DirichletPart())
    box = Specimen(Shape.rectangle(1.0, 1.0), sides)
    values = np.ones((12, 3))
    answers = []
    for specimen in (None, box):
        system = SensorSystem(grid=GRID, loads=loads, sensors=sensors, values=values, weights=values, specimen=specimen)
        solver = LinkSolver(GRID.refine(3), system, nodes=GRID, per_axis=2)
        answers.append(solver.predicted(MaternField(GRID), 0.3 * np.sin(np.arange(GRID.size))))
    # Loads on the sides themselves are continued from the inside.
    assert np.abs(answers[0] - answers[1]).max() < 0.02 * np.abs(answers[0]).max()
    inner = loads * GRID.unknown
    systems = [
        SensorSystem(grid=GRID, loads=inner, sensors=sensors, values=values, weights=values, specimen=one)
        for one in (None, box)
    ]
    solvers = [LinkSolver(GRID.refine(3), one, nodes=GRID, per_axis=2, interpolation="points") for one in systems]
    by_box, by_shape = (one.predicted(MaternField(GRID), np.zeros(GRID.size)) for one in solvers)
    assert np.abs(by_box - by_shape).max() < 1e-12 * np.abs(by_box).max()


def test_derivatives_are_those_of_the_readings():
    pairs, *_ = measured("plate")
    specimen = Specimen(pairs.specimen.shape, {"left": DirichletPart(), "hole 1": RobinPart(5.0)})
    nodes = Grid.uniform(9)
    values = pairs.readings.numpy().T
    system = SensorSystem(
        grid=GRID,
        loads=pairs.loads[:, 0].numpy(),
        sensors=pairs.sensors,
        values=values,
        weights=np.ones(values.shape),
        specimen=specimen,
    )
    solver, model, rng = LinkSolver(GRID, system, nodes=nodes, per_axis=3), MaternField(nodes), np.random.default_rng(1)
    parameters, direction = rng.standard_normal((2, nodes.size)) * 0.3
    near = solver.linearised(model, parameters)
    step = 1e-5
    change = solver.predicted(model, parameters + step * direction) - solver.predicted(
        model, parameters - step * direction
    )
    change = np.sum(change / (2 * step) * values)
    assert -near.gradient(values) @ direction == pytest.approx(change, rel=1e-6)


#: Values on the left, a flux on the right, a contact in the hole.
HELD = Specimen(plate(()).shape, {"left": DirichletPart(), "hole 1": RobinPart(5.0)})
ON_OUTLINE = (
    LoadCase(
        values={"left": lambda x, y: np.sin(4 * y), "hole 1": 0.4}, fluxes={"right": lambda x, y: 2 + np.cos(3 * y)}
    ),
    LoadCase(values={"left": 0.2}, fluxes={"right": -1.0, "top": lambda x, y: x}),
)


def test_derivatives_with_loads_on_the_outline_are_those_of_the_readings():
    nodes, rng = Grid.uniform(9), np.random.default_rng(1)
    sensors = Sensors.at(np.array([(0.06, 0.3), (0.8, 0.8), (0.94, 0.5), (0.3, 0.2)]))
    values = rng.standard_normal((4, 2))
    system = SensorSystem(
        grid=GRID,
        loads=np.zeros((2, *GRID.shape)),
        sensors=sensors,
        values=values,
        weights=np.ones(values.shape),
        specimen=HELD,
        outline=ON_OUTLINE,
    )
    solver, model = LinkSolver(GRID, system, nodes=nodes, per_axis=3), MaternField(nodes)
    parameters, direction = rng.standard_normal((2, nodes.size)) * 0.3
    near, step = solver.linearised(model, parameters), 1e-5
    ahead, back = (solver.predicted(model, parameters + sign * step * direction) for sign in (1, -1))
    change = np.sum((ahead - back) / (2 * step) * values)
    assert -near.gradient(values) @ direction == pytest.approx(change, rel=1e-6)
    np.testing.assert_allclose(near.predicted, solver.predicted(model, parameters), atol=1e-12)


@pytest.mark.parametrize("count", [20, 300])
def test_the_curvature_is_that_of_the_derivatives_for_few_and_many_sensors(count):
    nodes, grid, rng = Grid.uniform(5), Grid.uniform(13), np.random.default_rng(2)
    points = rng.uniform(0.06, 0.94, (900, 2))
    points = points[HELD.shape.contains(points)][:count]
    values = rng.standard_normal((count, 2))
    weights = np.outer(rng.uniform(0.5, 2, count), (1.0, 3.0))
    loads = {"specimen": HELD, "outline": ON_OUTLINE}
    system = SensorSystem(
        grid=GRID, loads=np.zeros((2, *GRID.shape)), sensors=Sensors.at(points), values=values, weights=weights, **loads
    )
    solver, model = LinkSolver(grid, system, nodes=nodes, per_axis=3), MaternField(nodes)
    parameters, step = rng.standard_normal(nodes.size) * 0.3, 1e-5
    near = solver.linearised(model, parameters)
    rows = np.stack([
        (solver.predicted(model, parameters + one) - solver.predicted(model, parameters - one)).ravel() / (2 * step)
        for one in step * np.eye(nodes.size)[near.active]
    ])  # fmt: skip
    assert (count > solver.sensors.shape[1]) == (count == 300)
    np.testing.assert_allclose(near.curvature(system), (rows * weights.ravel()) @ rows.T, rtol=1e-5, atol=1e-9)


def measured_on_outline(*, pairs=12, noise=0.01):
    """Readings at nodes inside, to random loads on the outline; truth by triangles."""
    rng, mesh = np.random.default_rng(8), triangulated(HELD.shape, 0.01)
    law = TriangleConduction(mesh, coefficient(*mesh.centres.T), HELD)

    def wave(size):
        k, phase, constant = rng.normal(0, 3.0, 2), rng.uniform(0, 6), rng.normal()
        return lambda x, y: size * (np.cos(k[0] * x + k[1] * y + phase) + constant)

    sides = ("right", "top", "bottom")
    cases = [
        LoadCase(values={"left": wave(0.1), "hole 1": wave(0.1)}, fluxes={one: wave(1.0) for one in sides})
        for _ in range(pairs)
    ]
    inside = HELD.shape.holds_nodes(GRID)
    points = np.stack([X[inside], Y[inside]], axis=-1)
    exact = (mesh.at(points) @ law.solve(np.zeros((len(mesh.vertices), pairs)), cases)).T
    deviation = noise * np.sqrt(np.mean(exact**2))
    readings = exact + deviation * rng.standard_normal(exact.shape)
    grid = {"grid": GRID, "sensors": Sensors.at(points), "specimen": HELD, "noise": deviation}
    return SensorPairs.from_cases(cases, readings, **grid), exact, inside


def test_a_material_is_found_from_loads_on_the_outline():
    pairs, exact, inside = measured_on_outline()
    kernel = SensorInversion(phases=(2,), material=28, solver=64)(pairs.take(list(range(8))))
    law, loads, outline = kernel.laws[0], pairs.loads[8:, 0].numpy(), pairs.outline[8:]
    off = law.solve(loads, outline)[:, inside] - exact[8:]
    error = np.linalg.norm(off, axis=1) / np.linalg.norm(exact[8:], axis=1)
    assert error.mean() < 0.006
    read = law.readings(loads, pairs.sensors.matrix, outline)
    np.testing.assert_allclose(read, law.solve(loads, outline)[:, inside], atol=1e-10)
    assert np.mean(np.abs(off) <= 1.645 * law.posterior.response_deviation(loads, outline)[:, inside]) > 0.7
    points = np.random.default_rng(0).uniform(0.1, 0.9, (3000, 2))
    points = points[HELD.shape.contains(points)]
    assert np.mean((law.log_coefficient_at(points) > np.log(6)) == (coefficient(*points.T) > 6)) > 0.97


def test_given_values_alone_leave_a_factor_open():
    sides = Specimen(HELD.shape, {"left": DirichletPart(), "right": DirichletPart()})
    cases = [LoadCase(values={"left": 1.0}), LoadCase(values={"right": lambda x, y: y})]
    sensors = Sensors.at(np.array([(0.3, 0.3), (0.7, 0.8), (0.2, 0.7)]))
    pairs = SensorPairs.from_cases(cases, np.ones((2, 3)), grid=GRID, sensors=sensors, specimen=sides, noise=0.01)
    with pytest.raises(PairsError, match="up to a factor"):
        SensorInversion()(pairs)


def test_loads_of_other_parts_or_of_no_specimen_are_refused():
    sensors, loads = Sensors.at(np.array([(0.3, 0.3)])), np.zeros((1, *GRID.shape))
    with pytest.raises(PhysicsError, match="fluxes on a NeumannPart"):
        SensorPairs.from_cases(
            [LoadCase(fluxes={"left": 1.0})], [[1.0]], grid=GRID, sensors=sensors, specimen=HELD
        )  # fmt: skip
    with pytest.raises(PairsError, match="no specimen"):
        SensorPairs.from_arrays(loads, [[1.0]], grid=GRID, sensors=sensors, outline=[LoadCase()])


def test_loads_are_continued_beyond_the_outline():
    inside = CASES["disc"][1].shape.holds_nodes(GRID)
    plane = (1 + 2 * X - 3 * Y)[None]
    extend = extension_from(inside, GRID)
    np.testing.assert_allclose(extend(np.where(inside, plane, 0.0)), plane, atol=1e-9)
    first, second = np.random.default_rng(0).standard_normal((2, 1, *GRID.shape))
    assert np.sum(extend(first * inside) * second) == pytest.approx(np.sum(first * extend.transposed(second)))
    assert extension_from(np.ones(GRID.shape, dtype=bool), GRID) is None


def test_sensors_outside_of_the_specimen_are_refused():
    loads, points = np.ones((1, *GRID.shape)), np.array([(0.5, 0.5), (0.02, 0.02)])
    with pytest.raises(PairsError, match="1 of 2 outside"):
        SensorPairs.from_arrays(
            loads, np.ones((1, 2)), grid=GRID, sensors=Sensors.at(points), specimen=CASES["disc"][1]
        )


@pytest.mark.parametrize("conditions", [{}, {"rim": NeumannPart()}, {"rim": Terminal(0.1)}])
def test_specimens_without_a_reference_are_refused(conditions):
    with pytest.raises(GridError):
        domain_of(GRID, Specimen(Shape.disc(CENTRE, 0.4), conditions))


@pytest.mark.slow
def test_phases_are_found_from_plateaus_where_a_smooth_field_is_too_far_from_them():
    """Wells among a full lattice of sensors: readings next to wells are large, and a smooth field oscillates there."""
    row = next(one for one in specimens.ROWS if one.name == "disc, wells, lattice")
    experiment = specimens.experiment_of(row, 0)
    law = SensorInversion()(experiment.pairs).laws[0]
    assert law.summary["model"].endswith("phases")
    found = specimens.assessed(law, experiment)
    assert found["log_mean"] < 0.05
    assert found["held_out"] < 0.01
