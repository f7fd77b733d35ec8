"""`nipde export the-well ARCHIVE --out FILE`: an archive as HDF5 in the layout of The Well."""

from typing import Literal

from nipde.cli.arguments import add_archive, new_file, parser
from nipde.cli.terminal import progress, say, written
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
    parsed.add_argument("--out", type=new_file(".hdf5", ".h5"), required=True, help="file to write, such as data.hdf5")
    parsed.add_argument(
        "--part", type=Literal["train", "validation", "test"] | None, default=None,
        help="only the systems of this part of the split",
    )  # fmt: skip
    options = parsed.parse_args(words)
    archive = open_archive(options.path, options=options.storage_options)
    systems = len(archive) if options.part is None else len(archive.indices(options.part))
    with progress("systems", systems) as advance, written(options.out) as partial:
        to_the_well(archive, partial, part=options.part, progress=advance)
    say(f"{systems} systems")
    return 0
