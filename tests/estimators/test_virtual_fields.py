"""Virtual fields against a plate whose two numbers are known."""

import numpy as np
import pytest

from nipde import Shape, SolidLoad, SolidTests
from nipde.discretisation.parts import ClampedPart, GripPart, RollerPart, Specimen
from nipde.errors import PairsError
from nipde.estimators.inverse.virtual_fields import VirtualFields
from nipde.physics.plane_elasticity import PlaneElasticity

LINE = np.linspace(0.1, 1.9, 25), np.linspace(0.05, 0.95, 15)
POINTS = np.stack(np.meshgrid(*LINE, indexing="ij"), axis=-1).reshape(-1, 2)
HELD = {"left": RollerPart("x"), "bottom": RollerPart("y")}


def measured(conditions, load, *, noise=0.0, **more):
    specimen = Specimen(Shape.rectangle(2.0, 1.0), conditions)
    plate = PlaneElasticity.of(specimen, 70.0, poisson=0.33, spacing=0.05)
    seen = plate.displacements([load], POINTS)
    seen = seen + noise * np.abs(seen).max() * np.random.default_rng(0).standard_normal(seen.shape)
    return SolidTests.from_arrays(specimen, [load], POINTS, seen, **more)


def test_uniform_tension_is_exact():
    modulus, poisson = VirtualFields(degree=2)(measured(HELD, SolidLoad(tractions={"right": (1.0, 0.0)})))
    assert modulus == pytest.approx(70.0, rel=1e-9)
    assert poisson == pytest.approx(0.33, abs=1e-9)


@pytest.mark.parametrize(("conditions", "load"), [
    ({"left": ClampedPart()}, SolidLoad(tractions={"right": (1.0, 0.3)})),
    ({"left": ClampedPart()}, SolidLoad(body=(0.0, -1.0))),
])  # fmt: skip
def test_noise_of_a_thousandth_moves_them_little(conditions, load):
    modulus, poisson = VirtualFields()(measured(conditions, load, noise=1e-3))
    assert modulus == pytest.approx(70.0, rel=0.03)
    assert poisson == pytest.approx(0.33, abs=0.03)


def test_a_known_ratio_leaves_one_number():
    tests = measured(HELD, SolidLoad(tractions={"right": (1.0, 0.0)}), poisson=0.33)
    assert VirtualFields(degree=2)(tests) == (pytest.approx(70.0, rel=1e-9), 0.33)


def test_twice_the_force_is_twice_the_modulus():
    tests = measured(HELD, SolidLoad(tractions={"right": (1.0, 0.0)}))
    doubled = SolidTests.from_arrays(tests.specimen, [tests.loads[0].scaled(2.0)], tests.points, tests.readings)
    assert VirtualFields(degree=2)(doubled)[0] == pytest.approx(140.0, rel=1e-9)


def test_without_a_force_with_a_grip_or_in_plane_strain_it_is_refused():
    moved = measured({"left": ClampedPart(), "right": ClampedPart()}, SolidLoad(displacements={"right": (0.01, 0.0)}))
    strain = measured(HELD, SolidLoad(tractions={"right": (1.0, 0.0)}), plane="strain")
    grip = measured({"left": ClampedPart(), "right": GripPart()}, SolidLoad(forces={"right": (1.0, 0.0)}))
    for tests in (moved, strain, grip):
        with pytest.raises(PairsError, match="SolidInversion"):
            VirtualFields()(tests)
