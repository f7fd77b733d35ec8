"""Power-law fields: variance, spectrum, and the same function on every grid."""

import numpy as np
import pytest

from nipde.errors import PhysicsError
from nipde.grid import Axis, Grid
from nipde.physics.random_fields import PowerLawField


def draw(grid, *, count=1, **law):
    return PowerLawField(**law).sample(grid, rng=np.random.default_rng(0), count=count)


def test_it_is_damped_white_noise_on_the_doubled_box():
    noise = np.random.default_rng(0).standard_normal((1, 56, 56))
    k = np.fft.fftfreq(56, 1 / 56)
    squared = k[:, None] ** 2 + k**2
    squared[0, 0] = np.inf
    expected = np.fft.ifft2(np.fft.fft2(noise) * squared**-1.25).real[0, :29, :29]
    expected /= np.sqrt(np.mean(squared**-2.5))
    assert np.allclose(draw(Grid.uniform(29))[0], expected, atol=1e-12)


def test_the_variance_is_one():
    fields = draw(Grid.uniform(15), count=1000)
    assert np.mean(fields**2) == pytest.approx(1, abs=0.1)
    assert np.abs(np.mean(fields)) < 0.1


def test_nested_grids_see_the_same_function():
    fine, coarse = Grid.uniform(57), Grid.uniform(29)
    assert np.allclose(fine.restrict(draw(fine, count=3), to=coarse), draw(coarse, count=3), atol=1e-12)
    assert np.allclose(draw(coarse.stretched(28.0)), draw(coarse), atol=1e-12)  # whatever the unit of length


def test_larger_exponents_are_smoother():
    grid = Grid((Axis(29, 1.0), Axis(15, 0.5)))
    rough, smooth = (np.mean(np.diff(draw(grid, count=50, exponent=e), axis=1) ** 2) for e in (1.5, 3.5))
    assert smooth < rough / 3


def test_laws_that_cannot_be_are_refused():
    with pytest.raises(PhysicsError) as error:
        PowerLawField(exponent=0.0)
    assert error.value.got == (0.0, 28)
    with pytest.raises(PhysicsError) as error:
        draw(Grid.uniform(5, dimension=1))
    assert error.value.got == 1
