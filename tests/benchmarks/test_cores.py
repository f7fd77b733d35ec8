"""Output error on a core whose temperatures come from scikit-fem, on a mesh that follows its rim."""

import numpy as np
import pytest

from benchmarks import cores
from benchmarks.heated_core import CENTRE, HEIGHT, LOW, RADIUS, Heater, material, points_inside, temperatures
from nipde.estimators.inverse import sensor_inversion


def test_heat_of_one_layer_flows_down_to_the_lower_end():
    """Far above a heater the temperature is the same everywhere; without sources it grows evenly below."""
    heater = Heater(0.7, HEIGHT)
    rng = np.random.default_rng(0)
    points = points_inside(rng, 40, rim=0.9)
    (warm,) = temperatures(lambda x, y, z: np.full_like(x, 2.5), [heater], points, (28, 40))
    low = points[:, 2] < LOW + 0.3 * HEIGHT
    slope = warm[low] / (points[low, 2] - LOW)
    # All heat leaves through the lower end: flux = b · slope, on average over the section.
    turn, up = np.meshgrid(np.linspace(0, 2 * np.pi, 400, endpoint=False), LOW + HEIGHT * (np.arange(400) + 0.5) / 400)
    at = (CENTRE + RADIUS * np.cos(turn), CENTRE + RADIUS * np.sin(turn), up)
    total = heater(*at).mean() * 2 * np.pi * RADIUS * HEIGHT
    assert np.mean(slope) == pytest.approx(total / (2.5 * np.pi * RADIUS**2), rel=0.05)


@pytest.mark.parametrize("kind", ["layer", "ball"])
def test_interfaces_may_cut_elements(kind):
    """With one conductivity at every point of an element the change is 0.24 %."""
    rng = np.random.default_rng(2)
    conductivity, points = material(kind, rng), points_inside(rng, 60, rim=0.9)
    coarse, fine = (temperatures(conductivity, [Heater(1.0, 0.08)], points, size) for size in ((14, 20), (28, 40)))
    assert np.linalg.norm(coarse - fine) < 0.002 * np.linalg.norm(fine)


def test_a_layer_is_found_with_bands_that_hold(monkeypatch):
    monkeypatch.setattr(cores, "ELEMENTS", (28, 40))
    monkeypatch.setattr(cores, "COARSER", (20, 28))
    monkeypatch.setattr(sensor_inversion, "MATERIAL_3D", 8)
    monkeypatch.setattr(sensor_inversion, "SOLVER_3D", 20)
    row = cores.core("layer", 0)
    assert row["model"] == "2 phases"
    assert row["data_error"] < 0.001
    assert row["held_out"] < 0.01
    assert row["log_median"] < 0.02
    assert min(row["responses_within"], row["material_within"]) > 0.8
