"""An estimator by the word a person gives for it: pretrained weights, a method, or weights of their own."""

from pathlib import Path

from jsonargparse import ArgumentParser
from torch import nn

from nipde.data.archive import Archive
from nipde.errors import PairsError, meant
from nipde.estimators import registry
from nipde.estimators.base import Estimator
from nipde.evaluation.named import named
from nipde.weights import card, load
from nipde.weights import names as weights_names


def described() -> str:
    """For help texts."""
    methods = [name for name in registry.names() if name not in registry.SOLIDS]
    return (
        f"pretrained weights ({', '.join(weights_names())}), a method ({', '.join(methods)}), one for plane solids "
        f"({', '.join(registry.SOLIDS)}), a run's folder or a file of weights"
    )


def on_device(estimator: Estimator, device: str) -> Estimator:
    """The same, its weights on a device; raises for what has none."""
    if not device:
        return estimator
    if not isinstance(estimator, nn.Module):
        raise PairsError(
            expected="weights, which compute on any device", got=f"--device {device} for a method of the processor",
            remedy="leave out --device",
        )  # fmt: skip
    return estimator.to(device)


def estimator_of(what: str, archive: Archive, *, training: Archive | None = None) -> Estimator:
    """Names first, then paths; fitted methods learn from the training systems of `training`, or of the archive."""
    if what in registry.names():
        return named(what, archive, training=training)
    known = (*weights_names(), *registry.names())
    if what not in known and not Path(what).exists():
        remedy = meant(what, known, otherwise="check the name or the path")
        raise PairsError(expected=described(), got=what, remedy=remedy)
    return load(what)


def add_weights(to: ArgumentParser, *, material: bool, default: str = "darcy", more: str = "") -> None:
    """With `material`, help lists only weights that infer one: others are refused; `more` names what else is known."""
    suited = [name for name in weights_names() if not material or infers_material(name)]
    to.add_argument(
        "--weights",
        type=str,
        default=default,
        help=f"trained model: {', '.join(suited)}, or a file or folder of your own" + (f"; or {more}" if more else ""),
    )


def infers_material(name: str) -> bool:
    """Whether the weights assume a balance law, whose coefficients are the material."""
    return bool(card(name)["model"].get("prior") == "elliptic")
