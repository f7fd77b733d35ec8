"""The same bodies by scikit-fem, with stress and tangent written out in F as in the textbooks: slow, easy to read."""

import numpy as np
import skfem
from skfem.helpers import ddot, div, dot, grad, sym_grad


class Oracle:
    """A body's mesh and material rebuilt from its public fields; vectors in scikit-fem's own order."""

    def __init__(self, body, *, young, poisson, volumetric, fibres=(), k1=0.0, k2=1.0, both_signs=False):
        x, y = (np.linspace(0, axis.length, axis.intervals * body.refine + 1) for axis in body.grid.axes)
        element = skfem.ElementVector([skfem.ElementQuad1, skfem.ElementQuad2][body.degree - 1]())
        self.basis = skfem.Basis(skfem.MeshQuad.init_tensor(x, y), element, intorder=2 * body.degree + 1)
        self.body, self.young, self.poisson, self.volumetric = body, young, poisson, volumetric
        self.fibres, self.k1, self.k2, self.both_signs = fibres, k1, k2, both_signs
        self.places = self._places()

    def _places(self):
        """Position of scikit-fem's numbers among (component, x, y) of the mesh."""
        basis, shape = self.basis, self.body.mesh.shape
        places = np.empty(basis.N, dtype=int)
        steps = [axis.length / (n - 1) for axis, n in zip(self.body.grid.axes, shape, strict=True)]
        for dofs in (basis.nodal_dofs, basis.facet_dofs, basis.interior_dofs):
            for component, numbers in enumerate(dofs):
                i, j = np.round(basis.doflocs[:, numbers] / np.array(steps)[:, None]).astype(int)
                places[numbers] = np.ravel_multi_index((np.full_like(i, component), i, j), (2, *shape))
        return places

    def vector(self, field):
        return field.reshape(-1)[self.places]

    def field(self, vector):
        field = np.empty(vector.size)
        field[self.places] = vector
        return field.reshape(2, *self.body.mesh.shape)

    def moduli(self, w):
        young = self.young(*w.x)
        return young / (2 * (1 + self.poisson)), self.volumetric(young, self.poisson)

    def _kinematics(self, w):
        F = grad(w["u"]) + np.eye(2)[:, :, None, None]
        J = F[0, 0] * F[1, 1] - F[0, 1] * F[1, 0]
        G = np.stack([np.stack([F[1, 1], -F[1, 0]]), np.stack([-F[0, 1], F[0, 0]])]) / J
        return F, J, G

    def _families(self, F, w):
        for angle in self.fibres:
            n = np.stack([np.cos(angle(*w.x)), np.sin(angle(*w.x))])
            m = np.einsum("ij...,j...->i...", F, n)
            S = (m * m).sum(0) - 1
            if not self.both_signs:
                S = np.maximum(S, 0)
            yield n, m, S

    def energy(self, vector):
        def density(w):
            (mu, kappa), (F, J, _) = self.moduli(w), self._kinematics(w)
            psi = mu / 2 * ((F * F).sum((0, 1)) - 2 - 2 * np.log(J)) + kappa / 2 * ((J**2 - 1) / 2 - np.log(J))
            for _, _, S in self._families(F, w):
                psi = psi + self.k1 / (2 * self.k2) * (np.exp(self.k2 * S**2) - 1)
            return psi

        return skfem.Functional(density).assemble(self.basis, u=self.basis.interpolate(vector))

    def forces(self, vector):
        def form(v, w):
            (mu, kappa), (F, J, G) = self.moduli(w), self._kinematics(w)
            P = mu * (F - G) + kappa / 2 * (J**2 - 1) * G
            for n, m, S in self._families(F, w):
                P = P + 2 * self.k1 * S * np.exp(self.k2 * S**2) * np.einsum("i...,k...->ik...", m, n)
            return ddot(P, grad(v))

        return skfem.LinearForm(form).assemble(self.basis, u=self.basis.interpolate(vector))

    def tangent(self, vector):
        def form(u, v, w):
            (mu, kappa), (F, J, G), one = self.moduli(w), self._kinematics(w), np.eye(2)
            A = np.einsum("...,ij,kl->ikjl...", mu, one, one)
            A = A + (mu - kappa / 2 * (J**2 - 1)) * np.einsum("il...,jk...->ikjl...", G, G)
            A = A + kappa * J**2 * np.einsum("ik...,jl...->ikjl...", G, G)
            for n, m, S in self._families(F, w):
                rise, on = self.k1 * np.exp(self.k2 * S**2), (S > 0) | self.both_signs
                v_ = np.einsum("i...,k...->ik...", m, n)
                A = A + 4 * rise * (1 + 2 * self.k2 * S**2) * on * np.einsum("ik...,jl...->ikjl...", v_, v_)
                A = A + 2 * rise * S * np.einsum("ij,k...,l...->ikjl...", one, n, n)
            return np.einsum("ikjl...,jl...,ik...->...", A, grad(u), grad(v))

        return skfem.BilinearForm(form).assemble(self.basis, u=self.basis.interpolate(vector))

    def load(self, density):
        """∫ v·b of a force density b(x, y)."""
        return skfem.LinearForm(lambda v, w: dot(np.stack(density(*w.x)), v)).assemble(self.basis)

    def solve(self, density, *, steps=4, iterations=8):
        """Newton in equal load steps with scikit-fem alone; all sides held."""
        held, load, vector = self.basis.get_dofs(), self.load(density), self.basis.zeros()
        for share in np.arange(1, steps + 1) / steps:
            for _ in range(iterations):
                right = share * load - self.forces(vector)
                vector = vector + skfem.solve(*skfem.condense(self.tangent(vector), right, D=held))
        return self.field(vector)

    def linear_solve(self, density):
        """Plane strain linear elasticity; all sides held."""

        def form(u, v, w):
            mu, lame = self.moduli(w)
            return 2 * mu * ddot(sym_grad(u), sym_grad(v)) + lame * div(u) * div(v)

        stiffness = skfem.BilinearForm(form).assemble(self.basis)
        return self.field(skfem.solve(*skfem.condense(stiffness, self.load(density), D=self.basis.get_dofs())))
