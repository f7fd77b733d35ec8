"""nipde: from measured loads and responses to the kernel of an unknown law."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> module that holds it; loaded on first use, so that `import nipde` stays light.
_PUBLIC = {
    "AFNO": "nipde.estimators.afno",
    "AdjointGaussNewton": "nipde.estimators.adjoint",
    "AdvectionRecipe": "nipde.data.problems",
    "Archive": "nipde.data.archive",
    "Axis": "nipde.grid",
    "ConditionedKernel": "nipde.kernels.conditioned",
    "ConditionedNIPS": "nipde.estimators.conditioned",
    "DarcyRecipe": "nipde.data.problems",
    "DenseKernel": "nipde.kernels.dense",
    "Dirichlet": "nipde.boundary",
    "Discovery": "nipde.discovery.discovery",
    "EmpiricalBayes": "nipde.estimators.empirical_bayes",
    "EquationError": "nipde.estimators.equation_error",
    "Grid": "nipde.grid",
    "Kernel": "nipde.kernels.base",
    "LowRankKernel": "nipde.kernels.low_rank",
    "Measurement": "nipde.measurements.measurement",
    "MinimumNorm": "nipde.estimators.minimum_norm",
    "MixedDarcyRecipe": "nipde.data.problems",
    "ModelRecipe": "nipde.training.recipe",
    "NAO": "nipde.estimators.nao",
    "NIPS": "nipde.estimators.nips",
    "NIPSMLP": "nipde.estimators.nips",
    "Neumann": "nipde.boundary",
    "Pairs": "nipde.context.pairs",
    "Periodic": "nipde.boundary",
    "Plan": "nipde.data.plan",
    "Ridge": "nipde.estimators.ridge",
    "Sampler": "nipde.context.sampling",
    "System": "nipde.data.system",
    "TrainingRecipe": "nipde.training.recipe",
    "TrainingSpan": "nipde.estimators.training_span",
    "discover": "nipde.discovery.discover",
    "evaluate": "nipde.evaluation.evaluate",
    "fit": "nipde.training.fit",
    "generate": "nipde.data.generate",
    "load": "nipde.training.pretrained",
    "load_model": "nipde.training.weights",
    "open": "nipde.data.archive",
    "read": "nipde.measurements.read",
    "sample": "nipde.measurements.samples",
    "sample_truth": "nipde.measurements.samples",
    "save": "nipde.report.files",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nipde' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
