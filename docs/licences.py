"""Writes docs/reference/licences.md from the metadata of installed packages: python docs/licences.py"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "licences.md"
#: Extras for those who work on nipde itself.
OURS = ("dev", "docs")
INTRODUCTION = """# Licences of dependencies

What `pip install nipde` brings and, under the extra that asks for it, what each extra adds; with all that these need
on Linux with Python 3.11. Each package's own metadata states its licence. nipde itself is under Apache-2.0.
"""


def page() -> str:
    """The whole page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name not in OURS}
    seen: set[str] = set()
    parts = [INTRODUCTION]
    for title, needs in {"always": project["dependencies"], **extras}.items():
        new = sorted(closure(needs) - seen)
        seen |= set(new)
        heading = "## Always" if title == "always" else f"## Extra `{title}`"
        rows = [f"| {name} | {licence(name)} |" for name in new]
        parts.append(
            "\n".join([heading, "", *(["| package | licence |", "|---|---|", *rows] if rows else ["Nothing new."]), ""])
        )
    return "\n".join(parts)


def closure(requirements: list[str]) -> set[str]:
    """Names of all packages that these lead to, here."""
    names: set[str] = set()
    todo = [(Requirement(text), "") for text in requirements]
    done = set()
    while todo:
        needed, extra = todo.pop()
        key = (needed.name.lower(), tuple(sorted(needed.extras)), extra)
        if key in done or (needed.marker and not needed.marker.evaluate({"extra": extra})):
            continue
        done.add(key)
        try:
            found = distribution(needed.name)
        except PackageNotFoundError:
            continue
        names.add(found.metadata["Name"])
        for one in ("", *needed.extras):
            todo += [(Requirement(text), one) for text in found.requires or []]
    return names


def licence(name: str) -> str:
    """The SPDX expression where a package states one, else its classifier or the first line of its text."""
    metadata = distribution(name).metadata
    classified = [one.split(" :: ")[-1] for one in metadata.get_all("Classifier") or [] if one.startswith("License ::")]
    stated = metadata["License-Expression"] or ", ".join(classified) or metadata["License"] or "not stated"
    return re.sub(r"\s+", " ", stated.strip().splitlines()[0])[:80]


if __name__ == "__main__":
    PAGE.write_text(page())
