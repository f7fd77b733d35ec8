"""Measured pumping tests: the Horkheimer Insel, eight wells, four tests, transmissivity from late drawdowns.

The data were taken from the thesis of Schad (Tübingen, 1997) for GeoStat-Examples/welltestpy-field-site-analysis (MIT,
Zenodo 4139373) and are not part of this project: `--data` names the folder that holds `horkheim.cmp`. Readings are
differences of drawdown between wells at late times. Their errors are those in time and what reciprocity shows: drawdown
at B by pumping at A, per rate, is that at A by pumping at B in any aquifer whose law is linear, at any time.
"""

import time
from dataclasses import dataclass, replace
from itertools import combinations
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import Delaunay

from nipde.boundary import Boundary, Dirichlet, Neumann
from nipde.context.sensor_pairs import SensorPairs
from nipde.errors import NipdeError
from nipde.estimators.inverse.nuisance import NuisanceKind
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.estimators.inverse.sensor_posterior import SensorPosterior
from nipde.grid import Axis, Grid
from nipde.kernels.refined import RefinedLaw
from nipde.measurements.pumping_tests import PumpingCampaign

SEED = 0
NAME = "horkheim.cmp"
#: In s: late times begin; drawdowns are compared at.
SINCE, AT = 2000.0, 5000.0
#: In m: the box around the wells, spacings of its nodes and of the material; box and spacing of the stored map.
SIZE, SPACING, MATERIAL, MAP, MAP_SPACING = 140.0, 2.0, 6.0, 64.0, 2.0
#: Ranges of the prior's correlation that are tried, √8/κ in m: the first is that of the estimator's own.
RANGES = (30.0, 15.0)
NORMAL = 1.645
#: Estimates of others from the same four tests, with their own model: results/01_estimate/all_hh of the source.
PUBLISHED = {"log_transmissivity": -3.725, "log_variance": 1.992, "length": 9.655, "log_storativity": -2.809}


@dataclass(frozen=True)
class Row:
    """What is assumed."""

    name: str
    size: float = SIZE
    boundary: tuple[Boundary, Boundary] = (Dirichlet(), Dirichlet())
    since: float = SINCE
    #: Whether what reciprocity shows is an error of the readings.
    reciprocal: bool = True
    nuisance: tuple[NuisanceKind, ...] = ("level",)
    #: Readings that are left out: test and well.
    without: tuple[tuple[str, str], ...] = ()


ROWS = (
    Row("box of 140 m, value 0 around"),
    Row("box of 100 m", size=100.0),
    Row("box of 200 m", size=200.0),
    Row("no flow in the west and east", boundary=(Neumann(), Dirichlet())),
    Row("no flow in the north and south", boundary=(Dirichlet(), Neumann())),
    Row("readings from 1,000 s on", since=1000.0),
    Row("readings from 3,000 s on", since=3000.0),
    Row("errors from the scatter in time alone", reciprocal=False),
    Row("rates may be off", nuisance=("level", "gain")),
    Row("without p16 and p43 in test p05", without=(("p05", "p16"), ("p05", "p43"))),
)


def measure(*, data: Path | None = None, quick: bool = False) -> dict[str, Any]:
    """Transmissivity by what is assumed, reciprocity, and tests predicted from the others."""
    path = None if data is None else Path(data) / NAME
    if path is None or not path.is_file():
        raise NipdeError(
            expected=f"--data with a folder that holds {NAME}", got=str(data),
            remedy="it is published with GeoStat-Examples/welltestpy-field-site-analysis, folder data (Zenodo 4139373)",
        )  # fmt: skip
    campaign = PumpingCampaign.read(path)
    gaps = reciprocity(campaign)
    error = float(np.sqrt(np.mean([gap["gap"] ** 2 for gap in gaps]) / 2))
    rows, law, first = [], None, None
    for row in ROWS[: 1 if quick else None]:
        found, estimate, wells = estimated(row, campaign, error)
        law, first = (estimate, wells) if law is None else (law, first)
        assert first is not None
        rows.append({**found, "apart": float(np.abs(wells - first).max())})
    assert law is not None
    return {
        "file": NAME, "sha256": campaign.sha256, "since": SINCE, "at": AT, "error": error, "published": PUBLISHED,
        "wells": {name: list(place) for name, place in campaign.wells.items()},
        "late": late(campaign), "reciprocity": gaps, "rows": rows, "map": mapped(law, campaign),
        "left_out": [left_out(number, campaign, error) for number in range(1 if quick else len(campaign.tests))],
    }  # fmt: skip


