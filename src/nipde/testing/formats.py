"""What a file format promises: arrays come back as they were written; damaged files are refused, never trusted.

The writer is a function `write(path, arrays)` that puts columns of equal length into a file of the format.
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from nipde.errors import MeasurementError
from nipde.measurements.formats import Format, names
from nipde.measurements.parse import parse
from nipde.measurements.sandbox import Limits
from nipde.testing.check import Check, expect, expect_close, expect_equal, expect_error, named

Writer = Callable[[Path, Mapping[str, np.ndarray]], None]


def check_format(format: Format, write: Writer) -> None:
    """All of `format_checks`."""
    for check in format_checks():
        check(format, write)


def format_checks() -> list[Check]:
    """Checks to be called with a Format and a function `write(path, arrays)`."""
    return named(
        _it_is_registered_under_its_name, _its_reader_imports_no_torch, _files_are_recognised, _arrays_come_back,
        _reading_changes_nothing, _too_many_values_are_refused, _damaged_files_are_read_or_refused,
    )  # fmt: skip


def columns(rows: int = 12) -> dict[str, np.ndarray]:
    """Positions, a load and a response, as a table has them."""
    place = np.arange(float(rows))
    rng = np.random.default_rng(0)
    return {"x": place % 4, "y": place // 4, "load": rng.standard_normal(rows), "u": 1e-7 * rng.standard_normal(rows)}


def _it_is_registered_under_its_name(format: Format, write: Writer) -> None:
    expect(format.name in names(), expected=f"{format.name} among the formats", got=", ".join(names()))
    dotted = format.suffixes and all(one.startswith(".") for one in format.suffixes)
    expect(dotted, expected="suffixes such as .lab", got=format.suffixes)


def _its_reader_imports_no_torch(format: Format, write: Writer) -> None:
    program = f"import sys; sys.path[:] = {sys.path!r}; import {format.module}; print('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    expect_equal(said.stdout.strip() or said.stderr, "False", "torch imported by the reader:")


def _files_are_recognised(format: Format, write: Writer) -> None:
    for suffix in format.suffixes:
        with _written(format, write, suffix=suffix) as path:
            expect_equal(parse(path).format, format.name, f"{suffix} to be")


def _arrays_come_back(format: Format, write: Writer) -> None:
    with _written(format, write) as path:
        raw = parse(path)
    for name, values in columns().items():
        expect(name in raw.arrays, expected=f"an array {name!r}", got=sorted(raw.arrays))
        expect_close(np.ravel(raw.arrays[name]), values, name, within=1e-12)


def _reading_changes_nothing(format: Format, write: Writer) -> None:
    with _written(format, write) as path:
        before = path.read_bytes()
        expect_equal(parse(path).sha256, hashlib.sha256(before).hexdigest(), "SHA-256")
        expect(path.read_bytes() == before, expected="the file as it was", got="other bytes")


def _too_many_values_are_refused(format: Format, write: Writer) -> None:
    with _written(format, write) as path:
        expect_error(MeasurementError, lambda: parse(path, limits=Limits(values=5)), "more values than the limit")


def _damaged_files_are_read_or_refused(format: Format, write: Writer) -> None:
    with _written(format, write) as path:
        data = path.read_bytes()
        damaged = {
            f"the first {100 * share:.0f} % of a file": data[: int(share * len(data))] for share in (0.1, 0.5, 0.9)
        }
        for place in np.random.default_rng(1).integers(len(data), size=8):
            changed = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
            damaged[f"a file with byte {place} changed"] = changed
        for what, content in damaged.items():
            path.write_bytes(content)
            try:
                parse(path, format=format.name)
            except MeasurementError:
                continue
            except Exception as error:
                raise AssertionError(f"expected a MeasurementError for {what}, got {error!r}") from error
        path.write_bytes(b"")
        expect_error(MeasurementError, lambda: parse(path, format=format.name), "an empty file")


@contextmanager
def _written(format: Format, write: Writer, *, suffix: str = "") -> Iterator[Path]:
    """A file of the format, for the time of the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix or format.suffixes[0]}"
        write(path, columns())
        yield path
