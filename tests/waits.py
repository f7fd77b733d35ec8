"""Places where the processor waits for an accelerator, as `docs/how-to/accelerators.md` lists them."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "accelerators.md"


def _listed(heading: str) -> set[str]:
    """First column of the table below a heading: `file.py:function`."""
    text = PAGE.read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `([^`]+\.py:[^`]+)` \|", text, re.MULTILINE))


#: Of training and of estimators that compute on the device.
LISTED = _listed("Where the processor waits")
#: Of methods whose solvers are SciPy's.
BY_SCIPY = _listed("Methods that compute on the processor")
