"""Sensors to material on reference data: finite elements eight times finer, materials with details below the grid.

Responses are extrapolated from two meshes. Tables: `rows` by family, loads, pairs, noise and sensors; `strata`, all of
them crossed; `calibration`, the same strata with other seeds, from which the factors of bands come (`band_factors`);
`misspecified`, measurements that differ from what is said of them; `faults`, one or two faulty sensors; `penalties`,
classical penalties on the same grids and sensors. Every system is one job that leaves a file: an interrupted campaign
goes on, and tables grow evenly. Errors are against the solver's own mesh: held-out responses without noise, and the
coefficient in every cell of it.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args
from zlib import crc32

import numpy as np
import torch

from benchmarks import band_factors, campaign, misspecified
from benchmarks.faulty_readings import Fault, FaultOfPair, with_fault, with_faulty_pair
from nipde.atomic import write_bytes
from nipde.context.pairs import Pairs
from nipde.context.sensor_pairs import SensorPairs
from nipde.data.plan import Plan
from nipde.data.reference import Family, LoadKind, ReferenceDarcyRecipe
from nipde.estimators.inverse.candidate import expectation, is_significant
from nipde.estimators.inverse.material_models import Penalty
from nipde.estimators.inverse.nuisance import NuisanceKind
from nipde.estimators.inverse.sensor_inversion import SensorInversion
from nipde.kernels.refined import SMOOTH, RefinedKernel

SEED = 2029
#: Systems that bands are calibrated on are in no other table.
CALIBRATION_SEED = 3041
#: Systems of every row, by budget and table.
BUDGETS = {
    "quick": {"rows": 1, "strata": 0, "calibration": 0, "misspecified": 0, "penalties": 0, "faults": 0},
    "standard": {"rows": 50, "strata": 1, "calibration": 2, "misspecified": 20, "penalties": 1, "faults": 10},
    "long": {"rows": 50, "strata": 5, "calibration": 5, "misspecified": 20, "penalties": 10, "faults": 50},
}
QUERIES = 15
#: Half width of a band of 90 % over the deviation, of a normal distribution.
NORMAL = 1.645
#: Shares at which quantiles of errors over deviations are kept.
SHARES = (*np.round(np.arange(0.05, 1, 0.05), 2).tolist(), 0.99)
#: Cells at the rim that are not judged, as a share of the length: no response depends on them much.
RIM = 0.05


@dataclass(frozen=True)
class Row:
    """One kind of experiment."""

    name: str
    family: Family = "two-phase"
    loads: LoadKind = "middle"
    pairs: int = 50
    noise: float = 0.01
    #: Measured nodes; 0: all of them.
    sensors: int = 0
    #: In which way what is said is wrong, if it is.
    case: str = ""
    #: What one sensor, or two, read instead of what is there, or in which way the loads of one pair, or two, are wrong.
    fault: Fault | None = None
    faulty_pair: FaultOfPair | None = None
    penalty: Penalty | None = None
    #: Whether phases that vary are among the models.
    varying: bool = True
    nuisance: tuple[NuisanceKind, ...] = ()
    table: str = "rows"

    @property
    def estimator(self) -> SensorInversion:
        """As it comes, but for the row's penalty."""
        return SensorInversion(penalty=self.penalty, nuisance=self.nuisance, varying=self.varying)


ROWS = (
    Row("two phases"), Row("log-normal", family="log-normal"), Row("rough loads", loads="rough"),
    Row("circles", family="circles"), Row("Voronoi", family="voronoi"), Row("stripes", family="stripes"),
    Row("three phases", family="three-phase"), Row("varying phases", family="varying"),
    Row("varying phases, uniform or smooth models", family="varying", varying=False), Row("no noise", noise=0.0),
    Row("10 pairs", pairs=10), Row("log-normal, 10 pairs", family="log-normal", pairs=10), Row("5 % noise", noise=0.05),
    Row("half of the nodes", sensors=180), Row("36 sensors", sensors=36),
    Row("30 sensors, 10 pairs", sensors=30, pairs=10),
    Row("25 points, 8 wells", family="log-normal", loads="wells", pairs=8, sensors=25),
)  # fmt: skip
FAMILIES: tuple[Family, ...] = ("two-phase", "log-normal", "circles", "voronoi", "stripes", "three-phase")


