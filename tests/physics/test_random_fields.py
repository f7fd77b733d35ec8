"""Random fields: 20,000 samples against the law they claim, and against laws five per cent beside it."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2, norm

from nipde.boundary import Dirichlet, Neumann, Periodic
from nipde.errors import PhysicsError
from nipde.grid import Axis, Grid
from nipde.physics.random_fields import GaussianField, TwoPhase
from nipde.spectral.basis import nodal_matrix

COUNT, BLOCK, WAVES = 20_000, 2_000, 20
# 40 intervals hold 20 half waves with room: the cosines are orthonormal in the quadrature.
GRID = Grid.uniform(41, boundary=Neumann())
KEPT = np.add.outer(np.arange(WAVES + 1), np.arange(WAVES + 1)).reshape(-1) > 0


@dataclass
class Sampled:
    """Moments of the projected coefficients of `COUNT` fields."""

    law: GaussianField
    mean: np.ndarray
    products: np.ndarray  # E c_i c_j
    fourth: np.ndarray  # E c_i⁴
    largest_constant: float

    @property
    def variances(self):
        return np.diag(self.products)


@pytest.fixture(scope="module", params=[1.0, 4.0], ids=["alpha1", "alpha4"])
def sampled(request):
    law, rng = GaussianField(request.param, tau=5.0, waves=WAVES), np.random.default_rng(int(request.param))
    sums, constant = [0.0, 0.0, 0.0], 0.0
    for _ in range(COUNT // BLOCK):
        every = project(law.sample(GRID, rng=rng, count=BLOCK), GRID, modes=WAVES + 1)
        kept, constant = every[:, KEPT], max(constant, np.max(np.abs(every[:, ~KEPT])))
        sums = [sums[0] + kept.sum(0), sums[1] + kept.T @ kept, sums[2] + (kept**4).sum(0)]
    return Sampled(law, *(total / COUNT for total in sums), constant)


def project(fields, grid, *, modes):
    """Coefficients ∫ ξ φ_k φ_l dx of 2D fields, one row each."""
    left, right = (axis.weights[:, None] * nodal_matrix(axis, modes=modes) for axis in grid.axes)
    return (left.T @ fields @ right).reshape(len(fields), -1)


def spectrum(alpha, tau):
    """The law as published, on the unit square: τ^(2α-2) (π²(k² + l²) + τ²)^-α, without the constant."""
    squares = np.arange(WAVES + 1) ** 2
    squared = (np.pi**2 * np.add.outer(squares, squares)).reshape(-1)[KEPT]
    return tau ** (2 * alpha - 2) * (squared + tau**2) ** -alpha


def two_sided(statistic, effective_dof):
    return 2 * min(chi2.cdf(statistic, effective_dof), chi2.sf(statistic, effective_dof))


def p_value(alpha, tau, variances):
    """Chance that `COUNT` samples of this law stray so far, in total energy or mode by mode (both, Bonferroni)."""
    statistic = COUNT * variances / spectrum(alpha, tau)  # χ² of COUNT degrees in every mode
    total = two_sided(statistic.sum(), COUNT * len(statistic))
    scores = norm.isf(chi2.sf(statistic, COUNT))  # exactly standard normal under the law
    per_mode = two_sided(np.sum(scores**2), len(statistic))
    return min(1.0, 2 * min(total, per_mode))


def correlation_p_value(products):
    """Chance that independent modes correlate so much: all pairs together, and the worst pair."""
    scale = np.sqrt(np.diag(products))
    pairs = (products / np.outer(scale, scale))[np.triu_indices(len(scale), 1)] * np.sqrt(COUNT)
    worst = len(pairs) * 2 * norm.sf(np.max(np.abs(pairs)))
    return min(1.0, 2 * min(two_sided(np.sum(pairs**2), len(pairs)), worst))


def maximum_likelihood(variances):
    """Best (α, τ) for the sample variances, and their standard errors from the Fisher information."""
    squares = np.arange(WAVES + 1) ** 2
    squared = (np.pi**2 * np.add.outer(squares, squares)).reshape(-1)[KEPT]

    def slopes(alpha, tau):
        by_alpha = 2 * np.log(tau) - np.log(squared + tau**2)
        by_tau = (2 * alpha - 2) / tau - 2 * alpha * tau / (squared + tau**2)
        return np.stack([by_alpha, by_tau])

    def objective(parameters):
        expected = spectrum(*parameters)
        value = np.sum(np.log(expected) + variances / expected) / 2
        return value, slopes(*parameters) @ (1 - variances / expected) / 2

    best = minimize(objective, [2.0, 4.0], jac=True, method="L-BFGS-B", bounds=[(0.1, 9), (0.5, 50)], tol=1e-14).x
    jacobian = slopes(*best)
    return best, np.sqrt(np.diag(np.linalg.inv(COUNT / 2 * jacobian @ jacobian.T)))


# The law


def test_spectrum_of_many_samples_is_the_published_one(sampled):
    assert p_value(sampled.law.alpha, sampled.law.tau, sampled.variances) > 0.01


@pytest.mark.parametrize(("alpha", "tau"), [(1.05, 1), (0.95, 1), (1, 1.05), (1, 0.95)])
def test_a_law_five_per_cent_beside_is_rejected(sampled, alpha, tau):
    assert p_value(alpha * sampled.law.alpha, tau * sampled.law.tau, sampled.variances) < 1e-3


def test_maximum_likelihood_finds_alpha_and_tau(sampled):
    found, error = maximum_likelihood(sampled.variances)
    truth = np.array([sampled.law.alpha, sampled.law.tau])
    assert np.all(np.abs(found - truth) < 4 * error)
    assert np.all(error < 0.01 * truth)  # sharp enough to mean something
    assert np.all(np.abs(found - 1.05 * truth) > 4 * error)


def test_coefficients_have_zero_mean_and_the_constant_is_absent(sampled):
    statistic = COUNT * np.sum(sampled.mean**2 / sampled.variances)
    assert two_sided(statistic, len(sampled.mean)) > 0.01
    assert sampled.largest_constant < 1e-14


def test_different_modes_are_uncorrelated(sampled):
    assert correlation_p_value(sampled.products) > 0.01
    mixed = np.eye(len(sampled.products))
    # A leak of ten per cent of one mode into one other, of 96,580 pairs, is seen.
    mixed[3, 17] = 0.1 * np.sqrt(sampled.variances[3] / sampled.variances[17])
    assert correlation_p_value(mixed @ sampled.products @ mixed.T) < 1e-6


def test_coefficients_are_gaussian_to_the_fourth_moment(sampled):
    kurtosis = np.mean(sampled.fourth / sampled.variances**2)
    # z⁴/σ⁴ with σ² measured scatters with variance 24; a uniform law would give 1.8, a two-point one 1.
    assert abs(kurtosis - 3) < 4 * np.sqrt(24 / (COUNT * len(sampled.mean)))


@pytest.mark.parametrize("alpha", [1.0, 4.0])
def test_amplitudes_are_the_root_of_the_published_spectrum(alpha):
    amplitudes = GaussianField(alpha, tau=5.0).amplitudes(Grid.uniform(11))
    assert amplitudes[0, 0] == 0
    assert np.max(np.abs(amplitudes.reshape(-1)[KEPT] ** 2 / spectrum(alpha, 5.0) - 1)) < 1e-12


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_amplitudes_scale_with_the_dimension(dimension):
    # σ = τ^(α - dimension/2): the first mode along the first axis is σ (π² + τ²)^(-α/2).
    first = GaussianField(3.0, tau=7.0).amplitudes(Grid.uniform(5, dimension=dimension))[(1, *(0,) * (dimension - 1))]
    assert first == pytest.approx(7.0 ** (3.0 - dimension / 2) * (np.pi**2 + 49.0) ** -1.5)


@pytest.mark.parametrize("alpha", [1.0, 4.0])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_rms_fixes_the_expected_root_mean_square(alpha, dimension):
    grid = Grid(tuple(Axis(17, length, Neumann()) for length in (1.0, 2.0, 0.5)[:dimension]))
    law, count = GaussianField(alpha, waves=8, rms=1.5), 1000
    mean_square = np.mean(grid.norm(law.sample(grid, rng=np.random.default_rng(5), count=count)) ** 2) / grid.volume
    error = np.sqrt(2 * np.sum(law.amplitudes(grid) ** 4) / count) / grid.volume
    assert abs(mean_square - 1.5**2) < 4 * error
    assert error < 0.1


def test_samples_are_the_sum_they_claim_to_be():
    grid = Grid((Axis(7, 1.5), Axis(6, 0.8, Neumann())))
    law = GaussianField(2.0, tau=3.0, waves=4)
    drawn = law.coefficients(grid, rng=np.random.default_rng(6), count=2)
    x, y = grid.coordinates
    field, slope = np.zeros((2, *grid.shape)), np.zeros((2, *grid.shape))
    for k, m in np.ndindex(5, 5):
        height = np.sqrt((1 + (k > 0)) * (1 + (m > 0)) / (1.5 * 0.8))
        a, b = k * np.pi / 1.5, m * np.pi / 0.8
        field += drawn[:, k, m, None, None] * height * np.cos(a * x) * np.cos(b * y)
        slope -= drawn[:, k, m, None, None] * height * np.cos(a * x) * b * np.sin(b * y)
    assert np.max(np.abs(law.sample(grid, rng=np.random.default_rng(6), count=2) - field)) < 1e-13
    assert np.max(np.abs(law.synthesise(grid, drawn, derivative=1) - slope)) < 1e-12
    assert law.amplitudes(grid)[1, 2] == pytest.approx(3.0 * (np.pi**2 * (1 / 1.5**2 + 4 / 0.8**2) + 9) ** -1.0)


# Resolution


@pytest.mark.parametrize("alpha", [1.0, 4.0])
def test_one_seed_is_one_function_on_every_grid(alpha):
    law, finest = GaussianField(alpha), Grid.uniform(81)
    reference = law.sample(finest, rng=np.random.default_rng(7), count=3)
    for nodes in (81, 41, 21):
        grid = Grid.uniform(nodes)
        sample = law.sample(grid, rng=np.random.default_rng(7), count=3)
        assert np.max(np.abs(sample - finest.restrict(reference, to=grid))) < 1e-12
    other = law.sample(finest, rng=np.random.default_rng(8), count=3)
    assert np.max(np.abs(other - reference)) > 0.1


def test_the_boundary_kind_does_not_change_the_function():
    law = GaussianField(1.0, waves=6)
    closed, open_end = Grid.uniform(9, boundary=Dirichlet()), Grid.uniform(8, boundary=Periodic())
    samples = [law.sample(grid, rng=np.random.default_rng(9), count=2) for grid in (closed, open_end)]
    assert np.max(np.abs(samples[0][:, :-1, :-1] - samples[1])) < 1e-13


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_a_longer_sum_adds_the_missing_tail_and_nothing_else(alpha):
    count, grid = 200, Grid.uniform(101, boundary=Neumann())
    short, long = GaussianField(alpha, waves=20), GaussianField(alpha, waves=80)
    drawn = [law.coefficients(grid, rng=np.random.default_rng(10), count=count) for law in (short, long)]
    assert np.array_equal(drawn[0], drawn[1][:, :21, :21])

    samples = [law.sample(grid, rng=np.random.default_rng(10), count=count) for law in (short, long)]
    low = [project(fields, grid, modes=21) for fields in samples]
    assert np.max(np.abs(low[0] - low[1])) < 1e-12

    tail = long.amplitudes(grid).copy()
    tail[:21, :21] = 0
    measured = np.mean(grid.norm(samples[1] - samples[0]) ** 2)
    error = np.sqrt(2 * np.sum(tail**4) / count)
    assert abs(measured - np.sum(tail**2)) < 4 * error
    assert error < 0.05 * np.sum(tail**2)


@pytest.mark.parametrize("dimension", [1, 3])
def test_a_longer_sum_begins_with_the_shorter_one_in_every_dimension(dimension):
    grid, cut = Grid.uniform(5, dimension=dimension), (slice(5),) * dimension
    short, long = (
        GaussianField(2.0, waves=waves).coefficients(grid, rng=np.random.default_rng(11), count=3) for waves in (4, 7)
    )
    assert np.array_equal(short, long[(slice(None), *cut)])


# Two phases


def test_two_phases_are_cut_at_zero():
    assert TwoPhase()(np.array([-1.0, -1e-300, 0.0, -0.0, 1e-300, 2.0])).tolist() == [12.0, 12.0, 3.0, 3.0, 3.0, 3.0]
    assert TwoPhase(negative=1.0, positive=5.0)(np.array([[-1.0, 1.0]])).tolist() == [[1.0, 5.0]]


def test_both_phases_fill_half_the_square_on_average():
    grid = Grid.uniform(21)
    fields = GaussianField(4.0).sample(grid, rng=np.random.default_rng(12), count=1000)
    shares = np.mean(TwoPhase()(fields) == 12.0, axis=(1, 2))
    assert abs(shares.mean() - 0.5) < 4 * shares.std() / np.sqrt(1000)


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": 0.0}, {"alpha": -1.0}, {"alpha": 1.0, "tau": 0.0}, {"alpha": 1.0, "waves": 0}, {"alpha": np.nan}],
)
def test_a_law_without_meaning_is_refused(wrong):
    with pytest.raises(PhysicsError) as error:
        GaussianField(**wrong)
    assert f"alpha={wrong['alpha']}" in error.value.got


@pytest.mark.parametrize(("negative", "positive"), [(0.0, 3.0), (12.0, -3.0), (np.nan, 3.0)])
def test_phases_must_be_positive(negative, positive):
    with pytest.raises(PhysicsError) as error:
        TwoPhase(negative, positive)
    assert str(error.value.got) == str((negative, positive))
