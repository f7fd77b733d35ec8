"""Errors are checked by their type and fields."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nipde.errors import MeasurementError, NipdeError


@contextmanager
def refused(kind: type[NipdeError] = MeasurementError, **fields: str) -> Iterator[None]:
    """The block raises an error of this kind, each of whose named fields contains a text."""
    with pytest.raises(kind) as error:
        yield
    for name, text in fields.items():
        assert text in str(getattr(error.value, name)), f"{name} of {error.value!r}"
