"""Reference data in a cube: against another assembly, its limits, its materials, and what an archive keeps of it."""

import numpy as np
import pytest

from nipde.data.conduction_3d import Conduction3DRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.errors import ArchiveError
from nipde.grid import Grid
from nipde.physics.finite_elements import FiniteElements

SMALL = {"nodes": 5, "pairs": 3, "precision": "float64"}


def test_responses_are_those_of_the_stated_material():
    """Trilinear elements by scikit-fem, on the mesh that the archive states."""
    skfem = pytest.importorskip("skfem")
    from skfem.models.poisson import unit_load

    system = Conduction3DRecipe(**SMALL).build(5)
    mesh = Grid.uniform((9, 9, 9))
    along = np.linspace(0, 1, 9)
    hexes = skfem.MeshHex.init_tensor(along, along, along)
    basis = skfem.Basis(hexes, skfem.ElementHex1())
    middle = hexes.p[:, hexes.t].mean(axis=1)
    cells = system.fine[0][tuple(np.floor(8 * middle).astype(int))]

    @skfem.BilinearForm
    def stiffness(u, v, w):
        return w["b"] * sum(u.grad[a] * v.grad[a] for a in range(3))

    matrix = stiffness.assemble(basis, b=basis.with_element(skfem.ElementHex0()).interpolate(cells))
    expected = skfem.solve(*skfem.condense(matrix, unit_load.assemble(basis), D=hexes.boundary_nodes()))
    found = FiniteElements(mesh, system.fine[0]).solve(np.ones((1, 9, 9, 9)))[0]
    at = tuple(np.rint(8 * hexes.p).astype(int))
    assert np.allclose(found[at], expected, rtol=0, atol=1e-10 * expected.max())


def test_a_smooth_solution_converges_with_order_two():
    errors = []
    for nodes in (9, 17):
        grid = Grid.uniform((nodes,) * 3)
        x, y, z = grid.coordinates
        exact = np.sin(np.pi * x) * np.sin(np.pi * y) * np.sin(np.pi * z)
        found = FiniteElements(grid, np.ones((nodes - 1,) * 3)).solve(3 * np.pi**2 * exact[None])[0]
        errors.append(np.abs(found - exact).max())
    assert 3.5 < errors[0] / errors[1] < 4.5


@pytest.mark.parametrize("log_normal", [0.0, 1.0])
def test_materials_have_their_contrast_and_level(log_normal):
    system = Conduction3DRecipe(**SMALL, log_normal_share=log_normal, level=3.0).build(2)
    contrast, log = system.parameters["contrast"], np.log(system.fine[0] / 3.0)
    if log_normal:
        assert np.isclose(np.sqrt(np.mean(log**2)), np.log(contrast) / 2)
    else:
        assert np.allclose(np.unique(log), np.log(contrast) * np.array([-0.5, 0.5]))
    assert 2 <= contrast <= 10
    assert system.hidden.shape == (1, 5, 5, 5)
    # Around an inner node lie the eight cells that it is a corner of.
    around = system.fine[0, 3:5, 3:5, 3:5]
    assert np.isclose(system.hidden[0, 2, 2, 2], np.exp(np.log(around).mean()))


def test_an_archive_keeps_the_fine_material_and_builds_every_system_again(tmp_path):
    archive = generate(Plan(Conduction3DRecipe(nodes=5, pairs=2), systems=2, seed=3), tmp_path / "made", workers=1)
    assert archive[0].fine.shape == (1, 8, 8, 8)
    assert archive[0].diagnostics["residual"].max() <= 1e-10
    archive.rebuild(1)


@pytest.mark.parametrize(
    "wrong",
    [{"refine": 0}, {"log_normal_share": 1.5}, {"level": 0.0}, {"field_tau": -1.0}, {"contrasts": (0.5, 2.0)},
     {"contrasts": (4.0, 2.0)}, {"load_alphas": (0.0, 1.0)}, {"shared_loads": True}],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(ArchiveError):
        Conduction3DRecipe(**wrong)
