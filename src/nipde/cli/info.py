"""`nipde info PATH`: an archive's card."""

from nipde.cli.terminal import add_archive, parser, say
from nipde.data.archive import open as open_archive
from nipde.data.card import card


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("info", "Print an archive's card: what is inside, how it was made, how to read it.")
    add_archive(options)
    chosen = options.parse_args(words)
    archive = open_archive(chosen.path, options=chosen.storage_options)
    say(card(archive))
    return 0
