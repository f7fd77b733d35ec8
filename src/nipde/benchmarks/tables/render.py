"""One record to its table, and where it comes from."""

from collections.abc import Callable
from typing import Any

from nipde.benchmarks.tables.archives import generation, integrity, kills
from nipde.benchmarks.tables.conditioned import conditioned, cost, laws
from nipde.benchmarks.tables.darcy import darcy
from nipde.benchmarks.tables.design import design
from nipde.benchmarks.tables.discovery import dic, discovery
from nipde.benchmarks.tables.estimators import symmetry, yardsticks
from nipde.benchmarks.tables.formats import formats
from nipde.benchmarks.tables.fuzz import fuzz
from nipde.benchmarks.tables.markdown import provenance
from nipde.benchmarks.tables.mechanics import mechanics
from nipde.benchmarks.tables.mistakes import mistakes
from nipde.benchmarks.tables.models import params, step, tokens, transforms
from nipde.benchmarks.tables.solids import solids
from nipde.benchmarks.tables.solvers import physics, random_fields
from nipde.benchmarks.tables.training import interruptions, processes, throughput
from nipde.benchmarks.tables.uncertainty import uncertainty

#: Name of a record -> what makes a table of what it measured.
TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "physics": physics,
    "random-fields": random_fields,
    "transforms": transforms,
    "params": params,
    "step": step,
    "tokens": tokens,
    "symmetry": symmetry,
    "yardsticks": yardsticks,
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
    "discovery": discovery,
    "dic": dic,
    "design": design,
    "uncertainty": uncertainty,
    "darcy-trial": darcy,
    "darcy-quick": darcy,
    "darcy-standard": darcy,
    "darcy-paper": darcy,
    "solids-trial": solids,
    "solids-quick": solids,
    "solids-standard": solids,
}


def render(record: dict[str, Any]) -> str:
    """The table, and below it where it comes from."""
    return TABLES[record["name"]](record["measured"]) + provenance(record)
