"""Conjugate gradients against dense solves: every right-hand side on its own; an error where nothing is solved."""

import pytest
import torch

from nipde.discretisation.conjugate_gradients import bicgstab, conjugate_gradients, reorthogonalised_steps
from nipde.errors import SolverError

SIZE = 12


def matrix_of(*, symmetric):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64)
    definite = values @ values.T / SIZE + torch.eye(SIZE)
    return definite if symmetric else definite + (values - values.T) / 4


def rights(count=3):
    return torch.randn(count, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(("method", "symmetric"), [(conjugate_gradients, True), (bicgstab, True), (bicgstab, False)])
def test_solutions_are_those_of_a_dense_solve(method, symmetric):
    matrix, right = matrix_of(symmetric=symmetric), rights()
    right[1] = 0
    scale = 1 / matrix.diagonal()
    solution = method(lambda x: x @ matrix.T, right, preconditioner=lambda x: x * scale, axes=(-1,))
    torch.testing.assert_close(solution, torch.linalg.solve(matrix, right.T).T, rtol=0, atol=1e-12)
    assert not solution[1].any()


@pytest.mark.parametrize("method", [conjugate_gradients, bicgstab])
def test_no_solution_is_an_error(method):
    singular = torch.diag(torch.arange(SIZE, dtype=torch.float64))
    with pytest.raises(SolverError):
        method(lambda x: x @ singular, rights(), preconditioner=lambda x: x, axes=(-1,))


def test_as_many_steps_as_unknowns_are_exact_and_fewer_minimise_the_energy():
    matrix, right = matrix_of(symmetric=True), rights()

    def steps(count):
        return reorthogonalised_steps(
            lambda x: x @ matrix, right, diagonal=matrix.diagonal().expand_as(right), iterations=count
        )

    torch.testing.assert_close(steps(SIZE), torch.linalg.solve(matrix, right.T).T, rtol=0, atol=1e-12)
    # The slow oracle: least energy over the Krylov space of the preconditioned matrix, written out.
    scale = 1 / matrix.diagonal()
    for row, solution in zip(right, steps(4), strict=True):
        columns = [scale * row]
        for _ in range(3):
            columns.append(scale * (matrix @ columns[-1]))
        space = torch.linalg.qr(torch.stack(columns, 1)).Q
        best = space @ torch.linalg.solve(space.T @ matrix @ space, space.T @ row)
        torch.testing.assert_close(solution, best, rtol=0, atol=1e-10)
