"""The option that names weights: those on the shelf that suit the verb, or a published file."""

from jsonargparse import ArgumentParser

from nipde.training.pretrained import card, names


def add_weights(to: ArgumentParser, *, material: bool) -> None:
    """With `material`, help lists only weights that infer one: others are refused."""
    suited = [name for name in names() if not material or infers_material(name)]
    to.add_argument("--weights", type=str, default="darcy", help=f"{', '.join(suited)}, or a published file")


def infers_material(name: str) -> bool:
    """Whether the weights assume a balance law, whose coefficients are the material."""
    return bool(card(name)["training"]["recipe"]["model"]["prior"] == "elliptic")
