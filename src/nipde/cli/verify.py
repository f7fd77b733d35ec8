"""`nipde verify PATH`: check every byte, and optionally compute systems again."""

import sys

import numpy as np

from nipde.cli.terminal import add_archive, parser, progress, say
from nipde.data.archive import open as open_archive
from nipde.data.generate import repair
from nipde.errors import IntegrityError


def run(words: list[str]) -> int:
    """Entry of the verb: 0 if the archive is intact, 1 if not."""
    options = parser("verify", "Check every byte of an archive; exit code 0 if it is intact, 1 if not.")
    add_archive(options)
    options.add_argument("--rebuild", type=int, default=0, help="also compute this many systems again, bit by bit")
    options.add_argument("--repair", action="store_true", help="compute damaged shards again from their seeds")
    chosen = options.parse_args(words)
    problems: list[IntegrityError] = []
    try:
        archive = open_archive(chosen.path, options=chosen.storage_options)
        if chosen.repair and (mended := repair(archive)):
            say(f"repaired: shards {', '.join(map(str, mended))}")
        files = len(archive.manifest.files)
        with progress("files", files) as advance:
            problems.extend(archive.problems(checked=lambda: advance(1)))
        systems = np.random.default_rng(0).permutation(len(archive))[: 0 if problems else chosen.rebuild]
        with progress("systems", len(systems)) as advance:
            for system in systems:
                archive.rebuild(int(system))
                advance(1)
    except IntegrityError as error:
        problems.append(error)
    for problem in problems:
        print(f"damaged: {problem}", file=sys.stderr)
    if problems:
        return 1
    say(f"intact: {files} files, digest {archive.digest[:16]}")
    if len(systems):
        say(f"reproduced: {len(systems)} systems computed again, every bit equal")
    return 0
