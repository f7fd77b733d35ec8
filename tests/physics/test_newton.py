"""Newton's method on functions whose minimum is known: order, backtracking, load steps, honest failure."""

import numpy as np

from nipde.physics.newton import Newton, State, diagnostics_of


class Scalar:
    """min of Π(u) - share · load · u in one unknown; u <= `wall` counts as turned over."""

    def __init__(self, potential, slope, curvature, *, load, wall=-np.inf):
        self.functions, self.load, self.wall = (potential, slope, curvature), load, wall

    def start(self):
        return np.zeros(1)

    def at(self, unknowns, share):
        potential, slope, _ = self.functions
        (u,) = unknowns
        if not u > self.wall:
            return State(unknowns, -1e9, np.zeros(1), 0.0, 0.0)  # tempting
        residual = share * self.load - slope(u)
        size = abs(share * self.load)
        return State(unknowns, potential(u) - share * self.load * u, np.array([residual]), abs(residual) / size, 1.0)

    def step(self, state, share):
        curvature = self.functions[2](state.unknowns[0])
        if not curvature > 0:
            raise np.linalg.LinAlgError
        return state.residual / curvature


def test_convergence_is_quadratic():
    found, record = Newton(tolerance=1e-14).solve(Scalar(np.exp, np.exp, np.exp, load=3.0))
    assert abs(found[0] - np.log(3)) < 1e-14
    assert record.converged
    assert record.steps == 1
    near = [one for one in record.history if 1e-7 < one < 0.3]
    after = record.history[record.history.index(near[0]) + 1 :]
    assert len(near) >= 2
    assert all(new <= old**2 for old, new in zip(near, after, strict=False))


def test_a_step_that_would_raise_the_potential_is_shortened():
    # Newton's full steps for √(1+u²) diverge beyond |u| = 1; here the minimum of √(1+(u-2)²) is sought from 0.
    problem = Scalar(
        lambda u: np.hypot(1, u - 2) - 1e-3 * u,
        lambda u: (u - 2) / np.hypot(1, u - 2) - 1e-3,
        lambda u: np.hypot(1, u - 2) ** -3,
        load=1e-3,
    )
    found, record = Newton(tolerance=1e-10).solve(problem)
    assert record.converged
    assert record.cutbacks == 0
    assert abs(found[0] - 2 - 2e-3) < 1e-5


def test_a_wall_is_never_crossed_and_load_steps_lead_past_indefinite_tangents():
    # Π = -ln(1 + u) + u beyond its wall at -1, pushed against it.
    found, record = Newton().solve(Scalar(
        lambda u: u - np.log1p(u), lambda u: 1 - 1 / (1 + u), lambda u: (1 + u) ** -2, load=-99.0, wall=-1.0
    ))  # fmt: skip
    assert record.converged
    assert abs(found[0] + 0.99) < 1e-9


def test_what_has_no_minimum_is_reported_with_its_cutbacks():
    never = Newton(halvings=5).solve(Scalar(np.cos, lambda u: -np.sin(u), lambda u: -np.cos(u), load=1.0))[1]
    assert not never.converged
    assert never.cutbacks == 6
    assert never.steps == 0
    beyond = Newton(halvings=5).solve(Scalar(lambda u: 1 - np.cos(u), np.sin, np.cos, load=2.0))[1]
    assert not beyond.converged  # half of the load is borne, more than that never
    assert beyond.steps >= 1
    assert beyond.residual > 1e-8


def test_not_a_number_is_not_a_solution():
    record = Newton().solve(Scalar(np.exp, np.exp, np.exp, load=np.nan))[1]
    assert not record.converged


def test_records_become_columns():
    records = [Newton().solve(Scalar(np.exp, np.exp, np.exp, load=load))[1] for load in (1.0, 3.0)]
    columns = diagnostics_of(records)
    assert set(columns) == {"residual", "iterations", "smallest_jacobian"}
    assert columns["iterations"].tolist() == [0, records[1].iterations]
    assert np.all(columns["residual"] <= 1e-8)
