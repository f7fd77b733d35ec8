"""A check is a named promise; called with the thing that promised, it returns or raises an AssertionError."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Check:
    """One promise; its name is what pytest reports."""

    name: str
    promise: Callable[..., None]

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *subject: Any) -> None:
        """Raise an AssertionError that says what was expected and what was got."""
        try:
            self.promise(*subject)
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}") from None


def named(*promises: Callable[..., None]) -> list[Check]:
    """Functions as checks, named after them."""
    return [Check(promise.__name__.strip("_").replace("_", " "), promise) for promise in promises]


def expect(holds: Any, *, expected: Any, got: Any) -> None:
    """Raise unless it holds."""
    if not holds:
        raise AssertionError(f"expected {expected}, got {got}")


def expect_equal(got: Any, expected: Any, what: str) -> None:
    """Raise unless both are the same."""
    expect(got == expected, expected=f"{what} {expected}", got=got)


def expect_close(got: Any, expected: Any, what: str, *, within: float) -> None:
    """Raise unless two arrays or tensors agree: largest difference over largest expected value."""
    expect_equal(tuple(got.shape), tuple(expected.shape), f"{what} of shape")
    got, expected = (np.asarray(getattr(values, "detach", lambda v=values: v)()) for values in (got, expected))
    size = float(np.abs(expected).max(initial=0.0))
    apart = float(np.abs(got - expected).max(initial=0.0))
    expect(apart <= within * size, expected=f"{what} within {within:g} of {size:.6g}", got=f"{apart:.3g} apart")


def expect_error(kind: type[Exception], action: Callable[[], Any], what: str) -> None:
    """Raise unless the action raises an error of this kind."""
    try:
        action()
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"expected {kind.__name__} for {what}, got {type(error).__name__}: {error}") from error
    raise AssertionError(f"expected {kind.__name__} for {what}, got no error")
