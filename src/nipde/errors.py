"""What can go wrong, said so that a person can act: expected, got, remedy."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class NipdeError(Exception):
    """Root of every error of nipde; `message`, `expected`, `got` and `remedy` are None where not given."""

    def __init__(
        self, message: str = "", *, expected: object = None, got: object = None, remedy: str | None = None
    ) -> None:
        self.message = message or None
        self.expected = expected
        self.got = got
        self.remedy = remedy
        parts = [message] if message else []
        if expected is not None:
            parts.append(f"expected {expected}")
        if got is not None:
            parts.append(f"got {got}")
        text = ", ".join(parts)
        # One positional argument only: an unpickled exception is built from it, then its fields are restored.
        super().__init__(f"{text}: {remedy}" if remedy else text)


class UsageError(NipdeError, ValueError):
    """A command line, or one of its options, cannot be understood."""


class GridError(NipdeError, ValueError):
    """A grid cannot be built, or two grids do not fit each other."""


class ShapeError(NipdeError, ValueError):
    """An array does not have the axes its place asks for."""


class PairsError(NipdeError, ValueError):
    """Pairs are not what an estimator can work with."""


class KernelError(NipdeError, ValueError):
    """Two kernels, or a kernel and a load, do not fit each other."""


class PhysicsError(NipdeError, ValueError):
    """A law is posed so that it has no trustworthy solution."""


class SolverError(NipdeError, ArithmeticError):
    """A solve ended with a residual that is too large, or not finite."""


class ArchiveError(NipdeError):
    """An archive is missing, unfinished, or of another kind than asked for."""


class NoSuchSystemError(ArchiveError, IndexError):
    """A system beyond the end of its archive."""


class IntegrityError(ArchiveError):
    """Stored bytes are not the bytes that were written."""


class MeasurementError(NipdeError, ValueError):
    """A file of measurements cannot be read, or not without guessing."""


class TrainingError(NipdeError, ValueError):
    """A training run cannot be started as asked for."""


class NonFiniteError(NipdeError, ArithmeticError):
    """A loss or gradient is not finite."""


class CheckpointError(NipdeError):
    """Weights or a run's state cannot be written, or are not what was written."""


class MissingExtraError(NipdeError, ImportError):
    """A capability needs an optional part of the package that is not installed."""


class StoppedEarly(UserWarning):
    """A signal ended training before its time; what was learned is saved."""


def meant(got: str, among: Iterable[str], *, otherwise: str) -> str:
    """The remedy for a name that is not there: the one nearest to it, or `otherwise`."""
    near = get_close_matches(got, list(among), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


@contextmanager
def naming(*files: str) -> Iterator[None]:
    """Around work on files of measurements: errors name them before their message."""
    try:
        yield
    except NipdeError as error:
        place = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        message = f"{place}: {error.message}" if error.message else place
        raise MeasurementError(message, expected=error.expected, got=error.got, remedy=error.remedy) from error


@contextmanager
def needing(library: str, *, extra: str, remedy: str = "") -> Iterator[None]:
    """Around imports of a library that only one capability needs: an error that names the extra it comes with."""
    try:
        yield
    except ImportError as error:
        advice = f"pip install 'nipde[{extra}]'{remedy}"
        raise MissingExtraError(f"{library} is not installed", remedy=advice) from error
