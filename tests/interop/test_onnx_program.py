"""ONNX programs: onnxruntime, in a process that has neither nipde nor torch, predicts as the model does."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import nipde
from nipde.errors import KernelError
from nipde.interop.onnx_program import to_onnx

GRID, D = nipde.Grid.uniform(21), 10
ALONE = """
import sys
from pathlib import Path
for name in ("nipde", "torch"):
    sys.modules[name] = None  # an import of it would fail
import numpy, onnxruntime
for folder in sorted(Path(sys.argv[1]).iterdir()):
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    given = {one.name: numpy.load(folder / f"{one.name}.npy") for one in session.get_inputs()}
    numpy.save(folder / "found.npy", session.run(["predictions"], given)[0])
"""


def some_fields(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal((*shape, 1, *GRID.shape))
    return torch.tensor(values, dtype=torch.float32)


def frozen(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval().requires_grad_(False)


SIZES = {"pairs": D, "layers": 2}
MODELS = {
    "NIPS": lambda: nipde.NIPS(GRID, channels=8, **SIZES),
    "NAO": lambda: nipde.NAO(GRID, channels=8, **SIZES),
    "AFNO": lambda: nipde.AFNO(GRID, **SIZES),
    "NIPS-mlp": lambda: nipde.estimators.NIPSMLP(GRID, channels=8, **SIZES),
}


def answered_alone(folder):
    done = subprocess.run([sys.executable, "-I", "-c", ALONE, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {place.name: np.load(place / "found.npy") for place in folder.iterdir()}


def check_same(found, expected):
    assert found.shape == tuple(expected.shape)
    assert np.abs(found - expected.numpy()).max() < 1e-5 * float(expected.abs().max())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_predicts_as_a_model_does(name, tmp_path):
    torch.manual_seed(0)
    model = frozen(MODELS[name]())
    (tmp_path / name).mkdir()
    two = nipde.Pairs(GRID, some_fields(2, D), some_fields(2, D, seed=1))
    to_onnx(model, tmp_path / name / "model.onnx", pairs=two)
    given = {
        "loads": 7 * some_fields(3, D, seed=2),
        "responses": some_fields(3, D, seed=3),
        "queries": some_fields(3, 5, seed=4),
    }
    for key, values in given.items():
        np.save(tmp_path / name / f"{key}.npy", values.numpy())
    expected = model(nipde.Pairs(GRID, given["loads"], given["responses"])) @ given["queries"]
    check_same(answered_alone(tmp_path)[name], expected)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_onnxruntime_predicts_as_kernels_do(tmp_path):
    pairs = nipde.read(nipde.sample()).pairs.to(dtype=torch.float32)
    loads = some_fields(6, seed=5)
    kernels = {
        "gated": nipde.load("darcy-two-phase-gated")(pairs),
        "elliptic": nipde.load("darcy-two-phase")(pairs),
        "ridge": nipde.Ridge(1e-3)(pairs),
    }
    for name, kernel in kernels.items():
        (tmp_path / name).mkdir()
        to_onnx(kernel, tmp_path / name / "model.onnx")
        np.save(tmp_path / name / "loads.npy", loads.numpy())
    found = answered_alone(tmp_path)
    for name, kernel in kernels.items():
        check_same(found[name], kernel @ loads)


@pytest.mark.slow
def test_what_onnx_cannot_say_is_refused():
    gated = nipde.load("darcy-two-phase-gated")
    with pytest.raises(KernelError) as error:
        to_onnx(gated, "never.onnx", pairs=nipde.Pairs(GRID, some_fields(2, D), some_fields(2, D)))
    assert error.value.got == "ConditionedNIPS"
    with pytest.raises(KernelError) as error:
        to_onnx(nipde.NIPS(GRID, pairs=D, channels=8, layers=2), "never.onnx")
    assert error.value.got == "NIPS without pairs"
    with pytest.raises(KernelError, match="one system"):
        to_onnx(gated(nipde.Pairs(GRID, some_fields(2, D), some_fields(2, D, seed=1))), "never.onnx")


@pytest.mark.slow
def test_onnx_still_has_no_eigenvectors_and_no_cholesky_factors():
    """If this fails, torch has learned it: `to_onnx` may then take whole ConditionedNIPS and elliptic kernels."""

    class Factor(torch.nn.Module):
        def __init__(self, operation):
            super().__init__()
            self.operation = operation

        def forward(self, matrix):
            return self.operation(matrix)

    for operation, name in ((lambda m: torch.linalg.eigh(m)[1], "linalg_eigh"), (torch.linalg.cholesky, "cholesky")):
        program = torch.export.export(Factor(operation), (torch.eye(3),))
        with pytest.raises(torch.onnx.OnnxExporterError, match=name):
            torch.onnx.export(program, (), None, dynamo=True, verbose=False)