def strata(
    table: str, *, noise: tuple[float, ...], sensors: tuple[int, ...], families: tuple[Family, ...] = FAMILIES
) -> tuple[Row, ...]:
    """Families × pairs × noise × sensors."""
    return tuple(
        Row(f"{family}, {pairs} pairs, {100 * level:g} % noise, {count or 'all'} sensors", family, "middle", pairs,
            level, count, table=table)
        for pairs, level, count, family in product((5, 10, 50), noise, sensors, families)
    )  # fmt: skip


STRATA = strata("strata", noise=(0.0, 0.001, 0.01, 0.05), sensors=(30, 36, 0))
#: Phases that vary are a model of their own, so its bands need systems of their own.
CALIBRATION = (
    *strata("calibration", noise=(0.0, 0.01, 0.05), sensors=(30, 0)),
    *strata("calibration", noise=(0.0, 0.01, 0.05), sensors=(30, 0), families=("varying",)),
)
MISSPECIFIED = (
    *(Row(f"{case}", case=case, table="misspecified") for case in misspecified.CASES),
    *(Row(f"{case}, told", case=case, nuisance=kinds, table="misspecified")
      for case, kinds in misspecified.NUISANCES.items()),
)  # fmt: skip
FAULTY = tuple(
    Row(f"{fault}, {sensors} sensors", pairs=20, sensors=sensors, fault=fault, table="faults")
    for fault, sensors in product(get_args(Fault), (36, 180))
) + tuple(
    Row(f"{fault}, {sensors} sensors", pairs=20, sensors=sensors, faulty_pair=fault, table="faults")
    for fault, sensors in product(get_args(FaultOfPair), (36, 180))
)
#: Where a prior has to earn its place: few pairs, much noise, few sensors; and where it need not.
COMPARED: tuple[Penalty | None, ...] = (None, "tikhonov", "total-variation", "edges")
SETTINGS = ((50, 0.01, 0), (10, 0.05, 0), (10, 0.01, 30))
PENALTIES = tuple(
    Row(f"{family}, {pairs} pairs, {100 * noise:g} % noise, {sensors or 'all'} sensors, {penalty or 'chosen'}", family,
        "middle", pairs, noise, sensors, penalty=penalty, table="penalties")
    for family, (pairs, noise, sensors), penalty
    in product(FAMILIES, SETTINGS, COMPARED)
)  # fmt: skip
ALL = (*ROWS, *STRATA, *CALIBRATION, *MISSPECIFIED, *FAULTY, *PENALTIES)
WITH_INTERFACES = {(row.table, row.name) for row in ALL if row.family != "log-normal"}


def measure(
    *, budget: str, before: Any = None, work: Path, only: list[str] | None = None, workers: int = 1,
    progress: Any = lambda finished: None,
) -> dict[str, Any]:  # fmt: skip
    """Every row over the systems of the budget, or over those finished; `only` names tables or rows."""
    rows = [row for row in ALL if not only or row.name in only or row.table in only]
    folder = work / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    kept = [one for one in (before or {}).values() if "ratios" in one]
    stale = [one for one in kept if _outdated(one)]
    before = {one["name"]: one for one in kept if not _outdated(one)}
    systems = BUDGETS[budget]
    jobs = [(row, number) for number in range(max(systems.values())) for row in rows if number < systems[row.table]]
    # What is interrupted is spread over all tables and rows.
    jobs.sort(key=lambda job: (job[1] + crc32(job[0].name.encode()) / 2**32) / systems[job[0].table])
    known = campaign.measured_systems(
        jobs, judged, name=_name, path=_path, folder=folder, before=before, count=workers, progress=progress
    )
    again = {(one["table"], one["row"]) for one in known}
    return recorded([*known, *(one for one in stale if (one["table"], one["row"]) not in again)])


def recorded(systems: list[dict[str, Any]]) -> dict[str, Any]:
    """Systems with what calibrated bands hold of them, and their means by row."""
    rows = {(row.table, row.name): row for row in ALL}
    known = [one for one in systems if (one["table"], one["row"]) in rows]
    known = [{**one, "pairs": rows[one["table"], one["row"]].pairs} for one in known]
    factors = band_factors.strata([one for one in known if one["table"] == "calibration"], SHARES)
    judged_by = {row.table: {} if row.table == "calibration" else factors for row in ALL}
    known = [
        {**one, **band_factors.held(one, judged_by[one["table"]], SHARES), "warned": one["rings"] or unexplained(one)}
        for one in known
    ]
    each = {key: [one for one in known if (one["table"], one["row"]) == key] for key in rows}
    return {
        "rows": [summary(row, each[key]) for key, row in rows.items() if each[key]], "queries": QUERIES,
        "shares": list(SHARES), "factors": factors, "systems": known,
    }  # fmt: skip


