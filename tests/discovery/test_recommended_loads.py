"""The next load is one that a person can apply from its name, where the pairs say least."""

import re
import time

import numpy as np
import pytest
import torch

import nipde
from nipde.boundary import Dirichlet, Neumann
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.context.sensors import Sensors
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.discovery.a_optimal_design import Sensor
from nipde.discovery.candidates import candidates_like
from nipde.discovery.recommended_loads import by_kernel, by_material, queries_of, recommend
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.grid import Axis, Grid
from nipde.kernels.dense import DenseKernel
from nipde.kernels.law import LawKernel
from nipde.measurements.units import Units
from nipde.physics.darcy import Darcy
from nipde.physics.finite_elements import FiniteElements
from nipde.physics.random_fields import GaussianField

GRID, USUAL = Grid.uniform(13), Grid.uniform(21)
AQUIFER = Grid((Axis(21, 1000.0, Dirichlet()), Axis(17, 800.0, Neumann())))


def context_of(loads, *, grid=GRID, noise=0.0):
    answers = Darcy(grid, np.full(grid.shape, 3.0)).solve(loads)
    return Pairs.from_arrays(loads, answers, grid=grid, noise=noise * float(np.sqrt(np.mean(answers**2))))


def kernel_of(context):
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=context.grid.dimension, channels=4).double().eval().requires_grad_(False)
    return model(context)


def random_loads(grid, count, *, rms=1.0):
    return GaussianField(1.0, waves=6, rms=rms).sample(grid, rng=np.random.default_rng(1), count=count)


def bumps(grid, *centres, width=0.1):
    x, y = (x / axis.length for x, axis in zip(grid.coordinates, grid.axes, strict=True))
    return np.stack([np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * width**2)) for a, b in centres])


def pumped(grid, *nodes, total=-800.0):
    loads = np.zeros((len(nodes), *grid.shape))
    for load, node in zip(loads, nodes, strict=True):
        load[node] = total / grid.weights[node]
    return loads


def numbers(text):
    return [float(one.replace("−", "-").replace(",", "")) for one in re.findall(r"−?[\d,]*\d\.?\d*", text)]


def half_waves(name):
    return {axis: int(number) for number, axis in re.findall(r"(\d+) half waves? along (\w)", name)}


def test_patches_are_named_as_they_are_to_be_applied():
    grid = Grid((Axis(21, 2.0), Axis(13, 3.0)))
    loads = random_loads(grid, 4)
    context = context_of(loads, grid=grid)
    found = recommend(kernel_of(context), context, count=4, units=Units("m", "kN/m^2", "mm"), origin=(10.0, -1.0))
    assert len(found.names) == 4
    x, y = grid.coordinates[0] + 10, grid.coordinates[1] - 1
    for name, load in zip(found.names, found.loads, strict=True):
        form = r"patch of (.+) × (.+) m centred at \((.+), (.+)\) m, (.+) kN/m²"
        width, height, across, along, pressure = (numbers(part)[0] for part in re.fullmatch(form, name).groups())
        assert (width, height) == pytest.approx((0.4, 0.6), abs=0.01)
        assert pressure == pytest.approx(np.abs(loads).max(), rel=5e-3)
        assert load.max() == pytest.approx(np.abs(loads).max())
        inside = (np.abs(x - across) < width / 2 - 0.06) & (np.abs(y - along) < height / 2 - 0.13)
        outside = (np.abs(x - across) > width / 2 + 0.06) | (np.abs(y - along) > height / 2 + 0.13)
        assert load[inside] == pytest.approx(np.full(inside.sum(), load.max()))
        assert inside.any()
        assert not load[outside].any()


def test_after_wells_wells_are_recommended_with_their_rate():
    context = context_of(pumped(AQUIFER, (4, 4), (10, 3), (16, 12)), grid=AQUIFER)
    found = recommend(kernel_of(context), context, count=3, units=Units("m", "m/d", "m"), origin=(500.0, 0.0))
    for name, load in zip(found.names, found.loads, strict=True):
        across, along = numbers(re.fullmatch(r"well at \((.+)\) m, rate −800 m³/d", name)[1].replace(", ", " "))
        (node,) = np.argwhere(load)
        assert (across - 500, along) == pytest.approx(tuple(node * np.array(AQUIFER.spacing)))
        assert AQUIFER.integrate(load) == pytest.approx(-800)


