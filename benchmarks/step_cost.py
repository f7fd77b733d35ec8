"""What one training step asks of a device: multiplications, bytes and parameters, counted without computing anything.

Tensors on PyTorch's meta device have shapes and no values, so that a step of any size can be counted, and a step that
looks at a value fails. Counted are forward, loss and backward of a batch; operations are two per multiplication (only
products and convolutions count), bytes are those of every operation's operands and results, as if none were fused.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from nipde.context.pairs import Pairs
from nipde.estimators.paper.token_model import TokenModel
from nipde.evaluation.metrics import relative_errors
from nipde.grid import Grid
from nipde.training.recipe import Kind, ModelRecipe

SEED = 0
BATCH, PAIRS, CHANNELS = 10, 50, 40
#: Model, layers, nodes per axis.
CASES: tuple[tuple[Kind, int, int], ...] = (
    ("nips", 2, 21), ("nips", 4, 21), ("nao", 2, 21), ("afno", 2, 21), ("nips", 4, 41),
    ("nips", 4, 81), ("nips", 4, 161), ("nips", 4, 321),
)  # fmt: skip
#: Values per parameter that Adam reads and writes: weight, gradient and two moments, all but the gradient twice.
ADAM = 7


def measure(*, quick: bool) -> dict[str, Any]:
    """One row per model and grid."""
    rows = [_row(*case) for case in (CASES[:3] if quick else CASES)]
    return {"batch": BATCH, "pairs": PAIRS, "channels": CHANNELS, "rows": rows}


def _row(kind: Kind, layers: int, nodes: int) -> dict[str, Any]:
    with torch.device("meta"):
        model = ModelRecipe(kind, layers=layers, channels=CHANNELS).build(Grid.uniform(nodes), pairs=PAIRS)
    assert isinstance(model, TokenModel)
    parameters = sum(one.numel() for one in model.parameters())
    return {
        "model": kind, "layers": layers, "nodes": nodes, "parameters": parameters,
        **step_cost(model, batch=BATCH, device="meta"), "optimiser_bytes": ADAM * 4 * parameters,
    }  # fmt: skip


def step_cost(model: TokenModel, *, batch: int, device: str) -> dict[str, int]:
    """Operations and bytes of one step, and the bytes of its batch, which come from the processor."""
    shape = (batch, model.pairs, model.components, *model.grid.shape)
    pairs = Pairs(model.grid, torch.randn(shape, device=device), torch.randn(shape, device=device))
    with FlopCounterMode(display=False) as operations, Traffic() as traffic:
        kernel = model.kernel_of(pairs)
        relative_errors(model.grid, kernel.predict(pairs.loads), pairs.responses).mean().backward()
    return {
        "operations": int(operations.get_total_flops()), "bytes": traffic.bytes,
        "batch_bytes": sum(field.numel() * field.element_size() for field in (pairs.loads, pairs.responses)),
    }  # fmt: skip


class Traffic(TorchDispatchMode):
    """Bytes that all operations in the block read and write; views and memory that is only reserved are free."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and "empty" not in func.name():
            self.bytes += sum(_bytes(one) for one in tree_leaves((args, kwargs, result)) if isinstance(one, Tensor))
        return result


def _bytes(tensor: Tensor) -> int:
    """An expanded tensor is as large as what it repeats."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
