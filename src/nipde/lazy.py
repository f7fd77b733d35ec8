"""Public names of a package, imported on first use, so that importing the package itself stays light."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, names: Mapping[str, str], *, modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: public name -> submodule that holds it.

    `modules` are submodules that are reached as attributes, without an import of their own.
    """
    inside = frozenset(modules)

    def load(name: str) -> Any:
        if name in names:
            return getattr(import_module(f"{package}.{names[name]}"), name)
        if name in inside:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted({*names, *inside}), list(names)
