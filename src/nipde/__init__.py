"""nipde: from measured loads and responses to the kernel of an unknown law."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> module that holds it; loaded on first use, so that `import nipde` stays light.
_PUBLIC = {
    "AdvectionRecipe": "nipde.data.problems",
    "Archive": "nipde.data.archive",
    "Axis": "nipde.grid",
    "DarcyRecipe": "nipde.data.problems",
    "Dirichlet": "nipde.boundary",
    "Grid": "nipde.grid",
    "Neumann": "nipde.boundary",
    "Periodic": "nipde.boundary",
    "Plan": "nipde.data.plan",
    "System": "nipde.data.system",
    "generate": "nipde.data.generate",
    "open": "nipde.data.archive",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nipde' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