def unexplained(one: dict[str, Any]) -> bool:
    """Whether the case is not covered, since the smooth material that was taken does not explain the readings."""
    found = is_significant(one["chi_square"], effective_dof=one["effective_dof"], count=one["readings"])
    return one["model"] in SMOOTH and found


def judged(row: Row, number: int, folder: Path) -> str:
    """One system, unless it was before."""
    torch.set_num_threads(1)
    experiment = experiment_of(row, number)
    start = time.process_time()
    kernel = row.estimator(experiment.context)
    seconds = time.process_time() - start
    found = {
        "name": _name(row, number),
        "table": row.table,
        "row": row.name,
        "seconds": round(seconds, 2),
        "trust_region": True,
        **assessed(kernel, experiment),
    }
    write_bytes(_path(folder, row, number), json.dumps(found).encode())
    return f"{row.name} {number}"


@dataclass(frozen=True, eq=False)
class Experiment:
    """Readings, and what is true of the system behind them: responses to other loads, and the material's cells."""

    context: SensorPairs
    loads: np.ndarray
    truth: np.ndarray
    fine: np.ndarray
    #: Nodes where the truth has no limit on finer meshes: those of wells and around them.
    beside: np.ndarray
    #: Nodes of faulty sensors, and faulty pairs.
    faulty: tuple[np.ndarray, np.ndarray] = (np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int))


def experiment_of(row: Row, number: int) -> Experiment:
    """Of a row, with seeds of its own."""
    seed = CALIBRATION_SEED if row.table == "calibration" else SEED
    if row.table in ("calibration", "strata"):  # one system each: no two rows have a material or noise in common
        seed += crc32(row.name.encode())
    rng = np.random.default_rng([seed, number])
    if row.case:
        one = misspecified.specimen(number, seed, pairs=row.pairs + QUERIES, case=row.case)
        said = misspecified.measured(one, row.case, rng, pairs=row.pairs)
        pairs = Pairs.from_arrays(said.loads, said.readings, grid=one.grid, noise=said.noise)
        loads, truth = one.loads[-QUERIES:], one.responses[-QUERIES:]
        return Experiment(SensorPairs.of(pairs), loads, truth, one.fine, np.zeros(loads.shape, dtype=bool))
    recipe = ReferenceDarcyRecipe(pairs=row.pairs + QUERIES, family=row.family, loads=row.loads, extrapolated=True)
    system = recipe.build(Plan(recipe, number + 1, seed).system_seed(number))
    assert system.fine is not None
    grid = recipe.grid
    loads, responses = (values[:, 0].astype(np.float64) for values in (system.loads, system.responses))
    context, queries, answers = loads[: row.pairs], loads[-QUERIES:], responses[-QUERIES:]
    chosen = grid.unknown.copy()
    if row.loads == "wells":  # observation points stand away from the wells
        chosen &= ~_around((context != 0).any(0))
    if row.sensors:
        kept = rng.choice(np.flatnonzero(chosen), row.sensors, replace=False)
        chosen = np.isin(np.arange(grid.size), kept).reshape(grid.shape)
    level = row.noise * float(np.sqrt(np.mean(responses[: row.pairs, chosen] ** 2)))
    noisy = responses[: row.pairs] + level * rng.standard_normal(context.shape)
    at, wrong = np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int)
    if row.fault is not None:
        noisy, at = with_fault(noisy, responses[: row.pairs], chosen, row.fault, rng)
    if row.faulty_pair is not None:
        noisy, wrong = with_faulty_pair(noisy, row.faulty_pair, rng)
    pairs = Pairs.from_arrays(context, noisy, grid=grid, mask=np.broadcast_to(chosen, noisy.shape), noise=level)
    beside = np.stack([_around(load != 0) & (row.loads == "wells") for load in queries])
    return Experiment(SensorPairs.of(pairs), queries, answers, system.fine[0].astype(np.float64), beside, (at, wrong))