def late(campaign: PumpingCampaign) -> list[dict[str, Any]]:
    """Of every test: slopes per rate, which wells have reached the common one, transmissivity by slope and by Thiem."""
    found = []
    for test in campaign.tests:
        lines = test.late(since=SINCE)
        slope = next(iter(lines.values())).common_slope / test.rate
        wells = {
            well: {
                "distance": round(campaign.distance(well, test.well), 2), "level": one.at(AT) / test.rate,
                "deviation": one.deviation / test.rate, "slope": one.slope / test.rate,
                "slope_deviation": one.slope_deviation / test.rate, "steady": one.steady,
            } for well, one in lines.items()
        }  # fmt: skip
        found.append(
            {"test": test.name, "rate": test.rate, "slope": slope, "by_slope": 1 / (4 * pi * slope), "wells": wells}
        )
    return found


def reciprocity(campaign: PumpingCampaign) -> list[dict[str, Any]]:
    """Drawdowns per rate at one time, of every two pumped wells both ways."""
    tests = {test.well: test for test in campaign.tests}
    lines = {well: test.late(since=SINCE) for well, test in tests.items()}
    found = []
    for first, second in combinations(tests, 2):
        there, back = lines[first][second], lines[second][first]
        values = there.at(AT) / tests[first].rate, back.at(AT) / tests[second].rate
        deviation = float(np.hypot(there.deviation / tests[first].rate, back.deviation / tests[second].rate))
        found.append(
            {"wells": [first, second], "drawdowns": list(values), "gap": values[0] - values[1], "deviation": deviation}
        )
    return found


def pairs_of(row: Row, campaign: PumpingCampaign, error: float) -> tuple[SensorPairs, np.ndarray]:
    """Readings, and the position of the first node."""
    origin = np.mean(list(campaign.wells.values()), axis=0) - row.size / 2
    grid = Grid(tuple(Axis(round(row.size / SPACING) + 1, row.size, boundary) for boundary in row.boundary))
    place = (float(origin[0]), float(origin[1]))
    pairs = campaign.sensor_pairs(grid, origin=place, since=row.since, error=error if row.reciprocal else 0.0)
    names, tests = list(campaign.wells), [test.name for test in campaign.tests]
    readings = pairs.readings.clone()
    for test, well in row.without:
        readings[tests.index(test), names.index(well)] = np.nan
    return replace(pairs, readings=readings), origin


def inversion(row: Row, *, choice: bool) -> SensorInversion:
    """A smooth field; with `choice` also one value everywhere and phases."""
    return SensorInversion(
        nuisance=row.nuisance, homogeneous=choice,
        material=round(row.size / MATERIAL), solver=round(row.size / SPACING),
        piecewise_constant=None if choice else False,
        longer_correlations=tuple(8**0.5 * row.size / one for one in RANGES),
    )  # fmt: skip


def estimated(row: Row, campaign: PumpingCampaign, error: float) -> tuple[dict[str, Any], RefinedLaw, np.ndarray]:
    """The law, and log T at the wells."""
    start = time.process_time()
    pairs, origin = pairs_of(row, campaign, error)
    law = inversion(row, choice=row == ROWS[0]).law(pairs)
    places = np.array(list(campaign.wells.values())) - origin
    logs, deviations = law.log_coefficient_at(places), posterior_of(law).log_deviation_at(places)
    field = law.log_coefficient_at(inside(places))
    kept = ("model", "chi_square", "effective_dof", "readings", "criteria", "noise", "discretisation")
    summary = {name: law.summary[name] for name in kept}
    return {
        "name": row.name, **summary, "wells": np.exp(logs).tolist(), "factors": np.exp(NORMAL * deviations).tolist(),
        "mean": float(np.exp(field.mean())), "deviation": float(field.std()), "thiem": thiem(pairs),
        "scores": {name: round(float(value), 1) for name, value in law.bands.outlier_test.scores.items()},
        "outside": law.summary["outside"], "seconds": round(time.process_time() - start, 1),
    }, law, logs  # fmt: skip


def posterior_of(law: RefinedLaw) -> SensorPosterior:
    """That of a fit to sensors."""
    assert isinstance(law.posterior, SensorPosterior)
    return law.posterior


def inside(places: np.ndarray) -> np.ndarray:
    """Points between the wells."""
    low, high = places.min(axis=0), places.max(axis=0)
    lattice = np.stack(np.meshgrid(*(np.arange(*ends) for ends in zip(low, high, strict=True))), -1).reshape(-1, 2)
    return np.asarray(lattice[Delaunay(places).find_simplex(lattice) >= 0])


