"""
Model selection with scikit-learn
=================================

Which estimator suits these measurements, and how strong should the ridge penalty be? `KernelRegressor` wraps any
estimator as a scikit-learn regressor, so cross-validation over pairs decides. Rows are pairs, columns are nodes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

import nipde

# %%
# A porous square with two phases; 24 loads, and responses with noise of 20 %.
rng, grid = np.random.default_rng(4), nipde.Grid.uniform(13)
permeability = np.where(nipde.physics.GaussianField(4.0).sample(grid, rng=rng, count=1)[0] < 0, 12.0, 3.0)
loads = nipde.physics.GaussianField(3.0, rms=1.0).sample(grid, rng=rng, count=44)
clean = nipde.Darcy(grid, permeability).solve(loads)
noise = 0.2 * np.sqrt(np.mean(clean**2))
measured = clean + noise * rng.standard_normal(clean.shape) * grid.unknown
F, U, truth = (field.reshape(44, -1) for field in (loads, measured, clean))

# %%
# First the ridge penalty, then ridge regression against the pretrained model.
penalties = np.logspace(-5, 1, 13)
ridge = nipde.interop.KernelRegressor(nipde.Ridge(1.0), grid=grid, noise=float(noise))
search = GridSearchCV(ridge, {"estimator__penalty": penalties}, cv=4).fit(F[:24], U[:24])
candidates = [search.best_estimator_.estimator, nipde.load("darcy-two-phase")]
final = GridSearchCV(ridge, {"estimator": candidates}, cv=4).fit(F[:24], U[:24])
selected = type(final.best_params_["estimator"]).__name__
print(f"ridge: penalty {search.best_params_['estimator__penalty']:.2g}; selected: {selected}")
print(f"R² on 20 new loads without noise: {search.score(F[24:], truth[24:]):.4f} for ridge regression,")
print(f"{final.score(F[24:], truth[24:]):.4f} for {selected}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.semilogx(penalties, search.cv_results_["mean_test_score"], "o-", label="ridge regression")
left.axhline(final.cv_results_["mean_test_score"][1], color="C1", label="ConditionedNIPS")
left.set(xlabel="penalty", ylabel="R² of held-out pairs", title="four folds of 24 noisy pairs")
left.legend(loc="lower left")
for name, model, colour in (("ridge regression", search, "C0"), (selected, final, "C1")):
    off = np.linalg.norm(model.predict(F[24:]) - truth[24:], axis=1) / np.linalg.norm(truth[24:], axis=1)
    right.semilogx(100 * np.sort(off), np.arange(1, 21), "o-", color=colour, label=name)
right.set(xlabel="prediction error, %", ylabel="loads below it", yticks=(0, 5, 10, 15, 20), title="20 new loads")
right.set_xticks((1, 2, 5, 10, 20, 50), labels=("1", "2", "5", "10", "20", "50"))
right.minorticks_off()
right.legend(loc="upper left")
plt.show()
