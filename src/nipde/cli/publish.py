"""`nipde publish RUN --name NAME`: a run's best weights as two files to share, with bands, alarm and a card."""

from pathlib import Path

from nipde.cli.terminal import parser, progress, say
from nipde.data.archive import open as open_archive
from nipde.errors import CheckpointError
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.evaluation.calibrate import NOISE, PAIRS, calibrated
from nipde.training.pretrained import check_name, publish
from nipde.training.weights import load_model


def run(words: list[str]) -> int:
    """Entry of the verb."""
    options = parser(
        "publish", "Write a run's best weights and their card, calibrated on systems no training has seen."
    )
    options.add_argument("run", type=Path, help="folder of a run of nipde train")
    options.add_argument("--name", type=str, required=True, help="name of the weights")
    options.add_argument("--out", type=Path, required=True, help="folder for NAME.safetensors and NAME.json")
    options.add_argument("--about", type=str, default="", help="what the weights are for, in a sentence")
    options.add_argument("--limits", type=str, default="", help="where they are not to be used")
    options.add_argument(
        "--calibrate", type=str, default="", help="archive whose validation systems give bands and alarm; none without"
    )
    options.add_argument("--systems", type=int | None, default=None, help="validation systems to use, at most")
    options.add_argument("--sharp", type=bool, default=False, help="whether its materials are of few phases")
    chosen = options.parse_args(words)
    check_name(chosen.name)
    about = {"about": chosen.about, "limits": chosen.limits}
    if chosen.calibrate:
        model, archive = load_model(chosen.run), open_archive(chosen.calibrate)
        if not isinstance(model, ConditionedNIPS):
            raise CheckpointError(
                expected="weights of ConditionedNIPS to calibrate", got=type(model).__name__, remedy="leave --calibrate"
            )
        # A context must leave queries.
        pairs = [count for count in PAIRS if count < len(archive.load_indices("validation"))]
        systems = len(archive.indices("validation")[: chosen.systems])
        with progress("calibrating", len(pairs) * len(NOISE) * systems) as advance:
            found = calibrated(
                model, archive, pairs=pairs, systems=chosen.systems, sharp=chosen.sharp, progress=advance
            ).calibration
        about["calibration"] = None if found is None else found.to_dict()
    publish(chosen.run, chosen.name, about, shelf=chosen.out)
    say(f"written: {chosen.out / chosen.name}.safetensors and .json")
    return 0