def assessed(kernel: RefinedKernel, experiment: Experiment) -> dict[str, Any]:
    """Errors and what the kernel says of them; material at the four cells around every inner node."""
    law, inner = kernel.laws[0], kernel.grid.unknown
    at = inner & ~experiment.beside
    off = np.where(at, law.solve(experiment.loads) - experiment.truth, 0.0)
    errors = np.linalg.norm(off.reshape(len(off), -1), axis=1)
    sizes = np.linalg.norm(np.where(at, experiment.truth, 0.0).reshape(len(off), -1), axis=1)
    ratios = (np.abs(off) / np.maximum(law.posterior.response_deviation(experiment.loads), 1e-300))[at]
    fine = np.log(experiment.fine)
    log, middle = np.log(law.map_of(fine.shape)), np.log(6.0)
    rim = round(RIM * len(fine))
    judged_cells = np.s_[rim:-rim, rim:-rim]
    apart = np.abs(log - fine)[judged_cells]
    around, step = np.pad(fine, 1, mode="edge"), len(fine) // (kernel.grid.shape[0] - 1)
    corners = np.stack(
        [around[i : i + len(fine) + 1 : step, j : j + len(fine) + 1 : step] for i in (0, 1) for j in (0, 1)]
    )
    of_material = (np.abs(corners - law.log_coefficient) / law.posterior.log_deviation())[:, inner]
    # Of the posterior alone; what calibrated bands hold follows from the ratios.
    held = np.abs(off) <= NORMAL * law.posterior.response_deviation(experiment.loads)
    width = NORMAL * law.posterior.log_deviation()
    scores = {name: round(float(value), 2) for name, value in law.bands.outlier_test.scores.items()}
    nodes = np.rint(law.faulty_positions / np.array(kernel.grid.spacing)).astype(int)
    left_out = {*map(tuple, nodes.tolist()), *law.faulty_pairs}
    faulty = {*map(tuple, experiment.faulty[0].tolist()), *experiment.faulty[1].tolist()}
    return {
        "left_out": len(left_out & faulty), "kept": len(faulty - left_out), "left_out_wrongly": len(left_out - faulty),
        "held_out": float(np.mean(errors / sizes)), "within": float(held[at].mean()),
        "material_within": float(np.mean((np.abs(corners - law.log_coefficient) <= width)[:, inner])),
        "ratios": np.quantile(ratios, SHARES).round(3).tolist(),
        "material_ratios": np.quantile(of_material, SHARES).round(3).tolist(), "log_mean": float(apart.mean()),
        "log_median": float(np.median(apart)), "log_width": float(np.median(width[inner])),
        "phases_inside": float(np.mean(((log > middle) == (fine > middle))[judged_cells])),
        "rings": bool(law.bands.outlier_test.is_outlier), "scores": scores,
        **{name: law.summary[name] for name in SUMMARY},
    }  # fmt: skip


#: What is kept of a law's own summary.
SUMMARY = (
    "model", "chi_square", "effective_dof", "readings", "noise", "size", "discretisation", "model_error", "undecided",
    "interpolation", "material_nodes",
)  # fmt: skip


def summary(row: Row, each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the systems that are there."""
    means = ("held_out", "within", "material_within", "log_mean", "log_median", "log_width", "phases_inside",
             "chi_square", "effective_dof", "seconds", "rings", "warned")  # fmt: skip
    return {
        "row": row.name, **asdict(replace(row, nuisance=())), "systems": len(each),
        "outdated": sum(map(_outdated, each)),
        "models": dict(Counter(one["model"] for one in each)),
        **{name: sum(one.get(name, 0) for one in each) for name in ("left_out", "kept", "left_out_wrongly")},
        "held_out_median": float(np.median([one["held_out"] for one in each])),
        **{name: float(np.mean([one[name] for one in each])) for name in means},
        **{name: band_factors.mean_of(name, each) for name in band_factors.HELD},
        "chi_square_expected": float(np.mean([expectation(one["effective_dof"], one["readings"]) for one in each])),
        "held_out_worst": float(np.max([one["held_out"] for one in each])),
    }  # fmt: skip


def _outdated(one: dict[str, Any]) -> bool:
    """Measured before steps were bounded by trust regions, and another since: materials with interfaces.

    So are readings with little noise of responses that were not extrapolated. They stay until their row has others.
    """
    quiet = one["noise"] < 0.005 * one["size"] and "extrapolated" not in one
    return "trust_region" not in one and (quiet or (one["table"], one["row"]) in WITH_INTERFACES)


def _around(mask: np.ndarray) -> np.ndarray:
    """The nodes of a mask and their neighbours."""
    wide = np.pad(mask, 1)
    return np.any([wide[1 + i : mask.shape[0] + 1 + i, 1 + j : mask.shape[1] + 1 + j]
                   for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0)  # fmt: skip


def _name(row: Row, number: int) -> str:
    return f"{row.table}: {row.name} {number}"


def _path(folder: Path, row: Row, number: int) -> Path:
    stem = _name(row, number).replace(" ", "-").replace("%", "percent").replace(",", "").replace(":", "")
    return folder / f"{stem}.json"
