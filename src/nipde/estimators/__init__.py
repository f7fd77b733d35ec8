"""Estimators: Pairs in, Kernel out."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "AFNO": "paper.afno",
        "AdjointGaussNewton": "inverse.adjoint",
        "ConditionedNIPS": "conditioned.conditioned_nips",
        "ElasticBalance": "inverse.elastic_balance",
        "ElasticGaussNewton": "inverse.elastic_adjoint",
        "EmpiricalBayes": "regression.empirical_bayes",
        "EquationError": "inverse.equation_error",
        "MinimumNorm": "regression.ridge",
        "NAO": "paper.nao",
        "NIPS": "paper.nips",
        "NIPSMLP": "paper.nips",
        "Ridge": "regression.ridge",
        "TotalVariation": "inverse.regularisers",
        "TrainingSpan": "regression.training_span",
        "permeability_of": "inverse.adjoint",
    },
)
