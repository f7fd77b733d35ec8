"""One archive or several that a run learns from: opened, and of one kind."""

import os
from collections.abc import Sequence

from nipde.data.archive import Archive
from nipde.data.archive import open as open_archive
from nipde.errors import TrainingError

#: An archive, or where it is.
One = Archive | str | os.PathLike[str]


def gathered(data: One | Sequence[One]) -> tuple[Archive, ...]:
    """All archives, opened; raises unless their fields have as many components and axes."""
    given = [data] if isinstance(data, Archive | str | os.PathLike) else list(data)
    if not given:
        raise TrainingError(expected="at least one archive", got="none", remedy="say what to learn from")
    archives = tuple(one if isinstance(one, Archive) else open_archive(one) for one in given)
    for other in archives[1:]:
        if _kind(other) != _kind(archives[0]):
            raise TrainingError(
                "archives do not go together", expected=f"{_kind(archives[0])} as in {archives[0].storage.address}",
                got=f"{_kind(other)} in {other.storage.address}", remedy="train on them one by one",
            )  # fmt: skip
    return archives


def digest_of(archives: Sequence[Archive]) -> str:
    """The digest of one archive; those of several, in order."""
    return "+".join(archive.digest for archive in archives)


def _kind(archive: Archive) -> str:
    load, response = (len(quantity.components) for quantity in (archive.quantities.load, archive.quantities.response))
    return f"{archive.grid.dimension} axes, {load} component(s) of a load, {response} of a response"
