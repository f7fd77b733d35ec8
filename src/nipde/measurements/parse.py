"""A file to named arrays: its kind by name and content, its contents read in a child process."""

import hashlib
from pathlib import Path

from nipde.errors import MeasurementError
from nipde.measurements.raw import Raw
from nipde.measurements.sandbox import DEFAULT_LIMITS, Limits, sandbox

#: What can be named with `format=`.
FORMATS = ("npz", "mat", "hdf5", "csv", "vtk", "netcdf", "vic", "dice", "ncorr", "mudic")
#: Kind of content -> readers that may be meant, special ones first.
CANDIDATES = {
    "npz": ("mudic", "npz"),
    "mat": ("ncorr", "mat"),
    "hdf5": ("hdf5",),
    "netcdf": ("netcdf",),
    "vtk": ("vtk",),
    "text": ("dice", "vic", "mudic", "csv"),
}
#: Ending of a name -> kind of content.
SUFFIXES = {
    ".npz": "npz",
    ".mat": "mat",
    ".h5": "hdf5", ".hdf5": "hdf5", ".hdf": "hdf5",
    ".nc": "netcdf", ".nc4": "netcdf", ".cdf": "netcdf",
    ".vtk": "vtk", ".vtu": "vtk",
    ".csv": "text", ".txt": "text", ".tsv": "text", ".dat": "text",
}  # fmt: skip
_HDF5 = b"\x89HDF\r\n\x1a\n"


def parse(path: Path | str, *, format: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Raw:
    """What a file holds; `format` overrides what its name and content say."""
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise MeasurementError(expected=f"a format among {', '.join(FORMATS)}", got=repr(format))
    try:
        _check(path, limits)
        candidates = (format,) if format else CANDIDATES[_kind(path)]
        found, contents = sandbox().read(path, candidates=candidates, limits=limits)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise MeasurementError(f"{path}: {error.strerror or error}", remedy="check the path and its rights") from error
    return Raw(
        path=path,
        format=found,
        sha256=digest,
        arrays=contents.arrays,
        units=contents.units,
        valid=contents.valid,
        attributes=contents.attributes,
    )


def _check(path: Path, limits: Limits) -> None:
    """A regular file of bearable size; a pipe, for one, would never end."""
    if not path.is_file():
        got = "something else" if path.exists() else "nothing"
        raise MeasurementError(str(path), expected="a file", got=got, remedy="check the path")
    size = path.stat().st_size
    if size > limits.memory:
        raise MeasurementError(
            path.name, expected=f"at most {limits.memory:,} bytes", got=f"{size:,}", remedy="pass Limits(memory=...)"
        )


def _kind(path: Path) -> str:
    """By the ending of the name, where the content agrees; by the content alone where the ending says nothing."""
    with path.open("rb") as file:
        kinds = _kinds_by_content(file.read(1024))
    named = SUFFIXES.get(path.suffix.lower())
    if named in kinds:
        return str(named)
    if named is None and len(kinds) == 1 and kinds != {"text"}:
        return kinds.pop()
    content = f"content like {' or '.join(sorted(kinds))}" if kinds else "content of no known kind"
    raise MeasurementError(
        path.name,
        expected=f"a name that ends in one of {', '.join(SUFFIXES)}, and content to match",
        got=content,
        remedy=f"name the format: format= one of {', '.join(FORMATS)}",
    )


def _kinds_by_content(start: bytes) -> set[str]:
    if start.startswith(b"PK\x03\x04"):
        return {"npz"}
    if start.startswith((b"MATLAB 5.0", b"MATLAB 7.3")):
        return {"mat"}
    if start.startswith(b"CDF"):
        return {"netcdf"}
    if start.startswith(_HDF5) or start[512:].startswith(_HDF5):
        return {"hdf5", "netcdf", "mat"}
    if start.startswith(b"# vtk DataFile") or b"<VTKFile" in start:
        return {"vtk"}
    return set() if b"\0" in start else {"text"}
