"""An optional library, or an error that names the extra it comes with."""

from importlib import import_module
from types import ModuleType

from nipde.errors import MissingExtraError


def needed(library: str, *, extra: str) -> ModuleType:
    """Import a library that only this capability needs."""
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != library.split(".")[0]:
            raise
        raise MissingExtraError(f"{library} is not installed", remedy=f"pip install 'nipde[{extra}]'") from error