def mapped(law: RefinedLaw, campaign: PumpingCampaign) -> dict[str, Any]:
    """Transmissivity, factor of its band of 90 % and how identifiable it is, rows from the south."""
    centre = np.mean(list(campaign.wells.values()), axis=0)
    line = np.arange(-MAP / 2, MAP / 2 + 1e-9, MAP_SPACING)
    x, y = np.meshgrid(centre[0] + line, centre[1] + line)
    points = np.stack([x, y], -1).reshape(-1, 2) - (centre - SIZE / 2)
    posterior = posterior_of(law)
    fields = {
        "transmissivity": np.exp(law.log_coefficient_at(points)),
        "factor": np.exp(NORMAL * posterior.log_deviation_at(points)),
        "identifiable": posterior.identifiable_at(points),
    }
    between = Delaunay(np.array(list(campaign.wells.values()))).find_simplex(np.stack([x, y], -1).reshape(-1, 2)) >= 0
    shares = {"between": float(fields["identifiable"][between].mean()),
              "outside": float(fields["identifiable"][~between].mean())}  # fmt: skip
    digits = {name: [float(f"{one:.3g}") for one in field] for name, field in fields.items()}
    return {"x": np.round(x[0], 2).tolist(), "y": np.round(y[:, 0], 2).tolist(), **digits, "shares": shares}


def thiem(pairs: SensorPairs) -> dict[str, float]:
    """One T for an aquifer without end: s = -Q/2πT ln r + a level per test; 90 % by the spread of the residuals."""
    slopes, values = centred_thiem(pairs)
    size = float(np.sum(slopes * values) / np.sum(slopes**2))  # 1/T
    spread = float(np.sum((values - size * slopes) ** 2) / (len(values) - 1 - pairs.count))
    share = np.sqrt(spread / np.sum(slopes**2)) / size
    return {"transmissivity": 1 / size, "factor": float(np.exp(NORMAL * share)), "residual": float(np.sqrt(spread))}


def centred_thiem(pairs: SensorPairs) -> tuple[np.ndarray, np.ndarray]:
    """-Q/2π ln r and the readings, each per rate, less its mean over the wells of the test."""
    slopes, values = [], []
    weights, points = pairs.grid.weights, np.stack([x.ravel() for x in pairs.grid.coordinates], -1)
    for load, readings in zip(pairs.loads[:, 0].numpy(), pairs.readings.numpy(), strict=True):
        inflow = (load * weights).ravel()
        rate, seen = inflow.sum(), np.isfinite(readings)
        distance = np.hypot(*(pairs.sensors.points[seen] - inflow @ points / rate).T)
        slope, value = -np.log(distance) / (2 * pi), readings[seen] / rate
        slopes.append(slope - slope.mean())
        values.append(value - value.mean())
    return np.concatenate(slopes), np.concatenate(values)


def left_out(number: int, campaign: PumpingCampaign, error: float) -> dict[str, Any]:
    """One test predicted from the three others, up to its level: differences per rate, and how many a band holds."""
    row = ROWS[0]
    pairs, _ = pairs_of(row, campaign, error)
    others, rate = [one for one in range(pairs.count) if one != number], campaign.tests[number].rate
    left = pairs.take([number])
    law = inversion(row, choice=False).law(pairs.take(others))
    best = posterior_of(law).best
    seen = np.isfinite(left.readings[0].numpy())
    centring = np.eye(seen.sum()) - 1 / seen.sum()
    problem = best.problem.with_pairs(left, best)
    near = problem.coarse.linearised(best.fit.model, best.fit.parameters)
    jacobian = centring @ near.jacobian[:, seen, 0].T
    predicted = problem.fine.predicted(best.fit.model, best.fit.parameters)[seen, 0]
    apart = centring @ (left.readings[0].numpy()[seen] - predicted)
    spread = jacobian @ np.linalg.solve(best.curvature + best.precision, jacobian.T)
    noise = centring @ np.diag(problem.stated[seen, 0] ** 2) @ centring  # type: ignore[index]
    widened = posterior_of(law).widened
    band = NORMAL * widened * np.sqrt(np.diag(spread) + np.diag(noise))
    slopes, values = centred_thiem(left)
    return {
        "test": campaign.tests[number].name, "readings": int(seen.sum()),
        "smooth": float(np.sqrt(np.mean(apart**2))) / rate, "within": float(np.mean(np.abs(apart) <= band)),
        "thiem": float(np.sqrt(np.mean((values - slopes / thiem(pairs.take(others))["transmissivity"]) ** 2))),
        "spread": float(np.sqrt(np.mean(values**2))),
    }  # fmt: skip
