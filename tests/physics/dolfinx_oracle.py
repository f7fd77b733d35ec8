"""The same bodies by dolfinx: only the energy is written down, UFL derives forces and tangent from it.

    python3 dolfinx_oracle.py problem.npz answer.npz

Run by the interpreter that has dolfinx (0.5), which need not be the one that has nipde. The problem holds `length` of
the square, `modulus` of every cell, `poisson`, `loads` (pair, component, x, y) and `tolerance`; for tissue also
`angles`, `line`, `stiffness`, `exponent`. The answer holds `responses`, `residuals` and `iterations`.
"""

import sys

import numpy as np
import ufl
from dolfinx import fem, mesh
from dolfinx.nls.petsc import NewtonSolver
from mpi4py import MPI
from petsc4py import PETSc

TWO_BY_TWO_GAUSS = {"quadrature_rule": "default", "quadrature_degree": 3}


def main(problem, answer):
    """Solve the problem of one file, write the other."""
    with np.load(problem) as arrays:
        given = dict(arrays)
    count, length = len(given["modulus"]), float(given["length"])
    corners = [np.zeros(2), np.full(2, length)]
    square = mesh.create_rectangle(MPI.COMM_SELF, corners, [count, count], mesh.CellType.quadrilateral)
    body = Body(square, count / length, given)
    solved = [body.solve(load, float(given["tolerance"])) for load in given["loads"]]
    responses, residuals, iterations = (np.array(column) for column in zip(*solved, strict=True))
    np.savez(answer, responses=responses, residuals=residuals, iterations=iterations)


class Body:
    """One specimen held on all sides; fields are found by where dolfinx has put its nodes."""

    def __init__(self, square, nodes_per_length, given):
        self.space = fem.VectorFunctionSpace(square, ("Lagrange", 1))
        places = np.round(self.space.tabulate_dof_coordinates()[:, :2] * nodes_per_length).astype(int)
        self.places = tuple(places.T)
        self.moved, self.load = fem.Function(self.space), fem.Function(self.space)
        young = _cellwise(square, nodes_per_length, given["modulus"])
        F = ufl.Identity(2) + ufl.grad(self.moved)
        if "angles" in given:
            direction = _two_directions(ufl.SpatialCoordinate(square), float(given["length"]), given)
            energy = tissue(F, young, float(given["poisson"]), direction, given)
        else:
            energy = neo_hookean(F, young, float(given["poisson"]))
        dx = ufl.Measure("dx", domain=square, metadata=TWO_BY_TWO_GAUSS)
        balance = ufl.derivative(energy * dx - ufl.inner(self.load, self.moved) * dx, self.moved)
        square.topology.create_connectivity(1, 2)
        sides = mesh.exterior_facet_indices(square.topology)
        held = fem.dirichletbc(np.zeros(2), fem.locate_dofs_topological(self.space, 1, sides), self.space)
        self.problem = fem.petsc.NonlinearProblem(balance, self.moved, bcs=[held])

    def solve(self, load, tolerance):
        """Displacement (component, x, y) from rest, ‖residual‖ / ‖load‖, and Newton's iterations."""
        self.load.x.array[:] = load[:, self.places[0], self.places[1]].T.reshape(-1)
        self.moved.x.array[:] = 0
        size = self._residual()
        solver = NewtonSolver(MPI.COMM_SELF, self.problem)
        solver.convergence_criterion = "residual"
        solver.rtol, solver.atol, solver.max_it = 0.0, tolerance * size, 30  # rtol would be relative to the first step
        solver.krylov_solver.setType(PETSc.KSP.Type.PREONLY)
        solver.krylov_solver.getPC().setType(PETSc.PC.Type.LU)
        iterations, _ = solver.solve(self.moved)
        found = np.empty(load.shape)
        found[:, self.places[0], self.places[1]] = self.moved.x.array.reshape(-1, 2).T
        return found, self._residual() / size, iterations

    def _residual(self):
        vector = fem.petsc.create_vector(self.problem.L)
        self.problem.F(self.moved.vector, vector)
        return vector.norm()


def neo_hookean(F, young, poisson):
    """Energy density of Mechanical MNIST."""
    mu, lame = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    return _matrix(F, mu, lame)


def tissue(F, young, poisson, direction, given):
    """Energy density of Holzapfel, Gasser and Ogden, one family of fibres that bear no compression."""
    k1, k2 = float(given["stiffness"]), float(given["exponent"])
    stretched = F * direction
    excess = ufl.inner(stretched, stretched) - 1
    taut = ufl.conditional(ufl.gt(excess, 0), excess, 0)
    fibres = k1 / (2 * k2) * (ufl.exp(k2 * taut**2) - 1)
    return _matrix(F, young / (2 * (1 + poisson)), young / (3 * (1 - 2 * poisson))) + fibres


def _matrix(F, shear, volumetric):
    J = ufl.det(F)
    return shear / 2 * (ufl.inner(F, F) - 2 - 2 * ufl.ln(J)) + volumetric / 2 * ((J**2 - 1) / 2 - ufl.ln(J))


def _two_directions(x, length, given):
    """The fibres' direction, looked up where the quadrature asks: one side of a line through the centre, or beyond."""
    line, (first, second) = float(given["line"]), map(float, given["angles"])
    side = -np.sin(line) * (x[0] - length / 2) + np.cos(line) * (x[1] - length / 2)
    angle = ufl.conditional(ufl.ge(side, 0), first, second)
    return ufl.as_vector([ufl.cos(angle), ufl.sin(angle)])


def _cellwise(square, cells_per_length, modulus):
    """A modulus (x, y) as a function that is constant in every cell."""
    young = fem.Function(fem.FunctionSpace(square, ("DG", 0)))
    middles = young.function_space.tabulate_dof_coordinates()[:, :2]
    young.x.array[:] = modulus[tuple(np.floor(middles * cells_per_length).astype(int).T)]
    return young


if __name__ == "__main__":
    main(*sys.argv[1:])
