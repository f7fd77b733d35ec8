"""Voltages at electrodes by linear triangles: the complete electrode model.

    A = Bᵀ diag(c) B: gradients in triangles with c = area · σ, and on electrodes u - U with c = length / impedance

Injections enter by the singular vectors of their currents: what these do not span is noise. Gaps keep them as they are.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sparse
from jaxtyping import Float, Int
from scipy.sparse.linalg import SuperLU

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.links import factorised
from nipde.discretisation.parts import Terminal
from nipde.estimators.inverse.linearised_readings import Solver
from nipde.estimators.inverse.material_models import MaterialModel, Parameters
from nipde.estimators.inverse.readings import Readings, Values
from nipde.grid import Grid
from nipde.physics.triangles import Triangulation

#: Singular values of the currents below this share of the largest are 0.
RANK = 1e-8
#: Barycentric coordinates at which the conductivity of a triangle is taken.
POINTS = np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4], [2, 2, 2]]) / 6
#: Points and weights along a side.
ALONG = (0.5 - 0.5 / np.sqrt(3), 0.5 + 0.5 / np.sqrt(3))


@dataclass(frozen=True, eq=False, kw_only=True)
class ElectrodeSystem(Readings):
    """Voltages of combined injections."""

    tests: ElectrodeTests
    #: Currents of the combined injections, and the readings that are there.
    currents: Float[np.ndarray, "injection electrode"]
    patterns: Float[np.ndarray, "reading electrode"]


class ElectrodeSolver(Solver):
    """On one mesh; unknowns are the potentials of vertices and of electrodes but the last, which is 0."""

    explicit: ClassVar[bool] = True

    def __init__(self, grid: Grid, system: ElectrodeSystem, mesh: Triangulation, *, nodes: Grid) -> None:
        tests = system.tests
        self.grid, self.system, self.mesh, self.nodes = grid, system, mesh, nodes
        self.given, self.offset, self.outline = 0.0, 0.0, None
        contacts, self.contact = _contacts(mesh, tests)
        gradients = _gradients(mesh)
        count = len(mesh.vertices)
        wide = sparse.hstack([gradients, sparse.csr_array((gradients.shape[0], contacts.shape[1] - count))])
        self.difference = sparse.csr_array(sparse.vstack([wide, contacts])[:, :-1])
        on_electrodes = np.hstack([np.zeros((len(system.patterns), count)), system.patterns])
        self.sensors = sparse.csr_array(on_electrodes[:, :-1])
        self.inflows = np.concatenate([np.zeros((count, len(system.currents))), system.currents.T])[:-1]
        places = np.einsum("qk,tka->tqa", POINTS, mesh.vertices[mesh.triangles]).reshape(-1, 2)
        low = np.array(tests.specimen.shape.region.bounds[:2])
        self.interpolation = multilinear(nodes, np.clip(places - low, 0, [axis.length for axis in nodes.axes]))

    def conductances(self, model: MaterialModel, parameters: Parameters) -> Float[np.ndarray, " row"]:
        """Of triangles, twice, then of contacts."""
        sizes = np.exp(model.log_coefficient(parameters, self.interpolation)[0]).reshape(-1, len(POINTS))
        return np.concatenate([np.repeat(self.mesh.areas * sizes.mean(axis=1), 2), self.contact])

    def slopes(self, model: MaterialModel, parameters: Parameters) -> tuple[np.ndarray, sparse.csr_array]:
        """Means over the points of a triangle."""
        logs, by_parameters = model.log_coefficient(parameters, self.interpolation)
        sizes = np.exp(logs)
        areas = np.repeat(self.mesh.areas / len(POINTS), len(POINTS))
        starts = np.arange(0, len(sizes) + 1, len(POINTS))
        gathered = sparse.csr_array((sizes * areas, np.arange(len(sizes)), starts), shape=(len(starts) - 1, len(sizes)))
        rows = sparse.csr_array(gathered @ by_parameters)[np.repeat(np.arange(len(starts) - 1), 2)]
        still = sparse.csr_array((len(self.contact), rows.shape[1]))
        return self.conductances(model, parameters), sparse.csr_array(sparse.vstack([rows, still]))

    def factor(self, conductances: Float[np.ndarray, " row"]) -> SuperLU:
        """By minimum degree."""
        matrix = self.difference.T @ sparse.diags_array(conductances) @ self.difference
        return factorised(matrix.tocsc(), symmetric=True, ordered=False)

    def inflow(self, conductances: Float[np.ndarray, " row"]) -> Float[np.ndarray, "unknown pair"]:
        """Currents."""
        return self.inflows


@dataclass(frozen=True, eq=False)
class CombinedInjections:
    """Injections and readings that are there, injections by singular vectors of their currents.

    Where voltages have gaps, or a noise of their own each, injections stay as they are.
    """

    injections: Int[np.ndarray, " injection"]
    readings: Int[np.ndarray, " reading"]
    currents: Float[np.ndarray, "combined electrode"]
    mixing: Float[np.ndarray, "injection combined"]

    def reduced(self, voltages: Float[np.ndarray, "injection reading"]) -> Values:
        """Readings × combined injections, NaN at gaps."""
        there = voltages[np.ix_(self.injections, self.readings)].T
        gaps = np.isnan(there)
        return np.where(gaps @ (self.mixing != 0), np.nan, np.where(gaps, 0.0, there) @ self.mixing)


def combined(tests: ElectrodeTests) -> CombinedInjections:
    """Of what was measured."""
    measured = tests.measured
    injections, readings = np.flatnonzero(measured.any(axis=1)), np.flatnonzero(measured.any(axis=0))
    currents = tests.currents[injections]
    if np.ndim(tests.noise) or not measured[np.ix_(injections, readings)].all():
        return CombinedInjections(injections, readings, currents, np.eye(len(injections)))
    left, sizes, right = np.linalg.svd(currents.T, full_matrices=False)
    rank = int(np.sum(sizes > RANK * sizes[0]))
    return CombinedInjections(injections, readings, (left[:, :rank] * sizes[:rank]).T, right[:rank].T)


def without_gaps(tests: ElectrodeTests) -> ElectrodeTests:
    """Injections and readings with gaps are left out, those with most first."""
    measured = tests.measured
    injections, readings = np.flatnonzero(measured.any(axis=1)), np.flatnonzero(measured.any(axis=0))
    while not (inside := measured[np.ix_(injections, readings)]).all():
        by_injection, by_reading = (~inside).mean(axis=1), (~inside).mean(axis=0)
        if by_injection.max() >= by_reading.max():
            injections = np.delete(injections, by_injection.argmax())
        else:
            readings = np.delete(readings, by_reading.argmax())
    voltages = np.full(measured.shape, np.nan)
    voltages[np.ix_(injections, readings)] = tests.voltages[np.ix_(injections, readings)]
    return replace(tests, voltages=voltages)


def system_of(tests: ElectrodeTests) -> tuple[ElectrodeSystem, Values]:
    """With weights of 1, of 0 at gaps, and its differences to the reference."""
    found = combined(tests)
    differences = found.reduced(tests.voltages - tests.reference)
    weights = np.isfinite(differences).astype(np.float64)
    differences = np.where(weights > 0, differences, 0.0)
    system = ElectrodeSystem(
        values=differences, weights=weights, tests=tests, currents=found.currents,
        patterns=tests.patterns[found.readings],
    )  # fmt: skip
    return system, differences


def _gradients(mesh: Triangulation) -> sparse.csr_array:
    """Rows x and y of every triangle."""
    rows = mesh.slopes.transpose(0, 2, 1).reshape(-1, 3)
    columns = np.repeat(mesh.triangles, 2, axis=0)
    return sparse.csr_array(
        (rows.ravel(), columns.ravel(), np.arange(0, rows.size + 1, 3)), shape=(len(rows), len(mesh.vertices))
    )


def _contacts(mesh: Triangulation, tests: ElectrodeTests) -> tuple[sparse.csr_array, Float[np.ndarray, " row"]]:
    """u - U at two points of every side on an electrode, and their conductances."""
    count, rows, sizes = len(mesh.vertices), [], []
    for number, name in enumerate(tests.electrodes):
        condition = tests.specimen.conditions[name]
        assert isinstance(condition, Terminal)
        edges = mesh.edges[np.array([part == name for part in mesh.parts])]
        lengths = np.linalg.norm(np.diff(mesh.vertices[edges], axis=1)[:, 0], axis=1)
        for share in ALONG:
            for (first, second), length in zip(edges.tolist(), lengths, strict=True):
                rows.append({first: 1 - share, second: share, count + number: -1.0})
                sizes.append(length / 2 / condition.impedance)
    entries = [(row, column, value) for row, each in enumerate(rows) for column, value in each.items()]
    row, column, value = (np.array(each) for each in zip(*entries, strict=True))
    shape = (len(rows), count + len(tests.electrodes))
    return sparse.csr_array((value, (row, column)), shape=shape), np.array(sizes)
