"""
Train, resume and evaluate
==========================

A small NIPS is trained for a few seconds, interrupted, resumed, and evaluated on test systems beside ridge regression.
"""

import signal
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from nipde import DarcyRecipe, Pairs, Plan, Ridge, TrainingRecipe, evaluate, fit, generate, load
from nipde.training import Callback, ModelRecipe
from nipde.training.callbacks import read_log

folder = Path(tempfile.mkdtemp())
archive = generate(Plan(DarcyRecipe(nodes=11, pairs=24), systems=40, split=(0.7, 0.1, 0.2)), folder / "data", workers=1)
sizes = {"context": 12, "queries": 12, "steps": 500, "learning_rate": 0.05, "warmup": 20, "validate_every": 25}
recipe = TrainingRecipe(ModelRecipe("nips", layers=2, channels=24), **sizes)


# %%
# A callback sees every step. This one stops the run as SIGUSR1 would: the step is finished and the state saved. The
# second call resumes and ends bit by bit as an uninterrupted run.
class StopAt200(Callback):
    def stepped(self, run, report):
        run.pending_signal = signal.SIGUSR1 if report.step == 199 else 0


stopped = fit(recipe, archive, folder / "run", callbacks=[StopAt200()])
ended = fit(recipe, archive, folder / "run", resume=True)
print(f"stopped after step {stopped.step}, ended after step {ended.step}, best weights from step {ended.best_step}")

# %%
# In context: loads whose responses were given. Held out: other loads of the same systems.
estimators = {"ridge": Ridge(), "NIPS": load(folder / "run")}
evaluations = {name: evaluate(one, archive, context=12, inversion=False) for name, one in estimators.items()}
for name, errors in evaluations.items():
    print(f"{name}: in context {errors.in_context.mean:.0%}, held out {errors.held_out.mean:.0%}")

# %%
system, log = archive[int(archive.indices("test")[0])], read_log(folder / "run" / "log.csv")
pairs = Pairs.from_arrays(system.loads, system.responses, grid=archive.grid)
context, load, truth = pairs.take(slice(0, 12)), pairs.loads[20, None], pairs.responses[20, None]
predictions = {"true response": truth} | {name: estimator(context) @ load for name, estimator in estimators.items()}
scale = {"cmap": "RdBu_r", "vmin": -float(truth.abs().max()), "vmax": float(truth.abs().max())}
figure, (left, *right) = plt.subplots(1, 4, figsize=(12, 3.2), layout="constrained", width_ratios=(1.5, 1, 1, 1))
for column, label in (("loss", "training"), ("held_out", "validation")):
    left.plot(*zip(*((int(row["step"]), float(row[column])) for row in log if row[column]), strict=True), label=label)
left.axhline(evaluations["ridge"].held_out.mean, color="C2", label="ridge, test systems")
left.axvline(stopped.step, color="grey", linestyle=":", label="stopped and resumed")
left.set(title="mean error outside the context", xlabel="step", ylim=(0, None))
left.legend(fontsize="small")
for axes, (title, values) in zip(right, predictions.items(), strict=True):
    axes.pcolormesh(*archive.grid.coordinates, values[0, 0], shading="nearest", **scale)
    axes.set(title=title, aspect="equal", xticks=(0, 1), yticks=(0, 1))
plt.show()
