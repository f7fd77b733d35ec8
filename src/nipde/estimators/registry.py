"""Estimators by name: methods ready to use, models that are trained, and those of other packages.

A package adds its own by an entry point of the group `nipde.estimators`, `NAME = "package.module:attribute"`. The
attribute is called without arguments and returns an estimator; or it is a class with `fit(pairs, kernels)`, fitted to
true kernels of training systems; or a subclass of Model, whose weights are then read by `nipde.load`. Nothing is
imported before it is used.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nipde.errors import PairsError, meant
from nipde.estimators.base import Estimator, Model

GROUP = "nipde.estimators"
#: Kind in a config -> class.
MODELS = {
    "nips": "nipde.estimators.paper.nips:NIPS",
    "nips-mlp": "nipde.estimators.paper.nips:NIPSMLP",
    "nao": "nipde.estimators.paper.nao:NAO",
    "afno": "nipde.estimators.paper.afno:AFNO",
    "conditioned": "nipde.estimators.conditioned.conditioned_nips:ConditionedNIPS",
}
SCALAR = {
    "minimum-norm": "nipde.estimators.regression.ridge:MinimumNorm",
    "ridge": "nipde.estimators.regression.ridge:Ridge",
    "equation-error": "nipde.estimators.inverse.equation_error:EquationError",
    "adjoint": "nipde.estimators.inverse.adjoint:AdjointGaussNewton",
    "adjoint-tv": "nipde.estimators.inverse.adjoint:with_total_variation",
}
#: From readings of sensors, or pairs; one system takes tens of seconds.
SENSORS = {"output-error": "nipde.estimators.inverse.sensor_inversion:SensorInversion"}
#: Fitted to true kernels of training systems.
FITTED = {
    "training-span": "nipde.estimators.regression.training_span:TrainingSpan",
    "empirical-bayes": "nipde.estimators.regression.empirical_bayes:EmpiricalBayes",
}
#: For plane solids: forces and displacements of two components.
SOLIDS = {
    "elastic-balance": "nipde.estimators.inverse.elastic_balance:ElasticBalance",
    "elastic-adjoint": "nipde.estimators.inverse.elastic_adjoint:ElasticGaussNewton",
    "linear-elasticity": "nipde.estimators.inverse.elastic_balance:linear_elasticity",
    "conditioned-elastic": "nipde.estimators.conditioned.conditioned_nips:elastic",
}
METHODS = SCALAR | SENSORS | FITTED | SOLIDS


def names() -> tuple[str, ...]:
    """Of all methods, those of other packages last."""
    return (*METHODS, *(name for name in _others() if name not in MODELS | METHODS))


def factory(name: str) -> Callable[[], Estimator]:
    """What makes the estimator of a name; a class with `fit` is fitted first."""
    made = _loaded(name, METHODS)
    if isinstance(made, type) and issubclass(made, Model):
        raise PairsError(expected=f"weights of {name}, which is trained", got="its name", remedy="give their path")
    return made


def model_class(kind: str) -> type[Model]:
    """The class of a kind of model."""
    made = _loaded(kind, MODELS)
    if not (isinstance(made, type) and issubclass(made, Model)):
        raise PairsError(expected=f"a kind of model among {', '.join(MODELS)}", got=kind)
    return made


def build(record: dict[str, Any]) -> Model:
    """The model of a config in JSON form, with fresh weights."""
    kind = model_class(record["kind"])
    return kind.from_config(kind.Config.from_dict(record))


def _loaded(name: str, table: dict[str, str]) -> Any:
    if name in table:
        module, attribute = table[name].split(":")
        return getattr(import_module(module), attribute)
    if name in _others():
        return _others()[name].load()
    known = (*table, *_others())
    raise PairsError(
        expected=f"an estimator among {', '.join(known)}", got=name, remedy=meant(name, known, otherwise="check it")
    )


@cache
def _others() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
