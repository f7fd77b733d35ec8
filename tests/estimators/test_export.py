"""Models outside their process: programs that run without nipde, and weights that another model takes over."""

import subprocess
import sys
from functools import cache, partial

import numpy as np
import pytest
import torch

from nipde.boundary import Neumann, Periodic
from nipde.context.pairs import Pairs
from nipde.estimators.paper.afno import AFNO
from nipde.estimators.paper.nao import NAO
from nipde.estimators.paper.nips import NIPS, NIPSMLP
from nipde.grid import Axis, Grid
from nipde.interop.onnx_program import exported

D = 4
SINGLE, DOUBLE = torch.float32, torch.float64
TOLERANCE = {SINGLE: 1e-6, DOUBLE: 1e-10}
LINE = Grid((Axis(9, 1.3, Periodic()),))
PLANE = Grid((Axis(8, 1.3), Axis(7, 2.5, Neumann())))
SPACE = Grid((Axis(4, 1.3), Axis(5, 0.8, Periodic()), Axis(3)))
small = partial(dict, pairs=D, layers=2, channels=3)
CASES = {
    "NIPS-1d": (NIPS, LINE, small()),
    "NIPS-1d-modes": (NIPS, LINE, small(modes=(3,))),
    "NIPS-2d": (NIPS, PLANE, small(layers=3)),
    "NIPS-2d-modes-2": (NIPS, PLANE, small(modes=(3, 2), components=2)),
    "NIPS-3d": (NIPS, SPACE, small()),
    "NIPS-3d-modes": (NIPS, SPACE, small(modes=(2, 2, 1))),
    "NIPS-mlp": (NIPSMLP, PLANE, small()),
    "NIPS-mlp-2": (NIPSMLP, LINE, small(components=2)),
    "NAO": (NAO, PLANE, small()),
    "NAO-quadratic-2": (NAO, LINE, small(components=2, attention="quadratic")),
    "NAO-W^P-f": (NAO, LINE, small(token_projections=True, full_norms=True)),
    "AFNO": (AFNO, PLANE, {"pairs": D, "layers": 2}),
    "AFNO-3d-2": (AFNO, SPACE, {"pairs": D, "layers": 2, "components": 2}),
}
#: Tracing takes a second or two, so each model is traced in one precision only; these in float32, and they travel.
TRAVELLERS = ["NIPS-1d", "NIPS-2d-modes-2", "NIPS-3d", "NIPS-mlp", "NAO", "AFNO"]
FAST = ["NIPS-2d", "NIPS-mlp", "NAO", "AFNO"]
every_case = pytest.mark.parametrize("case", CASES)
PRECISION = {case: SINGLE if case in TRAVELLERS else DOUBLE for case in CASES}


def fresh(case, *, seed=0):
    kind, grid, options = CASES[case]
    torch.manual_seed(seed)
    return kind(grid, **options).to(PRECISION[case])


@cache
def build(case):
    model = fresh(case)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def some(case, *, systems, count=D, seed=0):
    """Pairs of some systems, and `count` other loads of each."""
    _, grid, options = CASES[case]
    draw, shape = np.random.default_rng(seed), (options.get("components", 1), *grid.shape)
    fields = (draw.standard_normal((systems, number, *shape)) for number in (D, D, count))
    loads, responses, queries = (torch.tensor(field, dtype=PRECISION[case]) for field in fields)
    return Pairs(grid, 7 * loads, 0.3 * responses), 50 * queries


@cache
def traced(case):
    return exported(build(case), some(case, systems=2)[0])


def answer(model, pairs, queries):
    return (model(pairs) @ queries).detach()


def apart(one, other):
    return float((one.detach() - other).norm() / other.norm())


# Programs


@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_programs_are_the_model_for_any_number_of_systems_and_queries(case):
    model, program = build(case), traced(case).module()
    for systems, count in ((2, 3), (5, 9), (1, 1)):
        pairs, queries = some(case, systems=systems, count=count, seed=systems)
        found, expected = program(pairs.loads, pairs.responses, queries), answer(model, pairs, queries)
        assert found.shape == expected.shape
        assert found.dtype == PRECISION[case]
        assert apart(found, expected) < TOLERANCE[PRECISION[case]]


@pytest.mark.parametrize("case", ["NIPS-2d", "NIPS-mlp-2", "NAO-quadratic-2", "AFNO-3d-2"])
def test_programs_speak_physical_units(case):
    program, (pairs, queries) = traced(case).module(), some(case, systems=3)
    found = program(pairs.loads, pairs.responses, queries)
    other = program(1000 * pairs.loads, 0.001 * pairs.responses, 1000 * queries)
    assert apart(other, 0.001 * found.detach()) < 1e-12


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_programs_refuse_another_number_of_pairs_components_or_nodes(axis):
    program, (pairs, queries) = traced("AFNO-3d-2").module(), some("AFNO-3d-2", systems=2)
    fewer = [field.narrow(axis, 0, field.shape[axis] - 1) for field in (pairs.loads, pairs.responses)]
    with pytest.raises((AssertionError, RuntimeError), match=rf"\[{axis}\]"):
        program(*fewer, queries)


ALONE = """
import sys
from pathlib import Path
import numpy, torch
for folder in sorted(Path(sys.argv[1]).iterdir()):
    program = torch.export.load(folder / "model.pt2").module()
    given = [torch.tensor(numpy.load(folder / f"{name}.npy")) for name in ("loads", "responses", "queries")]
    numpy.save(folder / "found.npy", program(*given).detach().numpy())
assert not [name for name in sys.modules if name.split(".")[0] == "nipde"], "the program needed nipde"
"""


@pytest.mark.slow
def test_saved_programs_run_in_a_process_without_nipde(tmp_path):
    for case in TRAVELLERS:
        folder = tmp_path / case
        folder.mkdir()
        pairs, queries = some(case, systems=3, count=7, seed=8)
        torch.export.save(traced(case), folder / "model.pt2")
        for name, field in (("loads", pairs.loads), ("responses", pairs.responses), ("queries", queries)):
            np.save(folder / f"{name}.npy", field.numpy())
        np.save(folder / "expected.npy", answer(build(case), pairs, queries).numpy())
    command = [sys.executable, "-I", "-c", ALONE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for case in TRAVELLERS:
        found, expected = (torch.tensor(np.load(tmp_path / case / f"{name}.npy")) for name in ("found", "expected"))
        assert found.dtype == torch.float32
        assert apart(found, expected) < TOLERANCE[SINGLE]


# Weights


@every_case
def test_weights_are_real_and_travel_through_safetensors(case):
    model, other, given = build(case), fresh(case, seed=1), some(case, systems=3)
    assert not any(value.is_complex() for value in [*model.parameters(), *model.buffers()])
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
    assert apart(answer(other, *given), answer(model, *given)) > 0.1
    stored = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        from safetensors.torch import load, save
    except ModuleNotFoundError:
        other.load_state_dict(stored)
    else:
        other.load_state_dict(load(save(stored)))
    assert torch.equal(answer(other, *given), answer(model, *given))


@every_case
def test_a_seed_is_a_model(case):
    given = some(case, systems=3)
    found = answer(fresh(case, seed=5), *given)
    assert torch.equal(answer(fresh(case, seed=5), *given), found)
    assert apart(answer(fresh(case, seed=6), *given), found) > 1e-2
