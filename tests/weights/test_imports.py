"""Opening weights and estimating needs no storage, no training and no figures."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
import torch
before = set(sys.modules)
import nipde
nipde.load("tissue-gated")
model = nipde.load("darcy")
grid = nipde.Grid.uniform(9)
loads = torch.randn(3, 1, 9, 9, generator=torch.Generator().manual_seed(0))
kernel = model(nipde.Pairs(grid, loads, 0.1 * loads))
kernel.predict(loads)
print(json.dumps(sorted(set(sys.modules) - before)))
"""
#: torch imports some of torch.distributed by itself: nothing is to be added to it.
UNWANTED = {
    "torch.distributed", "torch._dynamo", "torch.utils.tensorboard",
    "zarr", "numcodecs", "fsspec", "dask", "distributed",
    "matplotlib", "jinja2", "h5py", "meshio", "xarray", "pint", "numba", "sklearn", "huggingface_hub", "onnx",
    "rich", "jsonargparse", "nipde.training", "nipde.data.archive", "nipde.data.storage", "nipde.evaluation",
    "nipde.report", "nipde.measurements", "nipde.discovery", "nipde.interop", "nipde.cli",
}  # fmt: skip


def test_load_and_one_estimate_import_nothing_else():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert "nipde.weights.models" in loaded
    assert [name for name in loaded if any(name == one or name.startswith(f"{one}.") for one in UNWANTED)] == []
