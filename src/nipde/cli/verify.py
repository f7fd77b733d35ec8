"""`nipde verify FOLDER`: check all checksums of an archive or a discovery, and optionally compute systems again."""

import sys

from nipde.cli.arguments import add_archive, parser, whole
from nipde.cli.terminal import progress, say
from nipde.data.archive import open_archive
from nipde.data.generation import repair
from nipde.errors import IntegrityError
from nipde.report.files import NAMES, is_discovery, problems


def run(words: list[str]) -> int:
    """Entry of the verb: 0 if the folder is intact, 1 if not."""
    parsed = parser(
        "verify", "Check the checksums of an archive or a discovery; exit code 0 if it is intact, 1 if not.",
        example="darcy21 --rebuild 5",
    )  # fmt: skip
    add_archive(parsed)
    parsed.add_argument(
        "--rebuild", type=whole(0), default=0, help="also compute so many systems again and compare bits"
    )
    parsed.add_argument("--repair", action="store_true", help="compute damaged shards again from their seeds")
    options = parsed.parse_args(words)
    if is_discovery(options.path):
        return _outcome(problems(options.path), f"intact: {len(NAMES)} files")
    damages: list[IntegrityError] = []
    intact = ""
    try:
        archive = open_archive(options.path, options=options.storage_options)
        systems = archive.drawn(options.rebuild)
        if options.repair and (mended := repair(archive)):
            say(f"repaired: shards {', '.join(map(str, mended))}")
        files = len(archive.manifest.files)
        with progress("files", files) as advance:
            damages.extend(archive.problems(checked=lambda: advance(1)))
        systems = systems[: 0 if damages else None]
        with progress("systems", len(systems)) as advance:
            for system in systems:
                archive.rebuild(int(system))
                advance(1)
        intact = f"intact: {files} files, digest {archive.digest[:16]}"
        if len(systems):
            intact += f"\nreproduced: {len(systems)} systems computed again, every bit equal"
    except IntegrityError as error:
        damages.append(error)
    return _outcome(damages, intact)


def _outcome(damages: list[IntegrityError], intact: str) -> int:
    for damage in damages:
        print(f"damaged: {damage}", file=sys.stderr)
    if not damages:
        say(intact)
    return 1 if damages else 0
