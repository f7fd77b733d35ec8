"""A discovery built by hand: a two-phase coefficient, twenty pairs, a real kernel, and plausible fields around it."""

import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import nipde
from nipde.context.sensors import Sensors
from nipde.discovery.discovery import Baseline, Discovery, HeldOut, Material, Phases, RecommendedLoads
from nipde.discovery.material import phases_of
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Axis, Grid
from nipde.measurements.measurement import Measurement, Note, Source
from nipde.measurements.units import Units
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField


def from_recipe(*, nodes=21, pairs=20, masked=False, held_out=4, name="plate_run_07.h5"):
    specimen = nipde.DarcyRecipe(nodes=nodes, pairs=pairs).build(np.uint64(5))
    rng = np.random.default_rng(0)
    grid, truth = specimen.grid, specimen.hidden[0].astype(float)
    loads, responses = (
        field.reshape(pairs, *grid.shape).astype(float) for field in (specimen.loads, specimen.responses)
    )
    mask = np.ones(responses.shape, bool)
    if masked:
        mask[:, nodes // 4 : nodes // 2, nodes // 5 : nodes // 3] = False
        mask &= rng.random(mask.shape) > 0.03
    given = nipde.Pairs.from_arrays(loads, responses, grid=grid, mask=mask if masked else None, noise=0.0)
    kernel = nipde.load("darcy-two-phase")(given.to(dtype=torch.float32))
    return around(kernel, given, truth, mask, held_out=held_out, name=name)


def around(kernel, pairs, truth, mask, *, held_out=4, name="plate_run_07.h5"):
    rng, grid = np.random.default_rng(1), pairs.grid
    found = kernel.coefficient.double().numpy()
    width = 0.1 * found * (1 + 3 * rng.random(grid.shape))
    known = np.clip(sum(np.minimum(x, 1 - x) for x in grid.coordinates) * 2, 0, 1)
    cut = float(np.sqrt(truth.min() * truth.max()))
    labels = (found > cut).astype(float)
    border = sum(np.abs(np.gradient(labels, axis=axis)) for axis in range(grid.dimension)) > 0
    probability = np.where(border, 0.8, 0.99)
    kept = np.arange(pairs.count)[-held_out:] if held_out else []
    responses = pairs.responses[:, 0].numpy()
    answers = kernel.predict(pairs.loads.float())[:, 0].double().numpy() * (1 + 0.05 * rng.standard_normal(grid.shape))
    tried = HeldOut(
        tuple(int(i) for i in kept), pairs.loads[kept, 0].numpy(), responses[kept], answers[kept], mask[kept],
        np.array([np.linalg.norm(answers[i] - responses[i]) / np.linalg.norm(responses[i]) for i in kept]),
    ) if held_out else None  # fmt: skip
    waves = [
        np.prod([np.sin((k + a) * np.pi * x) for a, x in enumerate(grid.coordinates)], axis=0) for k in (1, 2, 3, 4)
    ]
    digest = hashlib.sha256(b"plate").hexdigest()
    return Discovery(
        measurement=Measurement(
            pairs, Units("mm", "kN/m^2", "mm"), (10.0,) * grid.dimension,
            (Source(name, "HDF5", digest), Source("responses/camera_left.csv", "CSV", digest[::-1])),
            (
                Note("reading", "Axis 0 of every array is x, axis 1 is y, because the file says so."),
                Note("warning", "The sign of the responses was not stated; downwards was taken as positive."),
            ),
        ),
        estimator="darcy-two-phase",
        kernel=kernel,
        material=Material(found, found - width, found + width, 0.9, True, "kN", known, "tension"),
        phases=Phases("Otsu's threshold on log b", (cut,), labels, (3.02, 11.9), probability),
        held_out=tried,
        baselines=(
            Baseline("equation error", truth * np.exp(0.4 * rng.standard_normal(grid.shape)), 0.31, 0.12),
            Baseline("adjoint Gauss-Newton", truth * np.exp(0.1 * rng.standard_normal(grid.shape)), 0.044, 8.4),
            Baseline("ridge kernel", np.full(grid.shape, np.nan), 0.52, 0.03),
        ),
        recommended_loads=RecommendedLoads(
            tuple(f"{k} half waves along x, {k + 1} along y" for k in (1, 2, 3, 4)),
            np.array([0.34, 0.21, 0.13, 0.02]), np.stack(waves),
        ),
        provenance={
            "command": "nipde discover plate_run_07.h5 --length mm --load kN/m^2 --response mm",
            "nipde": "0.1.0", "torch": torch.__version__, "weights sha256": digest, "seconds": 1.84,
            "files": [{"name": name, "sha256": digest}],
        },
    )  # fmt: skip


def on_grid(grid, *, pairs):
    torch.manual_seed(0)
    rng, model = np.random.default_rng(0), ConditionedNIPS(dimension=grid.dimension, channels=4).eval()
    loads = rng.standard_normal((pairs, *grid.shape))
    given = nipde.Pairs.from_arrays(loads, Darcy(grid, np.ones(grid.shape)).solve(loads), grid=grid)
    kernel = model.requires_grad_(False)(given.take(slice(0, 10)).to(dtype=torch.float32))
    truth, mask = np.exp(rng.standard_normal(grid.shape)), np.ones(loads.shape, bool)
    return around(kernel, given, truth, mask, held_out=pairs // 3)


@pytest.fixture(scope="session")
def made_discovery():
    return from_recipe


@pytest.fixture(scope="session")
def made_on():
    return on_grid


@pytest.fixture(scope="session")
def discovery():
    return from_recipe()


@pytest.fixture(scope="session")
def at_sensors():
    """Of a graded material read at 14 scattered points, by output error, the noise not stated."""
    grid, rng = Grid((Axis(9, 100.0), Axis(9, 100.0))), np.random.default_rng(0)
    x, y = grid.coordinates
    loads = GaussianField(1.0, waves=4, rms=1.0).sample(grid, rng=rng, count=4)
    responses = Darcy(grid, np.exp(np.sin(x / 30) * y / 50)).solve(loads)
    sensors = Sensors.at(rng.uniform(10, 90, (14, 2)))
    readings = (sensors.matrix(grid) @ responses.reshape(len(loads), -1).T).T
    readings = readings * (1 + 0.01 * rng.standard_normal(readings.shape))
    measurement = Measurement(
        nipde.Pairs.from_arrays(loads, responses, grid=grid), Units("m", "m/d", "m"), (0.0, 0.0),
        (Source("heads.csv", "csv", "0" * 64),), (),
        nipde.SensorPairs.from_arrays(loads, readings, grid=grid, sensors=sensors),
    )  # fmt: skip
    estimator = nipde.SensorInversion(phases=(), material=8, solver=16)
    return nipde.discover(measurement, estimator, quantity="transmissivity")


@pytest.fixture(scope="session")
def fitted_as(at_sensors):
    """The same with another summary of the fit."""

    def changed(**summary):
        law = at_sensors.kernel.laws[0]
        law = replace(law, summary={**law.summary, **summary})
        kernel, material = replace(at_sensors.kernel, laws=(law,)), at_sensors.material
        deviation, inner = np.log(material.high / material.low) / 2, np.asarray(kernel.grid.unknown)
        phases = phases_of(material.values, deviation=deviation, among=inner, count=kernel.phases or 2)
        return replace(at_sensors, kernel=kernel, phases=phases)

    return changed


@pytest.fixture(scope="session")
def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