def test_points_that_are_no_wells_have_a_total_in_load_times_area():
    context = context_of(pumped(GRID, (4, 4), (10, 3), total=0.25))
    names = recommend(kernel_of(context), context, count=2, units=Units("m", "kPa", "mm")).names
    assert all(re.fullmatch(r"point load at \(0\.\d+, 0\.\d+\) m, total 0\.25 kPa·m²", name) for name in names)
    bare = recommend(kernel_of(context), context, count=1).names
    assert re.fullmatch(r"point load at \(0\.\d+, 0\.\d+\), total 0\.25", bare[0])


def test_injection_at_one_well_and_extraction_at_another_is_a_doublet():
    loads = pumped(AQUIFER, (4, 4), (10, 3), total=30.0) - pumped(AQUIFER, (12, 4), (10, 13), total=30.0)
    context = context_of(loads, grid=AQUIFER)
    (name,) = recommend(kernel_of(context), context, count=1, units=Units("m", "m/d", "m")).names
    assert re.fullmatch(r"doublet of 30 m³/d at \(\d+, \d+\) m and −30 m³/d at \(\d+, \d+\) m", name)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_amounts_of_any_size_can_be_read(scale):
    context = context_of(bumps(GRID, (0.3, 0.4), (0.6, 0.6)))
    scaled = Pairs(GRID, scale * context.loads, scale * context.responses, noise=0.0)
    (name,) = recommend(kernel_of(context), scaled, count=1, units=Units("m", "Pa", "m")).names
    power = {1e-9: "10⁻⁹", 1e9: "10⁹"}[scale]
    assert re.search(rf", (1|9\.\d+|\d\.\d+) × {power} Pa$", name) or re.search(r", 9\.\d+ × 10\S+ Pa$", name), name


@pytest.mark.parametrize("way", ["kernel", "material", "usual"])
@pytest.mark.parametrize("side", [0, 1])
def test_the_first_patch_lies_where_no_load_was(way, side):
    """All loads so far press on one half."""
    loads = bumps(GRID, (0.15, 0.2), (0.25, 0.5), (0.15, 0.8), (0.35, 0.3), (0.35, 0.7), width=0.06)
    loads = loads[:, ::-1].copy() if side else loads
    context = context_of(loads, noise=0.01)
    kernel = kernel_of(context)
    rank = {"kernel": by_kernel(kernel), "material": by_material(kernel, context), "usual": None}[way]
    found = recommend(kernel, context, count=1, rank=rank)
    x, _ = GRID.coordinates
    centre = GRID.integrate(x * found.loads[0]) / GRID.integrate(found.loads[0])
    assert centre < 0.45 if side else centre > 0.55


def test_the_best_come_first_and_neighbours_are_left_out():
    context = context_of(random_loads(GRID, 3))
    found = recommend(kernel_of(context), context, count=5)
    assert found.gains.shape == (5,)
    assert (np.diff(found.gains) <= 0).all()
    assert 0 < found.gains[-1] <= found.gains[0] <= 1
    together = (found.loads[:, None] != 0) & (found.loads[None] != 0)
    common = together.sum((-1, -2)) - np.diag(np.diagonal(together.sum((-1, -2))))
    assert common.max() <= 5  # one row of nodes, which both cover by a half


def test_a_patch_that_was_applied_is_not_recommended_again():
    context = context_of(random_loads(GRID, 3))
    applied = recommend(kernel_of(context), context, count=3)
    after = context_of(np.concatenate([random_loads(GRID, 3), applied.loads]))
    assert applied.names[0] not in recommend(kernel_of(after), after, count=3).names


def test_queries_are_the_candidates_and_the_loads_so_far_in_equal_parts():
    applied = torch.tensor(random_loads(GRID, 5))[:, None]
    candidates = candidates_like(GRID, applied).fields
    queries = queries_of(candidates, applied.float())
    assert queries.dtype == torch.float64
    assert len(candidates) == 49
    assert len(queries) == 49 + 50
    assert queries_of(candidates, applied.repeat(20, 1, 1, 1)).shape[0] == 49 + 100


