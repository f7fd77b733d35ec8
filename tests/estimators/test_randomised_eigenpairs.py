"""Randomised eigenpairs against those of the whole matrix: the values, the rank where it stops, and never too much."""

import numpy as np
import pytest

from nipde.estimators.inverse.randomised_eigenpairs import eigenpairs

UNKNOWNS, READINGS = 300, 120


def matrix(decay, *, seed=0, readings=READINGS):
    """L with singular values 100 · decay^j."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((readings, readings)))[0]
    right = np.linalg.qr(rng.standard_normal((UNKNOWNS, readings)))[0]
    return (left * (100 * decay ** np.arange(readings))) @ right.T


def found(whole, **more):
    return eigenpairs(
        lambda white: white @ whole.T, lambda rows: rows @ whole, unknowns=whole.shape[1], readings=len(whole), **more
    )


@pytest.mark.parametrize("smallest", [1.0, 0.01])
@pytest.mark.parametrize("decay", [0.8, 0.9])
def test_values_above_the_smallest_are_right_and_the_rank_stops_there(decay, smallest):
    whole = matrix(decay)
    exact = np.linalg.svd(whole, compute_uv=False) ** 2
    pairs = found(whole, smallest=smallest, block=8)
    above = int((exact > smallest).sum())
    np.testing.assert_allclose(pairs.values[:above], exact[:above], rtol=0.05)
    np.testing.assert_allclose(pairs.values[: above // 2], exact[: above // 2], rtol=1e-4)
    assert above <= len(pairs.values) <= above + 5 * 8
    vectors = np.concatenate(pairs.vectors)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(len(pairs.values)), atol=1e-3)


def test_information_is_left_out_never_added():
    whole = matrix(0.9)
    pairs = found(whole, smallest=1.0, block=8)
    vectors = np.concatenate(pairs.vectors).astype(float)
    low_rank = (vectors.T * pairs.values) @ vectors
    left = np.linalg.eigvalsh(whole.T @ whole - low_rank)
    assert left[0] > -1e-2  # single precision of 1e4
    assert left[-1] < 1.0
    assert np.sum(left) < pairs.left_out < 20 * np.sum(left)


def test_all_readings_are_exact():
    whole = matrix(0.9, readings=20)
    pairs = found(whole, smallest=1e-9, block=8)
    assert len(pairs.values) == 20
    assert pairs.left_out == 0.0
    np.testing.assert_allclose(pairs.values, np.linalg.svd(whole, compute_uv=False) ** 2, rtol=1e-5)


def test_a_direction_that_the_first_block_misses_is_found():
    whole = np.zeros((READINGS, UNKNOWNS))
    whole[0, 0], whole[1, 1], whole[2, 2] = 10.0, 10.0, 10.0  # of multiplicity 3: a block of 2 has one too few
    pairs = found(whole, smallest=0.1, block=2)
    np.testing.assert_allclose(pairs.values, [100.0] * 3, rtol=1e-6)


def test_the_seed_decides():
    whole = matrix(0.9)
    first, again = (found(whole, smallest=1.0, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.values, again.values)
