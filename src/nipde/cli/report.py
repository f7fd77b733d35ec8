"""`nipde report FILE`: the report page of an identification, without the other files."""

from pathlib import Path

from nipde.cli.discover import add_identification, identified
from nipde.cli.terminal import check_file, parser, say
from nipde.report.page.page import page


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser(
        "report", "Identify the coefficient field as `nipde discover` does, and write the report page only: one file.",
        example="heads.csv --load rate --response head --units x=m,load=m/d,response=m --out report.html",
    )  # fmt: skip
    add_identification(parsed)
    parsed.add_argument("--out", type=Path, default=Path("report.html"), help="page to write")
    options = parsed.parse_args(words)
    check_file(options.out)
    text = page(identified(options))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    say(f"written: {options.out}, {options.out.stat().st_size / 1e6:.1f} MB")
    return 0
