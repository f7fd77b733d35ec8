"""One record to its table, and where it comes from."""

from collections.abc import Callable
from typing import Any

from benchmarks.tables.archives import generation, integrity, kills
from benchmarks.tables.bench import steel_plate, tank, tank_learned, tension
from benchmarks.tables.conditioned import conditioned, cost, laws
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
from benchmarks.tables.models import imports, params, recipes, shifted_loads, step, tokens, transforms
from benchmarks.tables.reference import reference
from benchmarks.tables.shapes import outlines, shapes, specimens
from benchmarks.tables.solids import solids
from benchmarks.tables.solvers import physics, random_fields
from benchmarks.tables.training import interruptions, processes, throughput
from benchmarks.tables.uncertainty import uncertainty

#: Name of a record -> what makes a table of what it measured.
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "physics": physics,
    "shapes": shapes,
    "specimens-quick": specimens,
    "specimens-standard": specimens,
    "specimens-long": specimens,
    "outlines": outlines,
    "random-fields": random_fields,
    "transforms": transforms,
    "imports": imports,
    "params": params,
    "step": step,
    "tokens": tokens,
    "recipes": recipes,
    "shifted-loads": shifted_loads,
    "symmetry": symmetry,
    "baselines": baselines,
    "independent": independent,
    "conditioned": conditioned,
    "conditioned-laws": laws,
    "conditioned-cost": cost,
    "interruptions": interruptions,
    "processes": processes,
    "throughput": throughput,
    "generation": generation,
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
    "solids-trial": solids,
    "solids-quick": solids,
    "solids-standard": solids,
}


def render(record: dict[str, Any]) -> str:
    """The table, and below it where it comes from."""
    return TABLES[record["name"]](record["measured"]) + provenance(record)
