"""nipde: from measured loads and responses to the kernel of an unknown law."""

from importlib import import_module
from typing import Any

#: Of the package, as `nipde --version` prints it.
__version__ = "0.1.0"

#: Public name -> module that holds it; loaded on first use, so that `import nipde` stays light.
_PUBLIC = {
    "AFNO": "nipde.estimators.afno",
    "AdjointGaussNewton": "nipde.estimators.adjoint",
    "AdvectionRecipe": "nipde.data.problems",
    "Archive": "nipde.data.archive",
    "Axis": "nipde.grid",
    "CellwiseBody": "nipde.physics.cellwise",
    "ConditionedKernel": "nipde.kernels.conditioned",
    "ConditionedNIPS": "nipde.estimators.conditioned",
    "Darcy": "nipde.physics.darcy",
    "DarcyRecipe": "nipde.data.problems",
    "DenseKernel": "nipde.kernels.dense",
    "Dirichlet": "nipde.boundary",
    "Discovery": "nipde.discovery.discovery",
    "ElasticBalance": "nipde.estimators.elastic_balance",
    "ElasticGaussNewton": "nipde.estimators.elastic_adjoint",
    "EmpiricalBayes": "nipde.estimators.empirical_bayes",
    "EquationError": "nipde.estimators.equation_error",
    "GaussianField": "nipde.physics.random_fields",
    "Grid": "nipde.grid",
    "Kernel": "nipde.kernels.base",
    "KernelRegressor": "nipde.interop.kernel_regressor",
    "LawKernel": "nipde.kernels.law",
    "LowRankKernel": "nipde.kernels.low_rank",
    "Measurement": "nipde.measurements.measurement",
    "MechanicalMnistRecipe": "nipde.data.mechanics",
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
    "TissueRecipe": "nipde.data.mechanics",
    "TotalVariation": "nipde.estimators.inversion.regularisers",
    "TrainingRecipe": "nipde.training.recipe",
    "TrainingSpan": "nipde.estimators.training_span",
    "as_linear_operator": "nipde.interop.linear_operator",
    "discover": "nipde.discovery.discover",
    "evaluate": "nipde.evaluation.evaluate",
    "fit": "nipde.training.fit",
    "from_checkpoint": "nipde.interop.checkpoint",
    "from_pretrained": "nipde.interop.hub",
    "from_xarray": "nipde.interop.labelled",
    "generate": "nipde.data.generate",
    "load": "nipde.training.pretrained",
    "load_model": "nipde.training.weights",
    "open": "nipde.data.archive",
    "open_xarray": "nipde.interop.labelled",
    "permeability_of": "nipde.estimators.kernel_match",
    "read": "nipde.measurements.read",
    "sample": "nipde.measurements.samples",
    "sample_truth": "nipde.measurements.samples",
    "save": "nipde.report.files",
    "save_checkpoint": "nipde.interop.checkpoint",
    "save_pretrained": "nipde.interop.hub",
    "to_onnx": "nipde.interop.onnx_program",
    "to_the_well": "nipde.interop.the_well",
    "to_xarray": "nipde.interop.labelled",
    "wave_loads": "nipde.discovery.candidates",
    "with_white_noise": "nipde.context.noise",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'nipde' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
