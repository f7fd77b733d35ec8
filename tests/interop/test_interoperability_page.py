"""The page on interoperability does what it says: its Python blocks run one after the other."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "interoperability.md"


def test_the_blocks_of_the_page_run_in_an_empty_folder(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"mine.safetensors", "shared", "advection11", "advection11.hdf5"}
