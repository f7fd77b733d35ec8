import copy

import numpy as np
import pytest

import nipde
from tests.golden.answers import FILE
from tests.simulated_device import device, watched


@pytest.mark.slow
def test_a_discovery_with_weights_on_a_device_is_that_of_the_processor():
    measured, model = nipde.read(FILE.with_name("membrane.npz")), nipde.load("darcy-two-phase").double()
    expected = nipde.discover(measured, model, recommendations=1, piecewise_constant=False)
    with watched():
        moved = copy.deepcopy(model).to(device())
        found = nipde.discover(measured, moved, recommendations=1, piecewise_constant=False)
    for field in ("values", "low", "high", "identifiable"):
        np.testing.assert_allclose(getattr(found.material, field), getattr(expected.material, field), rtol=1e-8)
    np.testing.assert_allclose(found.held_out.errors, expected.held_out.errors, rtol=1e-8)
    assert found.recommended_loads.names == expected.recommended_loads.names
    assert found.kernel.predict(measured.pairs.loads.to(device())).device == device()
