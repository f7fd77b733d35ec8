import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_steps_in_a_process_of_their_own():
    """PyTorch's backward pass serves the devices that it knew at its first use, which other tests have had before."""
    steps = str(Path(__file__).with_name("steps_on_a_device.py"))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), steps]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=880)
    assert ended.returncode == 0, ended.stdout[-5000:]
