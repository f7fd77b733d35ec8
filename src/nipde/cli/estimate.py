"""`nipde estimate PATH`: some pairs of a system in, its kernel out, judged on the other pairs."""

import os
from typing import Any

import torch

from nipde.cli.estimators import described, estimator_of
from nipde.cli.terminal import PICTURES, add_archive, check_file, one_thread, parser, progress, say
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.archive import open as open_archive
from nipde.errors import PairsError
from nipde.evaluation.metrics import relative_errors
from nipde.kernels.base import Predictor
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.law import LawKernel
from nipde.report.system_figure import Panel, system_figure

#: Share of true values that the bands shown should hold.
LEVEL = 0.9


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("estimate", "Estimate the kernel of one system from some of its pairs; test it on the others.")
    add_archive(options)
    options.add_argument("--system", type=int, default=0, help="which system")
    options.add_argument(
        "--estimator",
        type=str,
        default="darcy",
        help=f"{described()}; training-span and empirical-bayes learn from the archive's training systems",
    )
    options.add_argument("--context", type=int, default=None, help="pairs to learn from; half of them by default")
    options.add_argument(
        "--noise", type=float, default=0.0, help="white noise to add, as a share of the responses' rms"
    )
    options.add_argument("--seed", type=int, default=0, help="seed of the noise")
    options.add_argument("--out", type=str, default="", help="picture to write, if any: png, svg or pdf")
    chosen = options.parse_args(words)
    if chosen.out:
        check_file(chosen.out, endings=PICTURES)
    one_thread()
    archive = open_archive(chosen.path, options=chosen.storage_options)
    estimator = estimator_of(chosen.estimator, archive)
    system = archive[chosen.system]
    every = Pairs.from_arrays(system.loads, system.responses, grid=archive.grid).to(dtype=torch.float64)
    count = every.count // 2 if chosen.context is None else chosen.context
    if not 1 <= count < every.count:
        raise PairsError(
            expected=f"a context of 1 to {every.count - 1} pairs", got=count, remedy="leave some to test the kernel on"
        )
    context, queries = every.take(slice(0, count)), every.take(slice(count, None))
    with progress(f"{chosen.estimator}, {count} pairs", 1) as advance:
        # A network answers in its own precision, and stays out of the way of gradients.
        if isinstance(estimator, torch.nn.Module):
            every, context, queries = (part.to(dtype=torch.float32) for part in (every, context, queries))
        with torch.no_grad():
            kernel = estimator(with_white_noise(context, share=chosen.noise, seed=chosen.seed))
        advance(1)
    for name, pairs in (("in context", context), ("held out", queries)):
        error = relative_errors(pairs.grid, kernel.predict(pairs.loads), pairs.responses).mean()
        say(f"{name}: {100 * float(error):.2g} % mean relative error over {pairs.count} loads")
    if isinstance(kernel, ConditionedKernel) and kernel.trust is not None:
        low, high = kernel.band(queries.loads, level=LEVEL)
        within = ((low <= queries.responses) & (queries.responses <= high)).double().mean()
        say(f"bands of {100 * LEVEL:g} % hold {100 * float(within):.0f} % of these responses")
        say(kernel.alarm.reasons())
    if chosen.out:
        os.environ.setdefault("MPLBACKEND", "Agg")  # drawing to a file needs no screen
        title = f"{chosen.estimator} from {count} pairs, noise {100 * chosen.noise:g} %"
        system_figure(archive.grid, _panels(kernel, queries, system.hidden), title=title).savefig(chosen.out, dpi=150)
        say(f"drawn: {chosen.out}")
    return 0


def _panels(kernel: Predictor, queries: Pairs, hidden: Any) -> list[Panel]:
    """An unseen load's response, the kernel's answer, the hidden field, and what was found of it."""
    answer = kernel.predict(queries.loads[:1])[0].numpy()
    panels = [
        Panel("response to an unseen load", "1", queries.responses[0].numpy()),
        Panel("its estimate", "1", answer),
    ]
    found = None
    if isinstance(kernel, LawKernel | ConditionedKernel) and kernel.coefficient is not None:
        found = kernel.coefficient.numpy()
    if found is not None:
        panels += [Panel("hidden field", "1", hidden), Panel("its estimate", "1", found[None])]
    return panels
