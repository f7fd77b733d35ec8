"""pyGIMLi on an aquifer: heads of wells at sensors to log b, by its finite elements. Run by a Python that has pyGIMLi.

-∇·(b∇u) = δ(x - well), u = 0 on the rim; Gauss-Newton of `pg.Inversion` on log b with first-order smoothness, or its
blocky reweighting; λ falls until χ² = 1. Its own ERT has half spaces with line electrodes (2.5D), not this, so the
operator is made of its stiffness matrix, with the Jacobian by adjoints.
`python pygimli_aquifer.py given.npz found.npz`: files as of simpeg_aquifer.py.
"""

# mypy: ignore-errors

import json
import sys
import time

import numpy as np
import pygimli as pg

#: Stiffness of a square with bilinear functions, nodes in turn.
SQUARE = np.array([[4, -1, -2, -1], [-1, 4, -1, -2], [-2, -1, 4, -1], [-1, -2, -1, 4]]) / 6


class Flow(pg.frameworks.MeshModelling):
    """Heads of every well at all points, for b in cells of the mesh; solved on one twice as fine."""

    def __init__(self, mesh, wells, points):
        super().__init__()
        self.wells, self.points = wells, points
        self.low, self.high = mesh.xMin(), mesh.xMax()
        self.setMesh(mesh)

    def solved(self, model, points):
        """Potentials (point, node) of unit sources at points, after the matrix of the model."""
        mesh = self.mesh()
        nodes = np.array([[node.x(), node.y()] for node in mesh.nodes()])
        matrix = pg.solver.createStiffnessMatrix(mesh, pg.Vector(np.asarray(model)[self.numbers()]))
        rim = np.flatnonzero(((nodes < self.low + 1e-9) | (nodes > self.high - 1e-9)).any(1))
        for number in rim.tolist():
            matrix.cleanRow(number)
            matrix.cleanCol(number)
            matrix.setVal(number, number, 1.0)
        factor = pg.core.LinSolver(matrix)
        found = []
        for point in points:
            right = np.zeros(len(nodes))
            right[np.argmin(((nodes - point) ** 2).sum(1))] = 1.0
            found.append(np.array(factor.solve(pg.Vector(right))))
        return np.array(found), nodes

    def numbers(self):
        """Which value of the model is in a cell of the finer mesh."""
        return np.array(self.mesh().cellMarkers())

    def response(self, model):
        """(well, point), one row after the other."""
        found, nodes = self.solved(model, self.wells)
        at = [np.argmin(((nodes - point) ** 2).sum(1)) for point in self.points]
        return found[:, at].ravel()

    def createJacobian(self, model):
        """∂u/∂b of a cell is -∫∇u·∇w over it, w that of a source at the sensor."""
        forward, _ = self.solved(model, self.wells)
        adjoint, _ = self.solved(model, self.points)
        corners = np.array([[node.id() for node in cell.nodes()] for cell in self.mesh().cells()])
        numbers = self.numbers()
        full = np.zeros((len(self.wells), len(self.points), len(model)))
        for part in range(4):  # every cell of the model has four of these
            rows = np.argsort(numbers, kind="stable")[part::4]
            full -= np.einsum("lci,ij,scj->lsc", forward[:, corners[rows]], SQUARE, adjoint[:, corners[rows]],
                              optimize=True)  # fmt: skip
        self.kept = pg.Matrix(full.reshape(-1, len(model)))  # the core holds a pointer only
        self.setJacobian(self.kept)


def main(given, out):
    """The discrepancy principle: λ falls until the misfit is that of the noise."""
    pg.setVerbose(False)
    setting = json.loads(str(given["setting"]))
    start = time.process_time()
    low, high = float(given["low"]), float(given["high"])
    line = np.linspace(low, high, round((high - low) / setting["spacing"]) + 1)
    mesh = pg.createGrid(x=line, y=line)
    flow = Flow(mesh, given["wells"], given["sensors"])
    readings, cells = given["readings"].ravel(), mesh.cellCount()
    unit = flow.response(np.ones(cells))
    first = float(unit @ unit / (readings @ unit))
    search = pg.Inversion(fop=flow)
    search.modelTrans = "log"
    model = np.array(search.run(
        readings, absoluteError=float(given["noise"]), startModel=first, lam=setting["start"],
        lambdaFactor=setting["factor"], blockyModel=setting["blocky"], maxIter=setting["steps"], dPhi=0.1,
    ))  # fmt: skip
    off = (flow.response(model) - readings) / float(given["noise"])
    seconds = time.process_time() - start
    flow.wells, flow.points = given["queries"], given["lattice"]
    i, j = np.clip(((given["centres"] - low) / (line[1] - line[0])).astype(int), 0, len(line) - 2).T
    np.savez(
        out, log_b=np.log(model)[j * (len(line) - 1) + i], seconds=seconds, chi_square=np.mean(off**2),
        responses=flow.response(model).reshape(len(given["queries"]), -1), version=pg.__version__,
    )  # fmt: skip


if __name__ == "__main__":
    main(dict(np.load(sys.argv[1])), sys.argv[2])
