"""One record to its table, and where it comes from."""

from collections.abc import Callable
from typing import Any

from benchmarks.tables.archives import array_jobs, cost_model, dask_tasks, generation, integrity, kills
from benchmarks.tables.bench import steel_plate, tank, tank_learned, tension
from benchmarks.tables.conditioned import conditioned, context_growth, cost, laws
from benchmarks.tables.darcy import darcy
from benchmarks.tables.design import design
from benchmarks.tables.discovery import dic, discovery
from benchmarks.tables.estimators import baselines, symmetry
from benchmarks.tables.formats import formats
from benchmarks.tables.fuzz import fuzz, hostile
from benchmarks.tables.independent import independent
from benchmarks.tables.markdown import provenance
from benchmarks.tables.mechanics import mechanics
from benchmarks.tables.mistakes import mistakes
from benchmarks.tables.models import (
    channel_roles,
    imports,
    params,
    recipes,
    shifted_loads,
    step,
    step_cost,
    tokens,
    transforms,
)
from benchmarks.tables.others import others
from benchmarks.tables.posterior import coverage, posterior
from benchmarks.tables.pumping import pumping
from benchmarks.tables.reference import reference
from benchmarks.tables.retained_modes import retained_modes, sampled_nodes
from benchmarks.tables.shapes import outlines, shapes, specimens, truths
from benchmarks.tables.solids import solids
from benchmarks.tables.solvers import physics, random_fields, solves
from benchmarks.tables.three_dimensions import cores, sensors_3d, three_dimensions
from benchmarks.tables.training import interruptions, processes, spread, spread_gated, throughput
from benchmarks.tables.uncertainty import uncertainty

#: Name of a record -> what makes a table of what it measured.
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "physics": physics,
    "shapes": shapes,
    "truths": truths,
    "specimens-quick": specimens,
    "specimens-standard": specimens,
    "specimens-long": specimens,
    "outlines": outlines,
    "random-fields": random_fields,
    "transforms": transforms,
    "solves": solves,
    "imports": imports,
    "params": params,
    "step": step,
    "step-cost": step_cost,
    "tokens": tokens,
    "recipes": recipes,
    "channel-roles": channel_roles,
    "shifted-loads": shifted_loads,
    "symmetry": symmetry,
    "baselines": baselines,
    "independent": independent,
    "conditioned": conditioned,
    "conditioned-laws": laws,
    "conditioned-cost": cost,
    "retained-modes": retained_modes,
    "sampled-nodes": sampled_nodes,
    "context-growth": context_growth,
    "interruptions": interruptions,
    "processes": processes,
    "spread": spread,
    "spread-gated": spread_gated,
    "throughput": throughput,
    "generation": generation,
    "array-jobs": array_jobs,
    "dask-tasks": dask_tasks,
    "cost-model": cost_model,
    "integrity": integrity,
    "kills": kills,
    "mechanics": mechanics,
    "formats": formats,
    "mistakes": mistakes,
    "fuzz": fuzz,
    "hostile": hostile,
    "discovery": discovery,
    "dic": dic,
    "design": design,
    "uncertainty": uncertainty,
    "posterior": posterior,
    "posterior-coverage": coverage,
    "sensors-3d": sensors_3d,
    "cores": cores,
    "three-dimensions": three_dimensions,
    "darcy-trial": darcy,
    "darcy-quick": darcy,
    "darcy-standard": darcy,
    "darcy-long": darcy,
    "darcy-paper": darcy,
    "reference-quick": reference,
    "reference-standard": reference,
    "reference-long": reference,
    "tension-quick": tension,
    "tension-standard": tension,
    "tension-long": tension,
    "steel-plate": steel_plate,
    "tank": tank,
    "tank-learned": tank_learned,
    "pumping": pumping,
    "others": others,
    "solids-trial": solids,
    "solids-quick": solids,
    "solids-standard": solids,
}


def render(record: dict[str, Any]) -> str:
    """The table, and below it where it comes from."""
    return TABLES[record["name"]](record["measured"]) + provenance(record)
