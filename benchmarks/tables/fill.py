"""Tables into documents.

A document asks for a table with the lines `<!-- table: NAME -->` and `<!-- end table -->`; what stands between them
is made from results/NAME.json and from nothing else; some tables are made from several of these.
"""

import re
from pathlib import Path

from benchmarks.record import read_record
from benchmarks.tables.headline import headline
from benchmarks.tables.render import render
from benchmarks.tables.solids import solids_together
from nipde.errors import NipdeError

#: Tables of several records.
TOGETHER = {"headline": headline, "solids": solids_together}
#: Folders of pages below docs.
PARTS = (".", "tutorials", "how-to", "explanation", "reference")
BLOCK = re.compile(r"(<!-- table: ([a-z0-9-]+) -->\n)(.*?)(<!-- end table -->)", re.DOTALL)


def fill(documents: list[Path], *, results: Path, check: bool = False) -> list[Path]:
    """Put current tables into the documents; with `check`, raise instead if one of them is not current."""
    changed, texts = [], {document: document.read_text() for document in documents}
    if check and not any(BLOCK.search(text) for text in texts.values()):
        raise NipdeError(expected="documents with tables beside results/", got="none", remedy="run it in a checkout")
    for document, text in texts.items():
        current = BLOCK.sub(lambda block: block[1] + _table_of(block[2], results) + block[4], text)
        if current != text:
            changed.append(document)
            if not check:
                document.write_text(current)
    if check and changed:
        raise NipdeError(
            expected="tables made from results/",
            got=f"others in {', '.join(map(str, changed))}",
            remedy="run python -m benchmarks tables and commit what it changes",
        )
    return changed


def documents_below(folder: Path) -> list[Path]:
    """README and docs, without what a build has put there."""
    pages = sorted(path for part in PARTS for path in (folder / "docs" / part).glob("*.md"))
    return [path for path in [folder / "README.md", *pages] if path.exists()]


def _table_of(name: str, results: Path) -> str:
    return TOGETHER[name](results) if name in TOGETHER else render(read_record(results, name))
