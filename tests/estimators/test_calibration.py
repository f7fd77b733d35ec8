"""A calibration is a table: looked up between its strata, written as JSON, and carried by every kernel."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.context.noise import with_white_noise
from nipde.context.pairs import Pairs
from nipde.errors import KernelError
from nipde.estimators.conditioned.calibration import Calibration, Stratum
from nipde.estimators.conditioned.conditioned_nips import ConditionedNIPS
from nipde.grid import Grid
from nipde.kernels.prediction_bands import OutlierTest
from nipde.physics.darcy import Darcy
from nipde.physics.random_fields import GaussianField, TwoPhase

LEVELS = (0.5, 0.9)


def stratum(size, *, contrast=1.4):
    return Stratum(
        inside=(size, 2 * size), edge=(3 * size, 4 * size), median=(1.6, 0.0, contrast), deviation=(0.2, 0.2, 0.2)
    )


def table(**changes):
    """Factors 1, 4 with pairs 10, 1000 at zero noise, and twice as much at a share of 0.04."""
    strata = tuple(tuple(stratum(size * more) for more in (1.0, 2.0)) for size in (1.0, 4.0))
    names = ("stiffness", "misfit", "contrast")
    values = {"pairs": (10, 1000), "noise": (0.0, 0.04), "strata": strata, "levels": LEVELS, "names": names}
    return Calibration(**{**values, "threshold": 4.0, "systems": 40, "archive": "abc", **changes})


def darcy(nodes=11, *, count=10, seed=0, noise=0.0):
    grid, rng = Grid.uniform(nodes), np.random.default_rng(seed)
    rock = TwoPhase()(GaussianField(4.0).sample(grid, rng=rng, count=1)[0])
    loads = GaussianField(1.0, rms=1.0).sample(grid, rng=rng, count=count)
    pairs = Pairs.from_arrays(loads, Darcy(grid, rock).solve(loads), grid=grid, noise=0.0)
    return with_white_noise(pairs, share=noise, seed=seed)


def stacked(*systems):
    fields = (torch.stack([getattr(one, name) for one in systems]) for name in ("loads", "responses"))
    return Pairs(systems[0].grid, *fields, noise=torch.tensor([float(one.noise) for one in systems]).double())


def model_with(calibration, **options):
    torch.manual_seed(0)
    model = ConditionedNIPS(dimension=2, channels=8, **options).double().eval().requires_grad_(False)
    model.calibration = calibration
    return model


def test_json_gives_back_the_same_table():
    calibration = table()
    again = Calibration.from_dict(json.loads(json.dumps(calibration.to_dict())))
    assert again == calibration
    assert again != table(threshold=5.0)


@pytest.mark.parametrize(
    ("pairs", "share", "factor"),
    [
        (10, 0.0, 1.0), (1000, 0.0, 4.0), (10, 0.04, 2.0),  # the strata themselves
        (100, 0.0, 2.0),  # half way in log d: the geometric mean
        (10, 0.01, 1.5), (100, 0.01, 3.0),  # half way in √noise: the arithmetic mean
        (2, 0.0, 1.0), (10**4, 0.9, 8.0),  # outside: the end
    ],
)  # fmt: skip
def test_factors_between_the_strata(pairs, share, factor):
    kernel = model_with(None)(darcy())
    trust = table().bands(kernel, pairs=pairs, share=torch.tensor(share, dtype=torch.float64))
    assert trust.factors.numpy() == pytest.approx(factor * np.array([[1, 3], [2, 4]]))
    assert torch.equal(trust.at(0.9), trust.factors[1])


def test_weights_stay_as_they_are():
    plain, told = model_with(None), model_with(table())
    assert plain.state_dict().keys() == told.state_dict().keys()
    told.load_state_dict(plain.state_dict())
    assert told.calibration == table()
    assert torch.equal(plain(darcy()).dense(), told(darcy()).dense())


def test_a_band_is_spread_times_factor_around_the_answer():
    pairs = darcy(count=12)
    kernel = model_with(table())(pairs.take(slice(0, 10)))
    loads = pairs.loads[10:]
    low, high = kernel.band(loads, level=0.5)
    answer, spread = kernel @ loads, kernel.spread(loads)
    assert low.shape == high.shape == answer.shape
    assert torch.allclose((low + high) / 2, answer)
    half = (high - low)[:, 0] / 2 / spread[:, None, None]
    inside, edge = (torch.tensor(where) for where in (kernel.grid.interior, kernel.grid.edge))
    assert torch.allclose(half[:, inside], torch.tensor(1.0).double())
    assert torch.allclose(half[:, edge], torch.tensor(3.0).double())
    assert float(half[:, ~inside & ~edge].abs().max()) == 0  # a Dirichlet node is known
    wider = kernel.band(loads)
    assert bool((wider[1] - wider[0] >= high - low).all())


def test_bands_change_their_unit_with_the_kernel():
    pairs = darcy()
    kernel = model_with(table())(pairs)
    low, high = kernel.band(pairs.loads)
    for factor in (1e3, -2.0):
        sides = (kernel * factor).band(pairs.loads)
        expected = (low * factor, high * factor) if factor > 0 else (high * factor, low * factor)
        assert all(torch.allclose(side, wanted) for side, wanted in zip(sides, expected, strict=True))


def test_noise_widens_the_factor_of_its_own_system_only():
    both = stacked(darcy(seed=1), darcy(seed=2, noise=0.04))
    kernel = model_with(table())(both)
    clean, noisy = kernel.bands.factors.numpy()
    assert clean == pytest.approx(np.array([[1, 3], [2, 4]]))
    assert noisy == pytest.approx(2 * clean, rel=1e-3)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_systems_and_batches_keep_their_own(noise):
    one, two = (darcy(seed=seed, noise=noise) for seed in (1, 2))
    model = model_with(table())
    kernel, alone = model(stacked(one, two)), model(two)
    low, high = kernel.band(stacked(one, two).loads)
    for second in (kernel.system(1), kernel.with_batch((1, 2)).with_batch((2,)).system(1), alone):
        assert all(
            torch.allclose(found, wanted[1])
            for found, wanted in zip(second.band(two.loads), (low, high), strict=True)
        )  # fmt: skip
        assert second.outlier_test.is_outlier.shape == ()
        assert float(second.outlier_test.scores["contrast"]) == pytest.approx(
            float(kernel.outlier_test.scores["contrast"][1])
        )
    assert kernel.with_batch((1, 2)).outlier_test.is_outlier.shape == (1, 2)


def test_without_calibration_there_is_no_band_and_no_alarm():
    kernel = model_with(None)(darcy())
    assert kernel.bands is None
    assert kernel.outlier_test is None
    with pytest.raises(KernelError) as error:
        kernel.band(darcy().loads)
    assert "calibrated weights" in error.value.expected


def test_neither_where_calibration_has_not_been():
    pairs, model = darcy(), model_with(table())
    gap = torch.ones_like(pairs.responses, dtype=torch.bool)
    assert not bool(model(replace(pairs, mask=gap, load_noise=0.0)).outlier_test.is_outlier)
    gap[:, :, 2:-2, 2:-2] = False
    for other in (replace(pairs, mask=gap), replace(pairs, load_noise=0.01)):
        with pytest.raises(KernelError):
            model(other).band(pairs.loads)


def test_few_gaps_widen_bands():
    pairs, model = darcy(), model_with(table())
    seen = torch.ones_like(pairs.responses, dtype=torch.bool)
    seen[:, :, 5, 5] = False
    widths = [high - low for low, high in (model(one).band(pairs.loads) for one in (pairs, replace(pairs, mask=seen)))]
    assert bool((widths[1] > widths[0])[..., 1:-1, 1:-1].all())


def test_a_transpose_has_neither():
    kernel = model_with(table())(darcy())
    assert kernel.T.outlier_test is None
    assert kernel.T.T.outlier_test is None
    with pytest.raises(KernelError):
        kernel.T.band(darcy().loads)


def test_refusals_name_what_there_is():
    kernel = model_with(table())(darcy())
    with pytest.raises(KernelError) as error:
        kernel.band(darcy().loads, level=0.7)
    assert error.value.got == 0.7
    with pytest.raises(KernelError) as error:
        kernel.band(darcy().loads[0])
    assert "(1, 11, 11)" in error.value.got
    with pytest.raises(KernelError) as error:
        model_with(table(), prior="gated", terms=4)(darcy())
    assert error.value.got == "stiffness, misfit"


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_order_and_rotation_of_pairs_leave_the_alarm_alone(noise):
    pairs, model = darcy(noise=noise), model_with(table())
    expected = model(pairs).outlier_test.scores
    matrix = torch.randn(10, 10, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for other in (pairs.take(torch.randperm(10)), pairs.mixed(torch.linalg.qr(matrix).Q)):
        found = model(other).outlier_test.scores
        for name, score in expected.items():
            assert float(found[name]) == pytest.approx(float(score), abs=1e-6)


def test_units_move_the_stiffness_alone():
    pairs, model = darcy(), model_with(table())
    calm, loud = model(pairs).outlier_test, model(pairs.scaled(load=1e3)).outlier_test
    assert not bool(calm.is_outlier)
    assert bool(loud.is_outlier)
    assert float(loud.scores["stiffness"] - calm.scores["stiffness"]) == pytest.approx(np.log(1e3) / 0.2)
    for name in ("misfit", "contrast"):
        assert float(loud.scores[name]) == pytest.approx(float(calm.scores[name]), abs=1e-4)


def test_the_misfit_counts_what_noise_does_not_explain():
    model, noisy = model_with(table()), darcy(noise=0.03)
    told, secret = (
        model(noisy).outlier_test.scores["misfit"],
        model(replace(noisy, noise=0.0)).outlier_test.scores["misfit"],
    )
    assert abs(float(told)) < 1
    assert float(secret) > 4


def test_what_is_not_a_number_raises_the_alarm():
    alarm = OutlierTest({"stiffness": torch.tensor(torch.nan), "misfit": torch.tensor(0.0)}, 4.0)
    assert bool(alarm.is_outlier)