@pytest.mark.parametrize("grid", [Grid((Axis(11, 2.0), Axis(12, 3.0))), Grid((Axis(9), Axis(9, 1.0, Neumann())))])
def test_waves_can_be_asked_for_and_are_what_their_names_say(grid):
    context = context_of(random_loads(grid, 4), grid=grid)
    found = recommend(kernel_of(context), context, count=8, kind="waves", units=Units("m", "kPa", "mm"))
    rms = float(context.loads.square().mean().sqrt())
    for name, load in zip(found.names, found.loads, strict=True):
        counts = half_waves(name)
        factors = []
        for axis, x, letter in zip(grid.axes, grid.coordinates, "xy", strict=True):
            phase = counts.get(letter, 0) * np.pi * x / axis.length
            factors.append(np.sin(phase) if axis.boundary.essential else np.cos(phase))
        wave = np.abs(factors[0] * factors[1])
        assert np.abs(load) == pytest.approx(wave * np.abs(load).max() / wave.max(), abs=1e-8)
        assert name.endswith(f"rms {rms:.3g} kPa")
        assert np.sqrt(grid.integrate(load**2) / grid.volume) == pytest.approx(rms)


@pytest.mark.parametrize("relative", [False, True])
def test_gains_do_not_depend_on_the_unit_of_load(relative):
    gains = []
    for rms in (1.0, 1e-3):
        context = context_of(random_loads(Grid.uniform(9), 4, rms=rms), grid=Grid.uniform(9))
        kernel = kernel_of(context)
        rank = by_material(kernel, context, sensor=Sensor(0.01, relative))
        gains.append(recommend(kernel, context, count=5, rank=rank).gains)
    assert gains[1] == pytest.approx(gains[0], rel=1e-4)
    assert 0 < gains[0][-1] <= gains[0][0] < 1


def test_on_a_large_grid_gains_are_those_of_a_small_one_and_come_soon():
    """The coefficient is linearised on a coarser grid then."""
    gains, names, seconds = [], [], []
    for nodes in (21, 61):
        grid = Grid.uniform(nodes)
        context = context_of(bumps(grid, (0.2, 0.3), (0.3, 0.7)), grid=grid, noise=0.02)
        # The same readings: all nodes of the smaller grid.
        readings = Sensors.at_nodes(USUAL)
        read = (readings.matrix(grid) @ context.responses.reshape(2, -1).numpy().T).T
        context = SensorPairs.from_arrays(
            context.loads[:, 0], read, grid=grid, sensors=readings, noise=float(context.noise)
        )
        kernel = LawKernel.of(Darcy(grid, np.full(grid.shape, 3.0)))
        start = time.process_time()
        found = recommend(kernel, context, count=3, rank=by_material(kernel, context))
        seconds.append(time.process_time() - start)
        gains.append(found.gains)
        names.append(found.names)
    assert gains[1] == pytest.approx(gains[0], rel=0.2)  # centres are at other nodes
    first, second = (np.array(numbers(one[0])[2:4]) for one in names)
    assert np.abs(first - second).max() < 0.1
    assert max(seconds) < 5


@pytest.fixture(scope="module")
def few_sensors():
    """Twelve sensors, four loads."""
    x, y = USUAL.coordinates
    law = Darcy(USUAL, np.exp(0.6 * np.sin(5 * x) * np.cos(4 * y)))
    loads = bumps(USUAL, (0.3, 0.3), (0.7, 0.3), (0.3, 0.7), (0.6, 0.6))
    sensors = Sensors.at(np.random.default_rng(0).uniform((0.1, 0.1), (0.9, 0.9), (12, 2)))
    answers = law.solve(loads)
    readings = (sensors.matrix(USUAL) @ answers.reshape(len(loads), -1).T).T
    noise = 0.01 * float(np.sqrt(np.mean(readings**2)))
    readings += noise * np.random.default_rng(1).standard_normal(readings.shape)
    return SensorPairs.from_arrays(loads, readings, grid=USUAL, sensors=sensors, noise=noise)


def test_a_fit_to_few_sensors_recommends_loads_soon(few_sensors):
    kernel = SensorInversion(phases=(), material=16, solver=24, steps=3)(few_sensors)
    start = time.process_time()
    found = recommend(kernel, few_sensors, count=3, units=Units("m", "kPa", "mm"))
    assert time.process_time() - start < 5
    assert all(name.startswith("patch of 0.20 × 0.20 m centred at (") for name in found.names)
    assert 0 < found.gains[-1] <= found.gains[0] < 1
    assert found.loads.shape == (3, *USUAL.shape)


