"""`nipde export the-well ARCHIVE --out FILE`: an archive in the layout of others."""

from pathlib import Path
from typing import Literal

from nipde.cli.terminal import add_archive, check_file, parser, progress, say
from nipde.data.archive import open as open_archive
from nipde.interop.the_well import to_the_well


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("export", "Write an archive as one HDF5 file in the layout of The Well: float32, pairs as steps.")
    options.add_argument("layout", type=Literal["the-well"], help="layout to write: the-well")
    add_archive(options)
    options.add_argument("--out", type=Path, required=True, help="file to write, such as data.hdf5")
    options.add_argument(
        "--part", type=Literal["train", "validation", "test"] | None, default=None, help="systems of one part only"
    )
    chosen = options.parse_args(words)
    check_file(chosen.out, endings=(".hdf5", ".h5"))
    archive = open_archive(chosen.path, options=chosen.storage_options)
    systems = len(archive) if chosen.part is None else len(archive.indices(chosen.part))
    with progress("systems", systems) as advance:
        to_the_well(archive, chosen.out, part=chosen.part, progress=advance)
    say(f"{systems} systems written: {chosen.out}")
    return 0
