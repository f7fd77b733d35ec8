"""`nipde publish RUN --name NAME --out FOLDER`: a run's best weights as a folder to share, calibrated, with a card."""

from pathlib import Path
from typing import Any

from nipde.cli.arguments import address, new_folder, parser, whole
from nipde.cli.terminal import progress, say
from nipde.data.archive import open_archive
from nipde.errors import CheckpointError
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.evaluation.calibrate import NOISE, PAIRS, calibrated
from nipde.training.callbacks import history
from nipde.weights import card, load, publish
from nipde.weights.models import BEST

#: Sentences of a card.
NOTES = ("about", "limits")


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser("publish", "Write a run's best weights and their card, calibrated on validation systems.")
    options.add_argument("run", type=Path, help="folder of a run of nipde train, or of published weights")
    options.add_argument("--name", type=str, required=True, help="name of the weights")
    options.add_argument("--out", type=new_folder, required=True, help="folder for weights, config and card")
    options.add_argument("--about", type=str, default="", help="what the weights are for, in a sentence")
    options.add_argument("--limits", type=str, default="", help="where they are not to be used")
    options.add_argument(
        "--calibrate", type=address, default=None,
        help="archive whose validation systems give bands and outlier test; none without",
    )  # fmt: skip
    options.add_argument("--systems", type=whole(), default=None, help="validation systems to use, at most")
    options.add_argument("--pairs", type=list[int], default=list(PAIRS), help="numbers of pairs to calibrate for")
    options.add_argument("--noise", type=list[float], default=list(NOISE), help="shares of noise to calibrate for")
    options.add_argument(
        "--piecewise-constant", type=bool, default=False, help="whether its materials are of few phases"
    )
    arguments = options.parse_args(words)
    model = load(arguments.run)
    model.name = arguments.name
    if arguments.calibrate:
        archive = open_archive(arguments.calibrate)
        if not isinstance(model, ConditionedNIPS):
            raise CheckpointError(
                expected="weights of ConditionedNIPS to calibrate", got=type(model).__name__, remedy="leave --calibrate"
            )
        # A context must leave queries.
        pairs = [count for count in arguments.pairs if count < len(archive.load_indices("validation"))]
        systems = len(archive.indices("validation")[: arguments.systems])
        with progress("calibrating", len(pairs) * len(arguments.noise) * systems) as advance:
            model = calibrated(
                model, archive, pairs=pairs, noise=arguments.noise, systems=arguments.systems, progress=advance,
                piecewise_constant=arguments.piecewise_constant,
            )  # fmt: skip
    notes = _notes(arguments.run) | {name: text for name in NOTES if (text := getattr(arguments, name))}
    publish(model, arguments.out, **notes)
    say(f"written: {arguments.out}")
    return 0


def _notes(place: Path) -> dict[str, Any]:
    """What the card says of a run, or of weights that are published again."""
    if (place / BEST).exists():
        return {"history": history(place)}
    record = card(place)
    kept = {name: record[name] for name in NOTES if name in record}
    return {**kept, "history": {name: record[name] for name in ("training", "curve") if name in record}}
