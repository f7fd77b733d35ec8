"""Below what the API page says of a function: shapes of its arrays, read off its annotations."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args

#: Stand for any number of axes.
OPEN = {"batch", "space", "mode", "node", "cell", "point", "face", "any", "shape"}


def shapes_of(documented: Any) -> list[str]:
    """One line of RST for each array that goes in or comes out; none where there is no array."""
    try:
        signature = inspect.signature(documented)
    except (TypeError, ValueError):
        return []
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    annotations["returns"] = signature.return_annotation
    found = ((name, " or ".join(dict.fromkeys(_shapes(annotation)))) for name, annotation in annotations.items())
    return [f"| `{name}`: {shape}" for name, shape in found if shape]


def _shapes(annotation: Any) -> Iterator[str]:
    """Of an annotation, and of those inside it: unions, tuples, lists."""
    names = getattr(annotation, "dim_str", None)
    if names is not None:
        axes = [axis for name in names.split() for axis in _axes(name)]
        yield f"({', '.join(axes)}{',' if len(axes) == 1 and '…' not in axes[0] else ''})"
    for inner in get_args(annotation):
        yield from _shapes(inner)


def _axes(name: str) -> list[str]:
    """One axis, or several in one word: annotations may leave the number of axes open only once."""
    if not name.startswith("*"):
        return [name]
    return [f"{axis} …" if axis in OPEN else axis for axis in name[1:].split("_")]
