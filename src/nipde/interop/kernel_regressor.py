"""Estimators of kernels as regressors of scikit-learn: rows are pairs, columns are nodes, `fit` estimates the kernel.

    fit: (F, U) -> K,    predict: f -> ∫ K(x, y) f(y) dy

Columns run over components, then nodes, as rows and columns of `Kernel.dense` do.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.boundary import Periodic
from nipde.context.pairs import Pairs
from nipde.errors import ShapeError, needing
from nipde.estimators.base import Estimator
from nipde.estimators.regression.ridge import Ridge
from nipde.grid import Axis, Grid
from nipde.kernels.base import Predictor

with needing("scikit-learn", extra="sklearn"):
    from sklearn.base import BaseEstimator
    from sklearn.utils import RegressorTags, check_array
    from sklearn.utils.validation import check_is_fitted, validate_data

#: The grid of fields without space: they are constant, and their integral over this line is their value.
NO_SPACE = Grid((Axis(3, 1.0, Periodic()),))


class KernelRegressor(BaseEstimator):  # type: ignore[misc]
    """Any estimator of kernels as a regressor of scikit-learn; of a batch of systems it fits one.

    `estimator` maps Pairs to a kernel, Ridge() by default; where it is a dataclass its fields are parameters, such as
    `estimator__penalty`. Without a `grid` columns are plain numbers, and Ridge is ridge regression without an
    intercept. `noise` is the standard deviation of the responses' error, if it is known.
    """

    kernel_: Predictor

    def __init__(
        self, estimator: Estimator | None = None, *, grid: Grid | None = None, noise: float | None = None
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.noise = noise

    def fit(self, X: Float[np.ndarray, "pair column"], y: Float[np.ndarray, "pair column"]) -> Self:
        """Estimate the kernel from loads X and responses y, row by row."""
        kinds = [np.float64, np.float32]
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=kinds)
        self._one_number_each = y.ndim == 1
        grid = NO_SPACE if self.grid is None else self.grid
        loads, responses = self._fields(X), self._fields(y.reshape(len(y), -1).astype(X.dtype, copy=False))
        self.kernel_ = self._estimator()(Pairs(grid, loads, responses, noise=self.noise))
        return self

    def predict(self, X: Float[np.ndarray, "pair column"]) -> Float[np.ndarray, "pair column"]:
        """Responses to loads."""
        check_is_fitted(self, "kernel_")
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        with torch.no_grad():
            fields = self.kernel_ @ self._fields(X)
        values = fields[..., 0] if self.grid is None else fields
        flat: np.ndarray = values.reshape(len(X), -1).cpu().numpy()
        return flat[:, 0] if self._one_number_each else flat

    def score(
        self,
        X: Float[np.ndarray, "pair column"],
        y: Float[np.ndarray, "pair column"],
        sample_weight: Float[np.ndarray, " pair"] | None = None,
    ) -> float:
        """R² = 1 - Σ ∫ (u - û)² dx / Σ ∫ (u - ū)² dx over pairs, ū their mean: nodes count by their volume."""
        true = check_array(y, ensure_2d=False, dtype=[np.float64, np.float32])
        true = true.reshape(len(true), -1)
        predicted = self.predict(X).reshape(len(true), -1)
        area = np.ones(1) if self.grid is None else self.grid.weights.reshape(-1)
        weights = np.tile(area, true.shape[1] // len(area))
        rows = np.ones(len(true)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        error = rows @ (predicted - true) ** 2 @ weights
        spread = rows @ (true - np.average(true, axis=0, weights=rows)) ** 2 @ weights
        return float(1 - error / spread) if spread > 0 else float(error == 0)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters and, if `deep`, the fields of an estimator that is a dataclass."""
        params: dict[str, Any] = super().get_params(deep=False)
        estimator: Any = self._estimator()
        if deep and dataclasses.is_dataclass(estimator):
            params |= {f"estimator__{one.name}": getattr(estimator, one.name) for one in dataclasses.fields(estimator)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters; fields of the estimator give a new one, since estimators do not change."""
        inner = {name: params.pop(name) for name in list(params) if name.startswith("estimator__")}
        super().set_params(**params)
        unknown = inner.keys() - self.get_params().keys()
        if unknown:
            raise ValueError(f"Invalid parameters {sorted(unknown)}: expected some of {sorted(self.get_params())}")
        if inner:
            estimator: Any = self._estimator()
            values = {name.removeprefix("estimator__"): value for name, value in inner.items()}
            self.estimator = dataclasses.replace(estimator, **values)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags

    def _estimator(self) -> Callable[[Pairs], Predictor]:
        return Ridge() if self.estimator is None else self.estimator

    def _fields(self, columns: Float[np.ndarray, "pair column"]) -> Float[Tensor, "pair component *space"]:
        values = torch.tensor(columns)
        if self.grid is None:
            return values[..., None].expand(*values.shape, *NO_SPACE.shape)
        count, rest = divmod(columns.shape[1], self.grid.size)
        if rest:
            raise ShapeError(
                "columns do not fit the grid", expected=f"a multiple of {self.grid.size} columns, one per node",
                got=columns.shape[1], remedy="flatten fields as field.reshape(pairs, -1), space last",
            )  # fmt: skip
        return values.reshape(-1, count, *self.grid.shape)
