"""`nipde estimate PATH`: some pairs of a system in, its kernel out, judged on the other pairs."""

import os
from typing import Any

import numpy as np
import torch

from nipde.cli.estimators import described, estimator_of
from nipde.cli.terminal import PICTURES, add_archive, check_file, one_thread, parser, progress, say
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.archive import open as open_archive
from nipde.data.cells import node_means
from nipde.discovery.fibres import two_segments
from nipde.errors import PairsError
from nipde.estimators.elastic_adjoint import ElasticGaussNewton
from nipde.estimators.inversion.body_posterior import BodyPosterior
from nipde.evaluation.metrics import relative_errors
from nipde.kernels.base import Predictor
from nipde.kernels.body import BodyAtRest, BodyPredictor
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.corrected import CorrectedPredictor
from nipde.kernels.law import LawKernel
from nipde.physics.cellwise import CellwiseBody
from nipde.report.system_figure import Panel, system_figure

#: Share of true values that the bands shown should hold.
LEVEL = 0.9
#: A modulus that differs by less than this factor is not worth a picture.
EVEN = 1.001


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
        noisy = with_white_noise(context, share=chosen.noise, seed=chosen.seed)
        posterior = estimator.posterior(noisy) if isinstance(estimator, ElasticGaussNewton) else None
        with torch.no_grad():
            like = noisy.loads.new_ones(())
            kernel = estimator(noisy) if posterior is None else BodyPredictor.of([posterior.body], like=like)
        advance(1)
    for name, pairs in (("in context", context), ("held out", queries)):
        error = relative_errors(pairs.grid, kernel.predict(pairs.loads), pairs.responses).mean()
        say(f"{name}: {100 * float(error):.2g} % mean relative error over {pairs.count} loads")
    if isinstance(kernel, ConditionedKernel) and kernel.trust is not None:
        low, high = kernel.band(queries.loads, level=LEVEL)
        within = ((low <= queries.responses) & (queries.responses <= high)).double().mean()
        say(f"bands of {100 * LEVEL:g} % hold {100 * float(within):.0f} % of these responses")
        say(kernel.alarm.reasons())
    if (body := _body_of(kernel)) is not None:
        say(_inside(body, posterior))
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
    if isinstance(kernel, LawKernel | ConditionedKernel) and kernel.coefficient is not None:
        panels += [Panel("hidden field", "1", hidden), Panel("its estimate", "1", kernel.coefficient.numpy()[None])]
    body = _body_of(kernel)
    if body is not None and len(hidden) == 2:  # of tissue, the doubled angle
        panels += [Panel("fibre angle", "°", _degrees(hidden[0] + 1j * hidden[1])[None])]
    elif body is not None:
        panels += [Panel("hidden field", "1", hidden)]
    if body is not None and body.young.max() > EVEN * body.young.min():
        panels += [Panel("modulus found", "1", node_means(body.young)[None])]
    if body is not None and len(body.angles):
        panels += [Panel("fibre angle found", "°", _degrees(node_means(body.fibre_moment))[None])]
    return panels


def _degrees(moment: np.ndarray) -> np.ndarray:
    """Direction of fibres from twice their angle, 0 to 180."""
    return np.asarray(np.degrees(np.angle(moment) / 2) % 180)


def _body_of(kernel: Predictor) -> CellwiseBody | None:
    """What a plane solid was found to be made of, if that is believed."""
    alone = kernel.alone if isinstance(kernel, CorrectedPredictor) else kernel
    rest = alone.kernel if isinstance(alone, BodyPredictor) else alone
    if not isinstance(rest, BodyAtRest) or not bool(rest.factor.all()):
        return None
    return rest.bodies[0] if isinstance(rest.bodies[0], CellwiseBody) else None


def _inside(body: CellwiseBody, posterior: BodyPosterior | None) -> str:
    """In a sentence, and how sure it is where that is known."""
    said = f"inside: moduli from {body.young.min():.3g} to {body.young.max():.3g}"
    if posterior is not None:
        low, high = posterior.modulus_band(LEVEL)
        said += f" (bands of {100 * LEVEL:g} %: ± {50 * float(np.median(np.log(high / low))):.2g} % in the median cell)"
    if not len(body.angles):
        return f"{said}, no fibres"
    segments = two_segments(body)
    first, second, line = (f"{np.degrees(angle):.1f}°" for angle in (*segments.angles, segments.line))
    said += f"; fibres along {first} and {second}, on the sides of a line at {line}"
    if posterior is not None:
        said += f" (deviation {np.degrees(np.median(posterior.angle_deviation())):.2g}° in the median cell)"
    return said