def test_only_sensors_read_a_further_load():
    """Fewer sensors learn less from it, and more noise, too."""
    kernel = LawKernel.of(Darcy(GRID, np.full(GRID.shape, 3.0)))
    loads = bumps(GRID, (0.3, 0.3), (0.7, 0.3))
    candidates = candidates_like(GRID, loads).fields[::7]
    gains = []
    for sensors, noise in ((Sensors.at_nodes(GRID), 1e-4), (Sensors.at(np.array([[0.2, 0.2], [0.7, 0.6]])), 1e-4),
                           (Sensors.at(np.array([[0.2, 0.2], [0.7, 0.6]])), 1e-2)):  # fmt: skip
        readings = np.ones((2, len(sensors)))  # what was read does not matter, and loads so small say nothing
        context = SensorPairs.from_arrays(1e-9 * loads, readings, grid=GRID, sensors=sensors, noise=noise)
        gains.append(by_material(kernel, context)(candidates, candidates).gains)
    assert bool((gains[0] > 1.5 * gains[1]).all())
    assert bool((gains[1] > 1.5 * gains[2]).all())


def reference_patch(mesh, load, *, grid):
    """A patch on the mesh, from its extent on the grid: the moments of its nodes."""
    rows, columns = (np.flatnonzero(load.any(axis)) for axis in (1, 0))
    shares = []
    for nodes, axis in ((rows, mesh.axes[0]), (columns, mesh.axes[1])):
        middle, half = 0.5 * (nodes[0] + nodes[-1]) * grid.spacing[0], 0.1
        apart = (half + axis.spacing / 2 - np.abs(axis.coordinates - middle)) / axis.spacing
        shares.append(np.clip(apart, 0, 1))
    return load.max() * np.outer(*shares) * mesh.weights


@pytest.mark.slow
def test_a_recommended_patch_helps_more_than_a_random_one():
    """Data of finite elements on a finer mesh, 5 % noise; judged by loads that were held out."""
    recipe = ReferenceDarcyRecipe(nodes=21, pairs=20, refine=4, loads="bumps", precision="float64")
    model, mesh, shares = nipde.load("darcy"), recipe.mesh, []
    for seed in range(5):
        system, rng = recipe.build(np.uint64(seed)), np.random.default_rng(seed)
        law = FiniteElements(mesh, np.asarray(system.fine[0], dtype=np.float64))
        loads, responses = system.loads[:, 0], system.responses[:, 0]
        noise = 0.05 * float(np.sqrt(np.mean(responses[:5] ** 2)))
        measured = responses[:5] + noise * rng.standard_normal((5, *USUAL.shape)) * USUAL.unknown

        def kernel_with(*more, law=law, loads=loads, measured=measured, noise=noise, rng=rng):
            moments = np.array([reference_patch(mesh, load, grid=USUAL) for load in more]).reshape(-1, *mesh.shape)
            answers = mesh.restrict(law.solve_moments(moments), to=USUAL) if more else np.zeros((0, *USUAL.shape))
            answers = answers + noise * rng.standard_normal(answers.shape) * USUAL.unknown
            applied = np.concatenate([loads[:5], np.array(more).reshape(-1, *USUAL.shape)])
            context = Pairs.from_arrays(applied, np.concatenate([measured, answers]), grid=USUAL, noise=noise)
            with torch.no_grad():
                return context, model(context.to(dtype=torch.float32))

        def error(kernel, loads=loads, responses=responses):
            with torch.no_grad():
                off = (kernel @ torch.tensor(loads[5:, None]).float())[:, 0].numpy() - responses[5:]
            return np.mean(USUAL.norm(off) / USUAL.norm(responses[5:]))

        context, kernel = kernel_with()
        (best,) = recommend(kernel, context, count=1).loads
        others = rng.permutation(candidates_like(USUAL, context.loads).fields[:, 0].numpy())[:5]
        recommended, *random = (error(kernel_with(load)[1]) for load in (best, *others))
        shares.append(recommended / np.mean(random))
    assert np.median(shares) < 1, shares


@pytest.mark.parametrize("kernel", [
    DenseKernel(Grid.uniform(9), torch.eye(81, dtype=torch.float64)),
    LawKernel.of(Darcy(Grid.uniform(9), np.ones((9, 9)))),
], ids=["dense", "law"])  # fmt: skip
def test_a_kernel_without_uncertainty_has_no_recommended_load(kernel):
    found = recommend(kernel, context_of(random_loads(kernel.grid, 2), grid=kernel.grid), count=3)
    assert found.names == ()
    assert found.loads.shape == (0, 9, 9)
