"""Plane bodies against dolfinx: same mesh, same quadrature, but its own assembly, derivatives and Newton's method."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from trial_fields import body_loads

from benchmarks.mechanics_published import bitmap
from nipde.grid import Grid
from nipde.physics.bodies import NeoHookean, TwoSegmentTissue, modulus_of_bitmap
from nipde.physics.newton import Newton

pytestmark = pytest.mark.slow

TIGHT = Newton(tolerance=1e-12)
PIXELS, SQUARE = Grid.uniform(29, length=28.0), Grid.uniform(29)
#: Largest difference of displacements over the largest displacement.
AGREEMENT = 1e-12
#: Debian's dolfinx runs under Debian's Python only, with that one's NumPy.
PYTHON, ORACLE = Path("/usr/bin/python3"), Path(__file__).with_name("dolfinx_oracle.py")


@pytest.fixture(scope="module")
def dolfinx(tmp_path_factory):
    """Responses of a body by dolfinx, from problem to answer by files."""
    home = tmp_path_factory.mktemp("dolfinx")  # compiled forms are kept there
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "OMP_NUM_THREADS": "1"}

    def run(*arguments, **options):
        return subprocess.run([PYTHON, *arguments], env=environment, cwd=home, timeout=250, **options)

    if not PYTHON.exists():
        pytest.skip(f"dolfinx is a package of the system's Python, and there is no {PYTHON}")
    trial = run("-c", "import dolfinx", capture_output=True, text=True)
    if trial.returncode:
        reason = (trial.stderr.strip().splitlines() or ["no message"])[-1]
        pytest.skip(f"{PYTHON} cannot import dolfinx ({reason}): apt-get install python3-dolfinx")

    def responses(body, loads, **material):
        np.savez(
            home / "problem.npz", loads=loads, length=body.grid.axes[0].length, poisson=body.poisson,
            modulus=np.broadcast_to(body.modulus, body.mesh.cells), tolerance=TIGHT.tolerance, **material,
        )  # fmt: skip
        run(ORACLE, "problem.npz", "answer.npz", check=True)
        with np.load(home / "answer.npz") as answer:
            assert np.all(answer["residuals"] <= TIGHT.tolerance)
            assert np.all(answer["iterations"] >= 3)  # a linear body would need one
            return answer["responses"]

    return responses


def distances(found, expected):
    """Of every pair, relative to its largest displacement."""
    return np.abs(found - expected).max((1, 2, 3)) / np.abs(expected).max((1, 2, 3))


@pytest.mark.parametrize("amplitude", [0.01, 0.02])
def test_responses_of_a_digit_are_dolfinxs(dolfinx, amplitude):
    modulus, loads = modulus_of_bitmap(bitmap(0)), body_loads(PIXELS, count=3, amplitude=amplitude)
    assert (modulus.min(), modulus.max()) == pytest.approx((1, 100), rel=0.01)
    body = NeoHookean(PIXELS, modulus, newton=TIGHT)
    expected = dolfinx(body, loads)
    found = distances(body.solve(loads), expected)
    print(f"largest relative difference {np.max(found):.1e}")
    assert np.max(found) <= AGREEMENT
    stiffer = NeoHookean(PIXELS, modulus * (1 + 1e-10), newton=TIGHT)
    assert np.min(distances(stiffer.solve(loads), expected)) > AGREEMENT


def test_responses_of_tissue_are_dolfinxs(dolfinx):
    body = TwoSegmentTissue(SQUARE, (0.4, 2.0), 0.7, newton=TIGHT)
    loads, fibres = body_loads(SQUARE, count=3, amplitude=0.1), body.fibres
    material = {"line": body.line, "stiffness": fibres.stiffness, "exponent": fibres.exponent}
    expected = dolfinx(body, loads, angles=body.angles, **material)
    found = distances(body.solve(loads), expected)
    print(f"largest relative difference {np.max(found):.1e}")
    assert np.max(found) <= AGREEMENT
    turned = TwoSegmentTissue(SQUARE, (0.4, 2.0 + 1e-9), 0.7, newton=TIGHT)
    assert np.min(distances(turned.solve(loads), expected)) > AGREEMENT
    pushing = TwoSegmentTissue(SQUARE, (0.4, 2.0), 0.7, fibres=replace(fibres, both_signs=True), newton=TIGHT)
    assert np.min(distances(pushing.solve(loads), expected)) > 0.01  # some fibres are slack, some are taut
