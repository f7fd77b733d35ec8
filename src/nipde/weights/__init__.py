"""Trained models as files: `load` opens them, `save` writes one, `publish` writes a folder to share."""

from nipde.weights.hub import fetch, publish
from nipde.weights.models import card, load, names, save

__all__ = ["card", "fetch", "load", "names", "publish", "save"]
