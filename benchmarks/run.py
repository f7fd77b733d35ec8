"""The measurements by name, and running one of them."""

import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.finished_rows import earlier
from benchmarks.record import write_record
from nipde.errors import NipdeError, meant

#: Name -> what it shows; the module of that name has `measure(quick=...)` and a SEED.
MEASUREMENTS = {
    "physics": "orders of convergence, symmetry, conservation and residuals of the solvers",
    "shapes": "specimens of any plane shape: orders, electrodes, finite elements beside, time of the cut cells",
    "truths": "how exact the responses are that estimators are judged by, against those of finer meshes",
    "outlines": "files to the report on a disc, a plate with a hole and an aquifer: bands, nodes outside, time",
    "random-fields": "spectrum of 20,000 random fields against its law, and agreement between grids",
    "transforms": "the FFT against the matrix product, by grid size and boundary",
    "solves": "multigrid to 2049² and 129³ at contrasts 4 and 1,000: steps and time, beside other solvers",
    "imports": "time and modules of `nipde.load` in a fresh process, beside another source tree with --against",
    "params": "parameter counts of the paper's models, rebuilt",
    "step": "one training step of NIPS: speed and memory against the plain transcription and against bare products",
    "step-cost": "operations and bytes of one training step of the paper's models, counted on the meta device",
    "recipes": "ways to train NIPS at equal processor time: error on validation systems, three seeds",
    "channel-roles": "which pairs trained NIPS reads, what their order does, and channels divided from the start",
    "shifted-loads": "the paper's OOD scenario 1: smooth loads in the context, in the queries, or in both",
    "tokens": "time and memory of NIPS and NAO from 441 to 65,536 nodes, and NAO's memory limit as a prediction",
    "symmetry": "change of every estimator's kernel under symmetries of the pairs and of the square",
    "baselines": "errors of the classical estimators on Darcy flow, without and with noise",
    "independent": "weights and baselines on data of finite elements eight times finer: errors, bands, outliers",
    "conditioned": "Conditioned NIPS: errors by pairs, noise, grid and law, beside the classical estimators",
    "conditioned-laws": "the same for the general weights over their range, and for advection-diffusion",
    "conditioned-cost": "time of Conditioned NIPS over that of its bare products, and its growth with the grid",
    "retained-modes": "error of NIPS and gated Conditioned NIPS against their retained modes on 21², 41² and 81² nodes",
    "context-growth": "20 pairs to the kernel by Conditioned NIPS from 81² to 1025² nodes: time, memory, their growth",
    "interruptions": "training killed, terminated, and out of disk; every end against that of an undisturbed run",
    "processes": "two training processes against one: loss curves, and one of them killed",
    "spread": "rows of a grid over 2, 3, 4 processes: equality, bytes, memory, time, kills; tiles of rows to 2048²",
    "spread-gated": "the same of gated Conditioned NIPS, whose modes are all retained",
    "throughput": "samples per second of training against the bare loop",
    "generation": "cost against bare NumPy and SciPy, two workers against one, memory, the paper's data sets",
    "array-jobs": "100,000 systems by four jobs, two of them killed, against one run",
    "dask-tasks": "tasks per second of a dask scheduler to 100,000 tasks that do nothing",
    "cost-model": "bytes, files and processor time of runs as predicted, and forecasts for 10⁵ and 10⁶ systems at 256²",
    "mechanics": "nonlinear bodies: consistency, orders, published energies, and the cost of a solve",
    "formats": "every file format, clean, with gaps, scattered, with marked gaps, without units",
    "mistakes": "150 mistakes with files: typed errors, warnings, or shown in the print",
    "discovery": "phases by every readout, bands on b, the inversion by matching a kernel, and its gradients",
    "dic": "fifty specimens from exported image correlation, beside Tikhonov and total variation",
    "steel-plate": "E and ν of a measured tensile test on steel, by what is assumed of the load; needs --data",
    "tank": "bodies in a measured water tank by impedance tomography, with the score of its challenge; needs --data",
    "tank-learned": "the same with three networks trained on simulations (`benchmarks.tank_training`); needs --data",
    "pumping": "transmissivity from measured pumping tests, with reciprocity and left-out tests; needs --data",
    "others": "pyEIT, SimPEG, pyGIMLi and torch-fem on the same data: errors and processor time; the tank needs --data",
    "design": "ten designed loads against random ones: how many of these give the same held-out error",
    "posterior": "posterior deviations by low rank against exact ones, and their cost at up to a million unknowns",
    "posterior-coverage": "share of true log b within the low-rank posterior's bands, on data of finite elements",
    "sampled-nodes": "NIPS trained on random parts of the nodes, beside all of them",
    "sensors-3d": "a cube from 60 sensors, on data of finite elements",
    "cores": "a core heated at its rim from 60 sensors, on data of finite elements that follow it",
    "three-dimensions": "conduction in a cube of 33³ nodes beside total variation, on data of finite elements",
    "hostile": "100,000 mutated descriptions, units, weights, manifests and results: errors without a type, hangs",
    "uncertainty": "share of true values within bands by pairs and noise, and which systems are flagged as outliers",
}


#: Long ones, with a budget and a folder in which they go on: name -> what it shows.
CAMPAIGNS = {
    "darcy": "the paper's Darcy tables, trained and judged",
    "reference": "sensors to material on data of finite elements eight times finer",
    "specimens": "sensors to material on discs, plates with holes, Ls and blobs, loads inside or on the outline",
    "tension": "plane solids on a test bench: camera points to the modulus, beside classical penalties",
    "solids": "Mechanical MNIST and tissue: every estimator, larger loads, and the identified materials",
}


def run_campaign(name: str, budget: str, *, results: Path, **options: Any) -> Path:
    """Run what is not finished within a budget, and write results/NAME-BUDGET.json.

    Finished is what the folder of runs or the record from before holds; of cases asked for by name, the folder alone.
    """
    module = import_module(f"benchmarks.{name}")
    if budget not in module.BUDGETS:
        raise NipdeError(expected=f"a budget among {', '.join(module.BUDGETS)}", got=repr(budget))
    start = time.perf_counter()
    before = earlier(results / f"{name}-{budget}.json")
    return write_record(
        f"{name}-{budget}",
        module.measure(budget=budget, before=before, **options),
        results=results,
        command=f"python -m benchmarks {name} --budget {budget}",
        seed=module.SEED,
        seconds=time.perf_counter() - start,
    )


def run(name: str, *, results: Path, quick: bool = False, **options: Any) -> Path:
    """Measure and write results/NAME.json; `options` are those of the measurement itself."""
    if name not in MEASUREMENTS:
        known = (*MEASUREMENTS, *CAMPAIGNS, "tables")
        raise NipdeError(
            expected=f"one of {', '.join(known)}", got=repr(name), remedy=meant(name, known, otherwise="see --help")
        )
    module = import_module(f"benchmarks.{name.replace('-', '_')}")
    start = time.perf_counter()
    measured = module.measure(quick=quick, **options)
    return write_record(
        name,
        measured,
        results=results,
        command=f"python -m benchmarks {name}{' --quick' if quick else ''}",
        seed=module.SEED,
        seconds=time.perf_counter() - start,
    )
