"""nipde: from measured loads and responses to the kernel of an unknown law."""

from nipde.lazy import lazy

#: Of the package, as `nipde --version` prints it.
__version__ = "0.1.0"

#: The main objects and verbs; the rest stands in the packages, such as `nipde.physics.GaussianField`.
_PUBLIC = {
    "AFNO": "estimators.paper.afno",
    "AdjointGaussNewton": "estimators.inverse.adjoint",
    "Archive": "data.archive",
    "ConditionedNIPS": "estimators.conditioned.conditioned_nips",
    "Darcy": "physics.darcy",
    "DarcyRecipe": "data.darcy",
    "EquationError": "estimators.inverse.equation_error",
    "Grid": "grid",
    "Kernel": "kernels.base",
    "MinimumNorm": "estimators.regression.ridge",
    "NAO": "estimators.paper.nao",
    "NIPS": "estimators.paper.nips",
    "OrderMean": "estimators.paper.order_mean",
    "Pairs": "context.pairs",
    "Plan": "data.plan",
    "Prism": "prism",
    "Ridge": "estimators.regression.ridge",
    "SensorInversion": "estimators.inverse.sensor_inversion",
    "SensorPairs": "context.sensor_pairs",
    "Sensors": "context.sensors",
    "Shape": "shape",
    "SolidInversion": "estimators.inverse.solid_inversion",
    "SolidLoad": "discretisation.solid_load",
    "SolidTests": "context.solid_tests",
    "TrainingRecipe": "training.recipe",
    "discover": "discovery.discover",
    "evaluate": "evaluation.evaluate",
    "fit": "training.fit",
    "generate": "data.generation",
    "load": "weights.models",
    "open_archive": "data.archive",
    "read": "measurements.read",
    "sample": "measurements.samples",
    "with_white_noise": "context.noise",
}
_PACKAGES = (
    "boundary", "context", "data", "discovery", "errors", "estimators", "evaluation", "grid", "interop", "kernels",
    "measurements", "physics", "prism", "report", "shape", "spectral", "testing", "training", "weights",
)  # fmt: skip
__getattr__, _dir, _names = lazy("nipde", _PUBLIC, modules=_PACKAGES)
__all__ = ["__version__", *_names]


def __dir__() -> list[str]:
    return ["__version__", *_dir()]
