"""`nipde export the-well ARCHIVE --out FILE`: an archive as HDF5 in the layout of The Well."""

from pathlib import Path
from typing import Literal

from nipde.cli.terminal import add_archive, check_file, parser, progress, say
from nipde.data.archive import open_archive
from nipde.interop.the_well import to_the_well


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser(
        "export", "Write an archive as one HDF5 file in the layout of The Well: float32, pairs as time steps.",
        example="the-well darcy21 --out darcy21.hdf5",
    )  # fmt: skip
    parsed.add_argument("layout", type=Literal["the-well"], help="layout to write: the-well")
    add_archive(parsed)
    parsed.add_argument("--out", type=Path, required=True, help="file to write, such as data.hdf5")
    parsed.add_argument(
        "--part",
        type=Literal["train", "validation", "test"] | None,
        default=None,
        help="only the systems of this part of the split",
    )
    options = parsed.parse_args(words)
    check_file(options.out, endings=(".hdf5", ".h5"))
    archive = open_archive(options.path, options=options.storage_options)
    systems = len(archive) if options.part is None else len(archive.indices(options.part))
    with progress("systems", systems) as advance:
        to_the_well(archive, options.out, part=options.part, progress=advance)
    say(f"{systems} systems written: {options.out}")
    return 0
