"""`nipde estimate ARCHIVE`: the kernel of one system from some of its pairs, tested on the others."""

from typing import Any

import numpy as np
import torch

from nipde.cli.arguments import PICTURES, add_archive, new_file, non_negative, parser, whole
from nipde.cli.estimators import described, estimator_of
from nipde.cli.terminal import one_thread, progress, say, written
from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.data.archive import open_archive
from nipde.discovery.fibres import two_segments
from nipde.errors import PairsError
from nipde.estimators.paper.order_mean import OrderMean, distance_apart
from nipde.evaluation.metrics import relative_errors
from nipde.kernels.body import BodyPredictor
from nipde.physics.quadrilaterals import node_means
from nipde.report.statements import outlier_statement
from nipde.report.system_figure import Panel, system_figure

#: Level of the bands.
LEVEL = 0.9
#: A modulus whose contrast is below this is constant.
CONSTANT = 1.001


def run(words: list[str]) -> int:
    """Entry of the verb."""
    parsed = parser(
        "estimate", "Estimate the kernel of one system of an archive from some of its pairs; test it on the others.",
        example="darcy21 --system 90 --estimator adjoint-tv --noise 0.01 --out estimate.png",
    )  # fmt: skip
    add_archive(parsed)
    parsed.add_argument("--system", type=whole(0), default=0, help="number of the system")
    parsed.add_argument(
        "--estimator", type=str, default="darcy",
        help=f"{described()}; training-span and empirical-bayes learn from the archive's training systems",
    )  # fmt: skip
    parsed.add_argument("--context", type=whole(), default=None, help="number of pairs to estimate from; default half")
    parsed.add_argument(
        "--orders", type=whole(), default=1,
        help="of weights of the paper's networks: mean of the kernels for so many orders of the pairs; 8 are enough",
    )  # fmt: skip
    parsed.add_argument(
        "--noise", type=non_negative, default=0.0, help="white noise to add, as a share of the responses' rms"
    )
    parsed.add_argument("--seed", type=whole(0), default=0, help="seed of the noise")
    parsed.add_argument(
        "--out", type=new_file(*PICTURES), default=None, help="figure to write, if any: png, svg or pdf"
    )
    options = parsed.parse_args(words)
    one_thread()
    archive = open_archive(options.path, options=options.storage_options)
    archive.check_fills_box()
    estimator = estimator_of(options.estimator, archive)
    if options.orders > 1:
        estimator = OrderMean(estimator, orders=options.orders)  # type: ignore[arg-type]
    system = archive[options.system]
    pairs = Pairs.from_arrays(system.loads, system.responses, grid=archive.grid).to(dtype=torch.float64)
    if isinstance(estimator, torch.nn.Module | OrderMean):
        pairs = pairs.to(dtype=torch.float32)
    count = pairs.count // 2 if options.context is None else options.context
    if count >= pairs.count:
        raise PairsError(
            expected=f"a context of 1 to {pairs.count - 1} pairs", got=count, remedy="leave some to test the kernel on"
        )
    context, queries = pairs.take(slice(0, count)), pairs.take(slice(count, None))
    measured = with_white_noise(context, share=options.noise, seed=options.seed)
    with progress(f"{options.estimator}, {count} pairs", 1) as advance:
        kernel, posterior = _estimated(estimator, measured)
        advance(1)
    for name, part in (("in context", context), ("held out", queries)):
        error = relative_errors(part.grid, kernel.predict(part.loads), part.responses).mean()
        say(f"{name}: {100 * float(error):.2g} % mean relative error over {part.count} loads")
    if isinstance(estimator, OrderMean):
        with torch.no_grad():
            apart = distance_apart(estimator.kernels(measured), queries.loads).mean()
        say(f"held out: answers for {options.orders} orders of the pairs are apart by {100 * float(apart):.2g} %")
    if kernel.bands is not None:
        low, high = kernel.band(queries.loads, level=LEVEL)
        within = ((low <= queries.responses) & (queries.responses <= high)).double().mean()
        say(f"bands of {100 * LEVEL:g} % hold {100 * float(within):.0f} % of these responses")
        say(outlier_statement(kernel.outlier_test))
    if kernel.body is not None:
        say(_body_statement(kernel.body, posterior))
    if options.out:
        title = f"{options.estimator} from {count} pairs, noise {100 * options.noise:g} %"
        figure = system_figure(archive.grid, _panels(kernel, queries, system.hidden), title=title)
        with written(options.out) as partial:
            figure.savefig(partial, format=options.out.suffix[1:], dpi=150)
    return 0


def _estimated(estimator: Any, pairs: Pairs) -> tuple[Any, Any]:
    """The kernel; and the posterior of an elastic body, where the estimator has one."""
    if isinstance(estimator, torch.nn.Module | OrderMean) or not hasattr(estimator, "posterior"):
        with torch.no_grad():
            return estimator(pairs), None
    posterior = estimator.posterior(pairs)
    return BodyPredictor.of([posterior.body], like=pairs.loads.new_ones(())), posterior


def _panels(kernel: Any, queries: Pairs, hidden: Any) -> list[Panel]:
    """The response to a held-out load and its prediction; the true material and its estimate."""
    panels = [
        Panel("held-out response", "1", queries.responses[0].numpy()),
        Panel("its prediction", "1", kernel.predict(queries.loads[:1])[0].numpy()),
    ]
    if kernel.coefficient is not None:
        panels += [Panel("true coefficient", "1", hidden), Panel("estimate", "1", kernel.coefficient.numpy()[None])]
    if (body := kernel.body) is None:
        return panels
    if len(hidden) == 2:  # of tissue, the doubled angle
        panels += [Panel("fibre angle", "°", _degrees(hidden[0] + 1j * hidden[1])[None])]
    else:
        panels += [Panel("true modulus", "1", hidden)]
    if body.young.max() > CONSTANT * body.young.min():
        panels += [Panel("estimated modulus", "1", node_means(body.young)[None])]
    if len(body.angles):
        panels += [Panel("estimated fibre angle", "°", _degrees(node_means(body.fibre_moment))[None])]
    return panels


def _degrees(moment: np.ndarray) -> np.ndarray:
    """Direction of fibres from twice their angle, 0 to 180."""
    return np.asarray(np.degrees(np.angle(moment) / 2) % 180)


def _body_statement(body: Any, posterior: Any) -> str:
    """Moduli and fibres of an elastic body, with their uncertainty where it is known."""
    text = f"Young's modulus from {body.young.min():.3g} to {body.young.max():.3g}"
    if posterior is not None:
        low, high = posterior.modulus_band(LEVEL)
        text += f" (bands of {100 * LEVEL:g} %: ± {50 * float(np.median(np.log(high / low))):.2g} % in the median cell)"
    if not len(body.angles):
        return f"{text}, no fibres"
    segments = two_segments(body)
    first, second, line = (f"{np.degrees(angle):.1f}°" for angle in (*segments.angles, segments.line))
    text += f"; fibres along {first} and {second}, on the two sides of a line at {line}"
    if posterior is not None:
        text += f" (deviation {np.degrees(np.median(posterior.angle_deviation())):.2g}° in the median cell)"
    return text
