"""Models and kernels as programs that run without nipde: of torch, or of ONNX, e.g. by onnxruntime.

    model:   (loads, responses, queries) -> responses to the queries;    kernel:   loads -> responses

ONNX has no eigenvectors and no Cholesky factors: of ConditionedNIPS its kernels can be written, the estimate cannot.
"""

import os
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from nipde.atomic import atomic_file
from nipde.context.pairs import Pairs
from nipde.errors import KernelError, needing
from nipde.estimators.base import Model
from nipde.kernels.base import Kernel
from nipde.kernels.dense import DenseKernel


def to_onnx(what: Any, path: str | os.PathLike[str], *, pairs: Pairs | None = None) -> Path:
    """Write one file in physical units; numbers of systems, queries and loads may vary. Returns its path.

    A model of the paper needs `pairs`, any batch of two or more systems of its kind. A kernel of one system needs none;
    one that solves a law (an elliptic prior) is written as a matrix of N × N values.
    """
    with needing("onnx and onnxscript", extra="export"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    if not isinstance(what, nn.Module) and what.linear:
        program, names = _of_kernel(what), ["loads"]
    elif getattr(what, "exportable", False) and pairs is not None and len(pairs.batch) == 1:
        program, names = exported(what, pairs), ["loads", "responses", "queries"]
    else:
        raise KernelError(
            expected="a kernel, or a model of the paper with pairs of two systems",
            got=f"{type(what).__name__}{' without pairs' if pairs is None else ''}",
            remedy="estimate with it, and write the kernel that it returns",
        )
    arguments: dict[str, Any] = {"input_names": names, "output_names": ["predictions"], "verbose": False}
    onnx_program = torch.onnx.export(program, (), None, dynamo=True, **arguments)
    assert onnx_program is not None
    with atomic_file(Path(path)) as partial:
        onnx_program.save(partial)
    return Path(path)


def exported(model: Model, pairs: Pairs) -> ExportedProgram:
    """Trace the model; systems and queries may vary in number, pairs, components and grid are the model's.

    `torch.export.save(program, "model.pt2")` stores it, `torch.export.load("model.pt2").module()` runs it, in physical
    units. `pairs` is any batch of two or more systems of the model's kind.
    """
    systems, queries = Dim("systems", min=1), Dim("queries", min=1)
    arguments = (pairs.loads, pairs.responses, pairs.loads.repeat(1, 2, *(1,) * (pairs.loads.ndim - 2)))
    shapes = ({0: systems}, {0: systems}, {0: systems, 1: queries})
    with torch.no_grad():
        return torch.export.export(_Model(model, pairs), arguments, dynamic_shapes=shapes)


def _of_kernel(kernel: Kernel) -> ExportedProgram:
    if kernel.batch:
        raise KernelError(expected="one system", got=f"a batch {kernel.batch}", remedy="pick one: kernel.system(0)")
    if kernel.coefficient is not None:  # it solves a law
        kernel = DenseKernel(kernel.grid, kernel.dense().detach())
    example = kernel.row_integral().detach().new_zeros(2, kernel.components[1], *kernel.grid.shape)
    with torch.no_grad():
        return torch.export.export(_Program(kernel), (example,), dynamic_shapes=({0: Dim("count", min=1)},))


class _Model(nn.Module):
    def __init__(self, model: Model, pairs: Pairs) -> None:
        super().__init__()
        self.model, self.grid = model, pairs.grid

    def forward(
        self,
        loads: Float[Tensor, "system pair component *space"],
        responses: Float[Tensor, "system pair component *space"],
        queries: Float[Tensor, "system query component *space"],
    ) -> Float[Tensor, "system query component *space"]:
        """Responses to the queries."""
        return self.model(Pairs(self.grid, loads, responses)) @ queries


class _Program(nn.Module):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, loads: Float[Tensor, "load component *space"]) -> Float[Tensor, "load component *space"]:
        """Responses in physical units."""
        return self.kernel.predict(loads)
