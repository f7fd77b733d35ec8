"""Models and kernels as ONNX programs, for onnxruntime and whatever else reads them; no torch and no nipde to run them.

    model:   (loads, responses, queries) -> responses to the queries;    kernel:   loads -> responses

What ONNX has no operation for (eigenvectors, Cholesky factors) stays here: of ConditionedNIPS its kernels travel, the
estimate itself does not.
"""

import os
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from nipde.context.pairs import Pairs
from nipde.errors import KernelError
from nipde.estimators.export import exported
from nipde.estimators.nips import NIPSMLP
from nipde.estimators.token_model import TokenModel
from nipde.interop.extras import needed
from nipde.kernels.base import Kernel
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.dense import DenseKernel
from nipde.kernels.elliptic import EllipticKernel


def to_onnx(what: nn.Module | Kernel, path: str | os.PathLike[str], *, pairs: Pairs | None = None) -> Path:
    """Write one file in physical units; numbers of systems, queries and loads may vary. Returns its path.

    A model of the paper needs `pairs`, any batch of two or more systems of its kind. A kernel of one system needs none;
    one that solves a law (an elliptic prior) is written with all its N × N values.
    """
    for library in ("onnx", "onnxscript"):
        needed(library, extra="export")
    if isinstance(what, Kernel):
        program, names = _of_kernel(what), ["loads"]
    elif isinstance(what, TokenModel | NIPSMLP) and pairs is not None and len(pairs.batch) == 1:
        program, names = exported(what, pairs), ["loads", "responses", "queries"]
    else:
        raise KernelError(
            "this is no program",
            expected="a kernel, or a model of the paper with pairs of two systems",
            got=f"{type(what).__name__}{' without pairs' if pairs is None else ''}",
            remedy="estimate with it, and write the kernel that it returns",
        )
    arguments: dict[str, Any] = {"input_names": names, "output_names": ["answers"], "verbose": False}
    found = torch.onnx.export(program, (), None, dynamo=True, **arguments)
    assert found is not None
    found.save(os.fspath(path))
    return Path(path)


def _of_kernel(kernel: Kernel) -> ExportedProgram:
    if kernel.batch:
        raise KernelError(expected="one system", got=f"a batch {kernel.batch}", remedy="pick one: kernel.system(0)")
    if isinstance(kernel, EllipticKernel) or (
        isinstance(kernel, ConditionedKernel) and isinstance(kernel.prior, EllipticKernel)
    ):
        kernel = DenseKernel(kernel.grid, kernel.dense().detach())
    some = kernel.row_integral().detach().new_zeros(2, kernel.components[1], *kernel.grid.shape)
    with torch.no_grad():
        return torch.export.export(_Answers(kernel), (some,), dynamic_shapes=({0: Dim("count", min=1)},))


class _Answers(nn.Module):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, loads: Float[Tensor, "load component *space"]) -> Float[Tensor, "load component *space"]:
        """Responses in physical units."""
        return self.kernel.predict(loads)
