"""Do the random fields follow their law? Spectrum of many samples against (-Δ + τ²)^-α, and against wrong laws."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import chi2

from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField
from nipde.spectral.basis import Cosine

SEED = 7
GRID = Grid.uniform(33)


def measure(*, quick: bool) -> dict[str, Any]:
    """Fitted α and τ with standard errors, p-values of right and wrong laws, agreement between resolutions."""
    samples = 2_000 if quick else 20_000
    rows = []
    for alpha in (1.0, 4.0):
        law = GaussianField(alpha)
        power = _mode_power(law, samples)
        fitted, errors = _fit(power, samples, law)
        wrong = {
            f"{name} {factor:+.0%}": p_value(power, samples, replace(law, **{name: getattr(law, name) * (1 + factor)}))
            for name in ("alpha", "tau")
            for factor in (-0.05, 0.05)
        }
        rows.append({
            "alpha": alpha, "tau": law.tau, "fitted_alpha": fitted[0], "fitted_tau": fitted[1],
            "standard_error_alpha": errors[0], "standard_error_tau": errors[1],
            "p_value": p_value(power, samples, law), "p_value_of_wrong_laws": wrong,
        })  # fmt: skip
    return {"samples": samples, "laws": rows, **_resolutions()}


def p_value(power: np.ndarray, samples: int, law: GaussianField) -> float:
    """Two-sided chi-square test that the modes' powers are those of the law.

    N·power/target is χ² with N degrees of effective_dof per mode. A wrong spectrum lifts some modes and lowers others,
    so the squared standardised deviations are summed over modes rather than the powers themselves.
    """
    ratio = power / law.amplitudes(GRID).ravel()[1:] ** 2
    deviations = (ratio - 1) * np.sqrt(samples / 2)
    return float(chi2.sf(np.sum(deviations**2), len(deviations)))


def _mode_power(law: GaussianField, samples: int) -> np.ndarray:
    """Mean square of every cosine coefficient, found by projecting the sampled fields."""
    axis = GRID.axes[0]
    project = (axis.weights[:, None] * Cosine(axis.length, law.waves + 1).values(axis.coordinates)).T
    rng, total, block = np.random.default_rng(SEED), 0.0, 1_000
    for _ in range(samples // block):
        fields = law.sample(GRID, rng=rng, count=block)
        total = total + np.sum((project @ fields @ project.T) ** 2, axis=0)
    return np.asarray(total).ravel()[1:] / samples


def _fit(power: np.ndarray, samples: int, law: GaussianField) -> tuple[list[float], list[float]]:
    """Maximum-likelihood α and τ, and their standard errors from the curvature."""

    def deviance(parameters: np.ndarray) -> float:
        target = GaussianField(*parameters).amplitudes(GRID).ravel()[1:] ** 2
        return float(samples / 2 * np.sum(np.log(target) + power / target))

    start = np.array([law.alpha, law.tau])
    result = minimize(deviance, start * 1.1, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-7}).x
    step = 1e-3 * start
    at = [[deviance(result + np.array([i, j]) * step) for j in (-1, 0, 1)] for i in (-1, 0, 1)]
    mixed = (at[2][2] - at[2][0] - at[0][2] + at[0][0]) / 4
    curvature = np.array([[at[2][1] - 2 * at[1][1] + at[0][1], mixed], [mixed, at[1][2] - 2 * at[1][1] + at[1][0]]])
    covariance = np.linalg.inv(curvature / np.outer(step, step))
    return result.tolist(), np.sqrt(np.diag(covariance)).tolist()


def _resolutions() -> dict[str, Any]:
    """The same seed on nested grids, and what a longer sum adds against the truncated tail's expectation."""
    fine, law, count = Grid.uniform(81), GaussianField(1.0), 200
    reference = law.sample(fine, rng=np.random.default_rng(SEED), count=count)
    gaps = {}
    for nodes in (41, 21):
        coarse = Grid.uniform(nodes)
        field = law.sample(coarse, rng=np.random.default_rng(SEED), count=count)
        gaps[str(nodes)] = float(np.max(np.abs(fine.restrict(reference, to=coarse) - field)))
    longer = GaussianField(1.0, waves=40)
    added = longer.sample(fine, rng=np.random.default_rng(SEED), count=count) - reference
    expected = np.sum(longer.amplitudes(fine) ** 2) - np.sum(law.amplitudes(fine) ** 2)
    return {
        "same_seed_gap_to_81": gaps,
        "tail_power_over_expected": float(np.mean(fine.integrate(added**2)) / expected),
        "tail_standard_error": float(np.std(fine.integrate(added**2)) / np.sqrt(count) / expected),
    }
