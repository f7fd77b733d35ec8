"""A field is cut where its values leave room, and how sure a node is falls towards the cut."""

import builtins

import numpy as np
import pytest
from scipy.stats import norm

from nipde.discovery.material import phases_of
from nipde.errors import KernelError, MissingExtraError

SHAPE = (8, 10)
EVERYWHERE = np.ones(SHAPE, dtype=bool)


def levels(*values, spread=0.0, seed=0):
    """A field in stripes of as many levels as values."""
    stripes = np.array(values)[np.arange(SHAPE[1]) * len(values) // SHAPE[1]]
    return stripes * np.exp(spread * np.random.default_rng(seed).standard_normal(SHAPE))


def cut(values, *, deviation=0.05, among=EVERYWHERE, **options):
    return phases_of(values, deviation=np.broadcast_to(deviation, SHAPE), among=among, **options)


def test_two_levels_are_told_apart_and_the_cut_is_in_the_middle():
    found = cut(levels(3.0, 12.0))
    assert found.thresholds == pytest.approx((6.0,))
    assert found.medians == pytest.approx((3.0, 12.0))
    assert np.array_equal(found.labels, levels(0, 1))
    assert found.method == "otsu"


def test_scattered_levels_are_told_apart_too():
    values = levels(3.0, 12.0, spread=0.1)
    found = cut(values)
    assert np.array_equal(found.labels, levels(0, 1))
    low, high = values[found.labels == 0], values[found.labels == 1]
    assert found.thresholds[0] == pytest.approx(np.exp((np.log(low).mean() + np.log(high).mean()) / 2))
    assert found.medians == pytest.approx((np.median(low), np.median(high)), rel=0.01)


def test_far_from_the_cut_a_node_is_sure_and_at_the_cut_it_is_not():
    values = levels(3.0, 12.0)
    values[0, 0], values[0, 1] = 6.0 * np.exp(-1e-9), 6.0 * np.exp(0.2)
    among = EVERYWHERE.copy()
    among[0, :2] = False
    found = cut(values, deviation=0.2, among=among)
    assert found.probability[0, 0] == pytest.approx(0.5, abs=1e-6)
    assert found.probability[0, 1] == pytest.approx(norm.cdf(1))
    assert found.probability[4, 5] == pytest.approx(norm.cdf(np.log(2) / 0.2))
    assert found.probability[4, 5] > 0.999
    assert found.uncertain.sum() == 2


def test_nodes_that_nothing_is_known_of_do_not_move_the_cut_but_get_a_phase():
    values, among = levels(3.0, 12.0), EVERYWHERE.copy()
    values[0], among[0] = 1e4, False
    found = cut(values, among=among)
    assert found.thresholds == pytest.approx((6.0,))
    assert found.medians == pytest.approx((3.0, 12.0))
    assert (found.labels[0] == 1).all()


def test_the_unit_of_the_material_changes_no_label():
    values = levels(3.0, 12.0, spread=0.3)
    first, other = cut(values), cut(values * 1e6)
    assert np.array_equal(first.labels, other.labels)
    assert other.thresholds == pytest.approx(tuple(1e6 * one for one in first.thresholds))
    assert other.probability == pytest.approx(first.probability)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_material_without_contrast_is_one_phase(count):
    found = cut(levels(5.0, 5.0, spread=1e-4), count=count)
    assert found.thresholds == ()
    assert found.medians == pytest.approx((5.0,), rel=1e-3)
    assert not found.labels.any()
    assert found.probability == pytest.approx(np.ones(SHAPE))


def test_one_phase_may_be_asked_for():
    assert cut(levels(3.0, 12.0), count=1).thresholds == ()


@pytest.mark.parametrize("spread", [0.0, 0.1], ids=["even", "scattered"])
def test_three_levels_give_three_phases(spread):
    found = cut(levels(1.0, 5.0, 25.0, spread=spread), count=3)
    assert np.array_equal(found.labels, levels(0, 1, 2))
    assert found.medians == pytest.approx((1, 5, 25), rel=0.1)
    assert found.thresholds == pytest.approx((np.sqrt(5), np.sqrt(125)), rel=0.2)
    assert (np.diff(found.thresholds) > 0).all()


@pytest.mark.parametrize("spread", [0.0, 1e-5], ids=["even", "all but even"])
def test_more_phases_than_there_are_is_as_many_as_there_are(spread):
    found = cut(levels(3.0, 12.0, spread=spread), count=3)
    assert np.isfinite(found.medians).all()
    assert np.array_equal(np.asarray(found.labels) > 0, levels(0, 1) > 0)


def test_no_deviation_is_no_doubt():
    found = cut(levels(3.0, 12.0), deviation=0.0)
    assert (found.probability == 1).all()
    assert not found.uncertain.any()


@pytest.mark.parametrize("count", [-1, 0, 6, 10**9])
def test_no_phases_and_too_many_are_refused_at_once(count):
    with pytest.raises(KernelError) as error:
        cut(levels(3.0, 12.0, spread=0.3), count=count)
    assert error.value.got == count


def test_five_phases():
    assert len(cut(levels(1.0, 3.0, 9.0, 27.0, 81.0, spread=0.05), count=5).medians) == 5


def test_without_scikit_image_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.startswith("skimage"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError) as error:
        cut(levels(3.0, 12.0))
    assert "nipde[report]" in error.value.remedy
