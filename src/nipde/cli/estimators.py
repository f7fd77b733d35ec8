"""An estimator by the word a person gives for it: pretrained weights, a classical method, or weights of their own."""

from pathlib import Path

from nipde.data.archive import Archive
from nipde.errors import PairsError, meant
from nipde.estimators.base import Estimator
from nipde.evaluation.named import NAMES, SOLIDS, named


def described() -> str:
    """For help texts."""
    from nipde.training.pretrained import names

    return (
        f"pretrained weights ({', '.join(names())}), a method ({', '.join(NAMES)}), one for plane solids "
        f"({', '.join(SOLIDS)}), a run's folder or a file of weights"
    )


def estimator_of(what: str, archive: Archive, *, training: Archive | None = None) -> Estimator:
    """Names first, then paths; methods that learn do so from the training systems of `training`, or of the archive."""
    from nipde.training.pretrained import load, names
    from nipde.training.weights import load_model

    if what in (*NAMES, *SOLIDS):
        return named(what, archive, training=training)
    if what in names():
        return load(what)
    if not Path(what).exists():
        known = (*names(), *NAMES, *SOLIDS)
        remedy = meant(what, known, otherwise="check the name or the path")
        raise PairsError(expected=described(), got=what, remedy=remedy)
    return load_model(what)
