"""What nipde answers on fixed inputs, case by case: recorded once in `answers.npz`, compared by `test_golden.py`.

`python tests/golden/answers.py` records anew; do it only for a change of numbers that the commit explains.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import nipde
from nipde.estimators.inverse.adjoint import BASELINES
from nipde.physics.advection import AdvectionDiffusion
from nipde.physics.bodies import TwoSegmentTissue
from nipde.physics.random_fields import GaussianField, PowerLawField, TwoPhase

FILE = Path(__file__).with_name("answers.npz")
CASES: dict[str, Callable[[], dict[str, Any]]] = {}


def case(function: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    CASES[function.__name__] = function
    return function


def _of_kernel(kernel: Any, pairs: nipde.Pairs, new: torch.Tensor) -> dict[str, Any]:
    """Answers to new loads, and whatever else the kernel has to say."""
    found = {"answers": kernel @ new.to(pairs.loads)}
    if getattr(kernel, "coefficient", None) is not None:
        found["coefficient"] = kernel.coefficient
    return found


@cache
def _darcy(
    nodes: int = 13, mean: str = "harmonic", *, load_alpha: float = 1.0, count: int = 20
) -> tuple[nipde.Pairs, torch.Tensor]:
    rng = np.random.default_rng(5)
    grid = nipde.Grid.uniform(nodes)
    rock = TwoPhase(12.0, 3.0)(GaussianField(4.0).sample(grid, rng=rng, count=1))[0]
    loads = GaussianField(load_alpha, rms=1.0).sample(grid, rng=rng, count=count + 4)
    exact = nipde.Pairs.from_arrays(loads, nipde.Darcy(grid, rock).solve(loads), grid=grid)
    return exact.take(range(count)), exact.loads[count:]


@cache
def _smooth_loads() -> tuple[nipde.Pairs, torch.Tensor]:
    """Of the size that the shipped networks of the paper take."""
    return _darcy(21, load_alpha=4.0, count=50)


@cache
def _noisy(nodes: int = 13) -> tuple[nipde.Pairs, torch.Tensor]:
    pairs, new = _darcy(nodes)
    return nipde.with_white_noise(pairs, share=0.01, seed=3), new


@cache
def _cube() -> tuple[nipde.Pairs, torch.Tensor]:
    rng, grid = np.random.default_rng(7), nipde.Grid.uniform(6, dimension=3)
    rock = np.exp(GaussianField(4.0, waves=4).sample(grid, rng=rng, count=1))[0]
    loads = GaussianField(1.0, waves=4, rms=1.0).sample(grid, rng=rng, count=14)
    exact = nipde.Pairs.from_arrays(loads, nipde.Darcy(grid, rock).solve(loads), grid=grid)
    return nipde.with_white_noise(exact.take(range(10)), share=0.01, seed=3), exact.loads[10:]


@cache
def _advection() -> tuple[nipde.Pairs, torch.Tensor]:
    rng = np.random.default_rng(6)
    grid = nipde.Grid.uniform(13)
    rock = np.exp(GaussianField(4.0).sample(grid, rng=rng, count=1))[0]
    x, y = grid.coordinates
    velocity = 10 * np.stack([y - 0.5, 0.5 - x])
    loads = GaussianField(1.0, rms=1.0).sample(grid, rng=rng, count=24)
    exact = nipde.Pairs.from_arrays(loads, AdvectionDiffusion(grid, rock, velocity).solve(loads), grid=grid)
    return nipde.with_white_noise(exact.take(range(20)), share=0.01, seed=3), exact.loads[20:]


@cache
def _tissue(nodes: int = 9) -> tuple[nipde.Pairs, torch.Tensor]:
    grid = nipde.Grid.uniform(nodes)
    tissue = TwoSegmentTissue(grid, (0.6, 2.1), 1.05)
    fields = PowerLawField().sample(grid, rng=np.random.default_rng(1), count=24)
    loads = 0.1 * fields.reshape(12, 2, *grid.shape)
    exact = nipde.Pairs.from_arrays(loads, tissue.solve(loads), grid=grid)
    return exact.take(range(10)), exact.loads[10:]


@case
def physics() -> dict[str, Any]:
    return {"darcy": _darcy()[0].responses, "advection": _advection()[0].responses, "tissue": _tissue()[0].responses}


def _weights(name: str, data: Callable[[], tuple[nipde.Pairs, torch.Tensor]]) -> Callable[[], dict[str, Any]]:
    def of_weights() -> dict[str, Any]:
        pairs, new = data()
        found: dict[str, Any] = {}
        for precision in (torch.float32, torch.float64):
            model = nipde.load(name).to(precision)
            own = pairs.to(dtype=precision)
            kernel = model(own)
            kind = str(precision).removeprefix("torch.")
            found |= {f"{kind}.{what}": value for what, value in _of_kernel(kernel, own, new).items()}
            if own.components == (1, 1):
                found[f"{kind}.low"], found[f"{kind}.high"] = kernel.band(new.to(own.loads), level=0.9)
        return found

    return of_weights


for _name, _data in {
    "darcy": _noisy, "darcy-two-phase": _noisy, "darcy-two-phase-gated": _noisy, "advection": _advection,
    "advection-gated": _advection, "mmnist-gated": _tissue, "tissue-gated": _tissue,
}.items():  # fmt: skip
    CASES[f"weights {_name}"] = _weights(_name, _data)


@case
def material_posterior() -> dict[str, Any]:
    pairs, _ = _noisy()
    posterior = nipde.load("darcy").double()(pairs).posterior
    return {"deviation": posterior.deviation(), "identifiable": posterior.identifiable()}


@case
def piecewise_constant_prior() -> dict[str, Any]:
    pairs, new = _noisy()
    return _of_kernel(nipde.load("darcy").double().with_piecewise_constant_prior()(pairs), pairs, new)


@case
def conditioned_with_gaps() -> dict[str, Any]:
    pairs, new = _noisy()
    mask = torch.rand(pairs.responses.shape, generator=torch.Generator().manual_seed(0)) > 0.1
    gappy = nipde.Pairs(pairs.grid, pairs.loads, pairs.responses, mask, pairs.noise)
    return _of_kernel(nipde.load("darcy").double()(gappy), pairs, new)


def _estimator(make: Callable[[], Any], data: Callable[[], Any] = _noisy) -> Callable[[], dict[str, Any]]:
    def of_estimator() -> dict[str, Any]:
        pairs, new = data()
        return _of_kernel(make()(pairs), pairs, new)

    return of_estimator


CASES |= {
    "minimum norm": _estimator(nipde.MinimumNorm, _darcy),
    "ridge": _estimator(nipde.Ridge),
    "equation error": _estimator(nipde.EquationError),
    "adjoint Tikhonov": _estimator(nipde.AdjointGaussNewton),
    "adjoint total variation": _estimator(
        lambda: nipde.AdjointGaussNewton(regulariser=nipde.estimators.TotalVariation())
    ),
    "elastic balance": _estimator(nipde.estimators.ElasticBalance, _tissue),
    "elastic adjoint": _estimator(nipde.estimators.ElasticGaussNewton, _tissue),
    "conditioned elastic": _estimator(
        lambda: nipde.ConditionedNIPS(dimension=2, components=(2, 2), prior="elastic").double(), _tissue
    ),
}


def _network(make: Callable[[nipde.Grid], torch.nn.Module]) -> Callable[[], dict[str, Any]]:
    def of_network() -> dict[str, Any]:
        pairs, new = _darcy()
        torch.manual_seed(0)
        return {"answers": make(pairs.grid).double()(pairs) @ new}

    return of_network


CASES |= {
    "NIPS": _network(lambda grid: nipde.NIPS(grid, pairs=20, layers=2, channels=8)),
    "NIPS-mlp": _network(lambda grid: nipde.estimators.NIPSMLP(grid, pairs=20, layers=2, channels=8)),
    "NAO": _network(lambda grid: nipde.NAO(grid, pairs=20, layers=2, channels=8)),
    "AFNO": _network(lambda grid: nipde.AFNO(grid, pairs=20, layers=2)),
}


@case
def discover_sample() -> dict[str, Any]:
    found = nipde.discover(
        nipde.read(FILE.with_name("membrane.npz")), nipde.load("darcy-two-phase"), baselines=BASELINES
    )
    assert found.held_out is not None
    return {
        "b": found.material.values, "low": found.material.low, "high": found.material.high,
        "identifiable": found.material.identifiable, "labels": found.phases.labels, "levels": found.phases.medians,
        "held out": found.held_out.predicted, "errors": found.held_out.errors, "gains": found.recommended_loads.gains,
        **{f"b by {one.name}": one.values for one in found.baselines},
        **{f"error by {one.name}": one.held_out_error for one in found.baselines},
    }  # fmt: skip


@case
def fitted_on_training_systems() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        archive = _archive(Path(folder) / "data")
        read = archive.read(archive.indices("train"), pairs=range(20))
        from nipde.evaluation.truth import true_kernels, true_laws

        training = nipde.Pairs.from_arrays(read.loads, read.responses, grid=archive.grid).to(dtype=torch.float64)
        kernels = true_kernels(true_laws(archive, read))
        test = archive[int(archive.indices("test")[0])]
        pairs = nipde.Pairs.from_arrays(test.loads, test.responses, grid=archive.grid).to(dtype=torch.float64)
        context = nipde.with_white_noise(pairs.take(range(12)), share=0.01, seed=2)
        return {
            "archive": test.responses,
            "training span": nipde.estimators.TrainingSpan.fit(training, kernels)(context) @ pairs.loads[20:],
            "empirical Bayes": nipde.estimators.EmpiricalBayes.fit(training, kernels)(context) @ pairs.loads[20:],
            **_evaluated(archive),
        }


def _archive(folder: Path) -> nipde.Archive:
    recipe = nipde.DarcyRecipe(nodes=9, pairs=24)
    return nipde.generate(nipde.Plan(recipe, systems=16, seed=1), folder, workers=1)


def _evaluated(archive: nipde.Archive) -> dict[str, Any]:
    found = nipde.evaluate(nipde.load("darcy"), archive, context=12, noise=0.01).to_dict()
    return {
        f"evaluate {name}": value["mean"]
        for name, value in found.items()
        if "mean" in (value if isinstance(value, dict) else ())
    }


def _trained(model: nipde.training.ModelRecipe, **options: Any) -> Callable[[], dict[str, Any]]:
    def of_training() -> dict[str, Any]:
        with TemporaryDirectory() as folder:
            archive = _archive(Path(folder) / "data")
            recipe = nipde.TrainingRecipe(
                model, context=12, batch=4, steps=10, warmup=2, precision="float64", validate_every=5, **options
            )
            nipde.fit(recipe, archive, Path(folder) / "run")
            return {f"weights.{name}": value for name, value in nipde.load(Path(folder) / "run").state_dict().items()}

    return of_training


CASES |= {
    "ten steps of NIPS": _trained(nipde.training.ModelRecipe("nips", channels=6)),
    "ten steps of conditioned": _trained(
        nipde.training.ModelRecipe("conditioned", channels=8), queries=6, noise=0.01, prior_weight=0.2, symmetries=True
    ),
}


def answers(name: str) -> dict[str, np.ndarray]:
    """What a case says now."""
    found = CASES[name]()
    return {
        what: value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        for what, value in found.items()
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    recorded = {f"{name}/{what}": value for name in CASES for what, value in answers(name).items()}
    np.savez_compressed(FILE, **recorded)
    print(f"{len(recorded)} arrays of {len(CASES)} cases, {FILE.stat().st_size} bytes")
