"""Phantoms against the solver of the inversion, errors of measurements, and a training that goes on after a stop."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
import torch

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.parts import Specimen, Terminal
from nipde.estimators.inverse.electrode_inversion import ElectrodeInversion
from nipde.estimators.inverse.linearised_images import LinearisedImages
from nipde.estimators.segmentation.electrode_segmentation import ElectrodeSegmentation
from nipde.estimators.segmentation.network import SegmentationConfig
from nipde.shape import Shape
from nipde.training.electrode_phantoms import phantoms, phases_at, random_bodies, random_outline
from nipde.training.electrode_training import MeasurementErrors, SegmentationTraining, phase_shares

COUNT = 8
CURRENTS = np.eye(COUNT) - np.roll(np.eye(COUNT), 3, axis=1)
PATTERNS = (np.eye(COUNT) - np.roll(np.eye(COUNT), 1, axis=1))[:-1]
NODES = 16
SILENT = MeasurementErrors(drift=0, contact=0, injections=0, readings=0, white=(0, 0), share=(0, 0))


def tank(rng=None):
    shape, names = Shape.disc((0.0, 0.0), 1.0, vertices=256), [f"electrode {number}" for number in range(COUNT)]
    for number, name in enumerate(names):
        shape = shape.with_arc(name, number / COUNT, (number + 0.5) / COUNT)
    return Specimen(shape, {name: Terminal(0.01) for name in names})


def places():
    nodes = np.linspace(-1, 1, NODES)
    line = (nodes[:, None] + np.array([-0.25, 0.25]) * (nodes[1] - nodes[0])).ravel()
    return np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)


@pytest.fixture(scope="module")
def drawn():
    return phantoms(12, tank, points=places(), rng=np.random.default_rng(0), triangles=30)


@pytest.fixture(scope="module")
def tests(drawn):
    reference = CURRENTS @ drawn.empty[0] @ PATTERNS.T
    voltages = CURRENTS @ drawn.resistances[0] @ PATTERNS.T
    return ElectrodeTests.from_arrays(tank(), CURRENTS, PATTERNS, voltages, reference, noise=1e-3)


def test_resistances_are_symmetric_dissipate_and_see_only_differences(drawn):
    for each in (*drawn.resistances, drawn.empty[0]):
        assert np.abs(each - each.T).max() < 1e-9 * np.abs(each).max()
        assert np.abs(each.sum(axis=0)).max() < 1e-9
        assert np.linalg.eigvalsh(each)[1] > 0  # the constant has none


def test_resistive_bodies_dissipate_more_and_conductive_ones_less(drawn):
    """Rayleigh: R grows with the resistivity everywhere."""
    seen = 0
    for each, phases in zip(drawn.resistances, drawn.phases, strict=True):
        change = np.linalg.eigvalsh(each - drawn.empty[0])
        kinds = set(np.unique(phases).tolist()) - {0}
        if kinds == {-1}:
            assert change.min() > -1e-9
        if kinds == {1}:
            assert change.max() < 1e-9
        seen += len(kinds) == 1
    assert seen > 2


def test_bodies_are_valid_and_keep_apart():
    rng, region = np.random.default_rng(1), shapely.Point(0, 0).buffer(1)
    assert all((one := random_outline(rng)).is_valid and one.geom_type == "Polygon" for _ in range(60))
    for _ in range(10):
        bodies = [body for body, _ in random_bodies(region, 1.0, rng)]
        assert all(region.buffer(-0.04).contains(body) for body in bodies)
        assert all(a.distance(b) > 0.03 for k, a in enumerate(bodies) for b in bodies[:k])
    assert phases_at(np.zeros((1, 2)), [(shapely.Point(0, 0).buffer(0.1), -1)]).tolist() == [-1]


def test_without_errors_differences_are_those_of_the_tests(drawn, tests):
    level = LinearisedImages.of(tests, nodes=NODES, triangles=20)
    found = SILENT.differences(drawn, level, tests, np.random.default_rng(0))
    assert np.allclose(found[0], level.shown.reduced(tests.voltages - tests.reference), atol=1e-12)
    drifting = replace(SILENT, drift=0.1).differences(drawn, level, tests, np.random.default_rng(0))
    apart = (drifting - found)[0] / level.shown.reduced(tests.voltages)
    assert np.ptp(apart) < 1e-9 < abs(apart.mean())


def test_images_show_a_body_with_its_sign_in_any_unit(drawn, tests):
    level = LinearisedImages.of(tests, nodes=NODES, triangles=20)
    kinds = [set(np.unique(one).tolist()) - {0} for one in drawn.phases]
    found = level.images(SILENT.differences(drawn, level, tests, np.random.default_rng(0)))
    for kind, images, phases in zip(kinds, found, drawn.phases, strict=True):
        if len(kind) == 1:
            (phase,) = kind
            held = phases[::2, ::2] == phase
            assert (
                phase * images[1][held].mean() > 0.1 + phase * images[1][(phases[::2, ::2] == 0) & level.inside].mean()
            )
    scaled = replace(tests, voltages=1e3 * tests.voltages, reference=1e3 * tests.reference, noise=1e3 * tests.noise)
    scaled = replace(scaled, specimen=Specimen(tests.specimen.shape, dict.fromkeys(tests.electrodes, Terminal(10.0))))
    other = LinearisedImages.of(scaled, nodes=NODES, triangles=20)
    one, two = (each.images(each.shown.reduced(of.voltages - of.reference)[None])
                for each, of in ((level, tests), (other, scaled)))  # fmt: skip
    assert np.abs(one - two).max() < 1e-3 * np.abs(one).max()


def test_a_training_that_was_stopped_goes_on_as_if_it_had_not_been(drawn, tests, tmp_path, monkeypatch):
    monkeypatch.setattr("nipde.training.electrode_training.KEPT", 3)
    options = {"seed": 5, "view": lambda shown, rng: shown, "config": SegmentationConfig(4, (4, 4, 4)), "nodes": NODES}
    training = SegmentationTraining(steps=6, batch=4)
    whole = training([tests], drawn, folder=tmp_path / "whole", **options)

    def stop(step, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training([tests], drawn, folder=tmp_path / "stopped", progress=stop, **options)
    resumed = training([tests], drawn, folder=tmp_path / "stopped", **options)
    other = training([tests], drawn, folder=tmp_path / "other", **(options | {"seed": 6}))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert not torch.equal(whole.readout.weight, other.readout.weight)


def test_shares_are_those_of_the_points_around_a_node():
    phases = np.zeros((1, 4, 4), dtype=int)
    phases[0, :2, :2] = [[1, 1], [0, -1]]
    shares = phase_shares(phases, (2, 2))[0]
    assert shares[:, 0, 0].tolist() == [0.25, 0.25, 0.5]
    assert shares[:, 1, 1].tolist() == [0, 1, 0]


@pytest.mark.slow
def test_what_was_trained_finds_bodies_it_has_not_seen(tests, tmp_path):
    made = phantoms(300, tank, points=places(), rng=np.random.default_rng(1), triangles=30)
    training = SegmentationTraining(steps=300, batch=8, errors=replace(SILENT, white=(1e-3, 1e-3)))
    network = training([tests], made, seed=0, view=lambda shown, rng: shown, folder=tmp_path,
                       config=SegmentationConfig(4, (8, 16, 16)), nodes=NODES)  # fmt: skip
    unseen = phantoms(10, tank, points=places(), rng=np.random.default_rng(2), triangles=30)
    right, empty = [], []
    points = places().reshape(-1, 2)
    inside = np.hypot(*points.T) < 0.95
    for resistances, phases in zip(unseen.resistances, unseen.phases, strict=True):
        seen = replace(tests, voltages=CURRENTS @ resistances @ PATTERNS.T)
        found = ElectrodeSegmentation((network,), inversion=None, nodes=NODES)(seen)
        shares = found.at(points[inside])
        assert np.allclose(shares.sum(axis=0), 1)
        assert shares.min() >= 0
        right.append(np.mean(found.phase_at(points[inside]) == phases.ravel()[inside]))
        empty.append(np.mean(phases.ravel()[inside] == 0))
    assert np.mean(right) > 0.5 + 0.5 * np.mean(empty)
    both = ElectrodeSegmentation((network,), inversion=ElectrodeInversion(material=16, triangles=20), nodes=NODES)(seen)
    assert np.allclose(both.at(points[inside]).sum(axis=0), 1)
