"""A suite is worth as much as the mistakes it catches: each of these breaks one promise, and the suite names it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from nipde.data.darcy import DarcyRecipe
from nipde.data.recipe import Recipe
from nipde.estimators.regression.ridge import Ridge
from nipde.grid import Grid
from nipde.kernels.dense import DenseKernel
from nipde.measurements.formats import OURS
from nipde.physics.darcy import Darcy
from nipde.testing import estimator_checks, format_checks, kernel_checks, law_checks

GRID = Grid.uniform(4)


def broken(checks, *subject):
    """Names of the checks that fail."""
    names = []
    for check in checks:
        try:
            check(*subject)
        except AssertionError:
            names.append(check.name)
    return names


class WithoutWeights(DenseKernel):
    def predict(self, loads):
        return super().predict(loads / loads.new_tensor(self.grid.weights))


class NotTransposed(DenseKernel):
    @property
    def T(self):
        return self


class Rounded(DenseKernel):
    def dense(self):
        return super().dense().to(torch.float32).to(super().dense())


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (WithoutWeights, "it acts as its values times the quadrature"),
        (NotTransposed, "the transpose is the adjoint"),
        (Rounded, "it acts as its values times the quadrature"),
    ],
)
def test_kernels(kind, promise):
    values = torch.randn(16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert broken(kernel_checks(), DenseKernel(GRID, values)) == []
    assert promise in broken(kernel_checks(), kind(GRID, values))


def favours_the_first_pair(pairs):
    factors = torch.ones(pairs.count).to(pairs.responses)
    factors[0] = 2.0
    return Ridge(0.1)(replace(pairs, responses=pairs.responses * factors[:, None, None]))


def has_a_scale_of_its_own(pairs):
    return Ridge(0.1)(pairs) * (1 + 1 / (1 + float(pairs.loads.square().mean())))


def mixes_the_systems(pairs):
    mean = pairs.responses.mean(0, keepdim=True)
    return Ridge(0.1)(replace(pairs, responses=mean.expand_as(pairs.responses)))


def forgets_the_weights(pairs):
    kernel = Ridge(0.1)(pairs)
    return DenseKernel(pairs.grid, kernel.dense() * kernel.grid.volume)


@pytest.mark.parametrize(
    ("estimator", "promise"),
    [
        (favours_the_first_pair, "order and orthogonal mixing change nothing"),
        (has_a_scale_of_its_own, "units pass through"),
        (mixes_the_systems, "a batch is its systems one by one"),
        (forgets_the_weights, "the unit of length changes no response"),
        (lambda pairs: Ridge(0.1)(pairs.to(dtype=torch.float64)), "precision follows the pairs"),
        (lambda pairs: Ridge(0.1)(replace(pairs, mask=None)), "unmeasured nodes are refused or ignored"),
        (lambda pairs: "no kernel", "a batch is its systems one by one"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_estimators(estimator, promise):
    assert f"{promise}, 1D" in broken(estimator_checks(places=["1D"]), estimator)


@pytest.fixture
def laws(monkeypatch):
    """Broken ones, which no other test gets to know."""
    monkeypatch.setattr(Recipe, "kinds", dict(Recipe.kinds))

    @dataclass(frozen=True)
    class Unseeded(DarcyRecipe):
        """Loads of the clock."""

        problem = "unseeded"

        def draw_loads(self, rng):
            return super().draw_loads(np.random.default_rng())

    @dataclass(frozen=True)
    class WrongOperator(DarcyRecipe):
        """Another permeability than the one solved with."""

        problem = "wrong-operator"

        def solve(self, rng, loads, seed):
            return DarcyRecipe(nodes=self.nodes, pairs=self.pairs, precision=self.precision).solve(rng, loads, seed)

        def law_of(self, hidden):
            return Darcy(self.grid, 1.1 * hidden[0].astype(float))

    @dataclass(frozen=True)
    class Silent(DarcyRecipe):
        """An option without help, and a residual that is not small."""

        problem = "silent"
        factor: float = 1.0

        def solve(self, rng, loads, seed):
            system = super().solve(rng, loads, seed)
            return replace(system, diagnostics={"residual": 1 + system.diagnostics["residual"]})

    return {"unseeded": Unseeded, "wrong-operator": WrongOperator, "silent": Silent}


@pytest.mark.parametrize(
    ("name", "promises"),
    [
        ("unseeded", {"a system is a function of its seed", "shared loads come from the shared seed"}),
        ("wrong-operator", {"the stated operator gives the stored responses"}),
        ("silent", {"it is named described and survives json", "every pair is solved"}),
    ],
)
def test_laws(laws, name, promises):
    checks = [check for check in law_checks() if "archive" not in check.name]
    assert set(broken(checks, laws[name](nodes=5, pairs=2))) == promises


def test_formats():
    """A writer that rounds, and one whose files are another format's."""
    npz = next(one for one in OURS if one.name == "npz")

    def rounding(path, arrays):
        np.savez(path, **{name: values.astype(np.float32) for name, values in arrays.items()})

    def table(path, arrays):
        np.savetxt(path, np.stack(list(arrays.values()), 1))

    assert broken(format_checks(), npz, rounding) == ["arrays come back"]
    names = []
    for check in format_checks():
        try:
            check(npz, table)
        except Exception:
            names.append(check.name)
    assert "files are recognised" in names
