"""Electrical impedance tomography by output error: conductivity from voltages at electrodes, complete electrode model.

    A = Bᵀ diag(c) B: gradients in triangles with c = area · σ, and on electrodes u - U with c = length / impedance

What is fitted are differences to the reference: y = V - V₀ + F(background). A drift of all voltages, and a change of
every electrode's contact, are linearised and integrated out. Injections enter by their singular vectors: what these do
not span is noise.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log
from typing import ClassVar

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Float, Int
from scipy.sparse.linalg import SuperLU

from nipde.boundary import Neumann
from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.interpolation import multilinear
from nipde.discretisation.links import factorised
from nipde.discretisation.parts import Terminal
from nipde.estimators.inverse.material_models import Homogeneous, MaterialModel, Parameters
from nipde.estimators.inverse.nuisance import LinearErrors
from nipde.estimators.inverse.output_error import Linearised, Readings, Solver, Values
from nipde.estimators.inverse.plateaus import Plateaus, phase_of
from nipde.grid import Axis, Grid
from nipde.physics.triangles import Triangulation, triangulated

#: Singular values of the currents below this share of the largest are 0.
RANK = 1e-8
#: Newton steps for the conductivity of the background, at most.
BACKGROUND_STEPS = 30
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


@dataclass(frozen=True)
class ElectrodeInversion:
    """Voltages to phases of known contrast in a background; see `Plateaus` for the prior."""

    contrast: float = 5.0
    steepness: float = 2.5
    weight: float = 20.0
    #: Of the prior, as a share of half the width of the body.
    length: float = 0.3
    #: Errors in proportion to the difference to the reference, beside the noise.
    share: float = 0.05
    #: Deviations of a common factor of all voltages, and of an electrode's contact over 1 / σ of the background.
    drift: float = 0.04
    contact: float = 0.0078
    #: Nodes of the material and triangles along the width.
    material: int = 40
    triangles: int = 50
    steps: int = 12
    longest: float = 0.6

    def __call__(self, tests: ElectrodeTests) -> "ElectrodeLaw":
        """φ of least misfit and penalty."""
        low, high = np.array(tests.specimen.shape.region.bounds).reshape(2, 2)
        nodes = _box(low, high, self.material)
        mesh = triangulated(tests.specimen.shape, float((high - low).max()) / self.triangles)
        system, differences = _system(tests)
        solver = ElectrodeSolver(nodes, system, mesh, nodes=nodes)
        background, empty = self._background(solver, tests)
        half = float((high - low).max()) / 2
        model = Plateaus(
            nodes, background, self.contrast, self.steepness, self.weight, self.length * half
        )  # α ∫|∇φ|² has no unit in the plane
        variance = tests.noise**2 + (self.share * differences) ** 2
        system = replace(system, values=differences + empty, weights=system.weights / variance)
        parameters, near, system = self._fitted(model, solver, system)
        return ElectrodeLaw(tests, model, parameters, near, system)

    def _background(self, solver: ElectrodeSolver, tests: ElectrodeTests) -> tuple[float, Values]:
        """log σ of the body without inclusions, by the reference, and the voltages that it gives."""
        model, shown = Homogeneous(solver.nodes), _combined(tests).reduced(tests.reference)
        unit = solver.predicted(model, np.zeros(1))
        parameters = np.array([log(np.sqrt(np.sum(unit**2) / np.sum(shown**2)))])  # exact without contacts
        for _ in range(BACKGROUND_STEPS):
            near = solver.linearised(model, parameters)
            slope = near.jacobian[0]
            step = float(np.sum(slope * (shown - near.predicted)) / np.sum(slope**2))
            parameters = parameters + np.clip(step, -2.0, 2.0)
            if abs(step) < 1e-6:
                break
        return float(parameters[0]), solver.predicted(model, parameters)

    def _fitted(
        self, model: Plateaus, solver: ElectrodeSolver, system: ElectrodeSystem
    ) -> tuple[Parameters, Linearised, ElectrodeSystem]:
        """Gauss-Newton steps, none longer than `longest` anywhere; patterns of errors follow the state."""
        parameters = np.zeros(model.grid.size)
        contacts = np.einsum("rk,ik->kri", system.patterns, system.currents)
        contacts = contacts[np.abs(contacts).max(axis=(1, 2)) > 0]
        for _ in range(self.steps):
            near = solver.linearised(model, parameters)
            patterns = np.concatenate([contacts, near.predicted[None]])
            deviations = np.array([self.contact * exp(-model.background)] * len(contacts) + [self.drift])
            system = replace(system, nuisance=LinearErrors(patterns, deviations))
            step = self._step(model, near, system, parameters)
            before, best = _objective(model, parameters, near.predicted, system), parameters
            for halving in range(4):
                trial = parameters + 0.5**halving * step
                if _objective(model, trial, solver.predicted(model, trial), system) < before:
                    best = trial
                    break
            if best is parameters:
                break
            parameters = best
        return parameters, solver.linearised(model, parameters), system

    def _step(self, model: Plateaus, near: Linearised, system: ElectrodeSystem, parameters: Parameters) -> Parameters:
        precision, slope = model.quadratic(parameters)
        active = near.active
        total = near.curvature(system) + precision[active][:, active].toarray()
        gradient = near.gradient(system.weighted(system.values - near.predicted)) + slope
        step = np.zeros(len(parameters))
        step[active] = -dense.solve(total, gradient[active], assume_a="pos")
        return np.clip(step, -self.longest, self.longest)


@dataclass(frozen=True, eq=False)
class ElectrodeLaw:
    """What was found of a body."""

    tests: ElectrodeTests
    model: Plateaus
    parameters: Parameters
    near: Linearised
    system: ElectrodeSystem

    def field_at(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, " point"]:
        """φ."""
        return np.asarray(self._at(points) @ self.parameters)

    def phase_at(self, points: Float[np.ndarray, "point 2"], *, threshold: float = 0.67) -> Int[np.ndarray, " point"]:
        """-1: less conductive than the background, 1: more, 0: the background."""
        return phase_of(self.field_at(points), threshold)

    def deviation_at(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, " point"]:
        """Standard deviation of φ, to first order, interpolated from the nodes."""
        return np.asarray(self._at(points) @ self._deviation)

    @cached_property
    def _deviation(self) -> Float[np.ndarray, " node"]:
        """Of φ at the nodes; nodes that no triangle touches have that of the prior at most."""
        active = self.near.active
        precision = self.model.quadratic(self.parameters)[0][active][:, active].toarray()
        root = dense.cholesky(self.near.curvature(self.system) + precision, lower=True)
        inverse = dense.lapack.dtrtri(root, lower=1)[0]
        found = np.full(self.model.grid.size, float(np.sqrt(np.sum(inverse**2, axis=0)).max()))
        found[active] = np.sqrt(np.sum(inverse**2, axis=0))
        return found

    def _at(self, points: Float[np.ndarray, "point 2"]) -> sparse.csr_array:
        low = np.array(self.tests.specimen.shape.region.bounds[:2])
        ends = [axis.length for axis in self.model.grid.axes]
        return multilinear(self.model.grid, np.clip(np.asarray(points) - low, 0, ends))

    @property
    def chi_square(self) -> float:
        """rᵀ P r over the number of readings."""
        residual = self.system.values - self.near.predicted
        return float(np.sum(residual * self.system.weighted(residual))) / self.system.count


@dataclass(frozen=True, eq=False)
class _Combined:
    """Injections and readings that are there, injections by singular vectors of their currents."""

    injections: Int[np.ndarray, " injection"]
    readings: Int[np.ndarray, " reading"]
    currents: Float[np.ndarray, "combined electrode"]
    mixing: Float[np.ndarray, "injection combined"]

    def reduced(self, voltages: Float[np.ndarray, "injection reading"]) -> Values:
        """Readings × combined injections."""
        return np.asarray(voltages[np.ix_(self.injections, self.readings)].T @ self.mixing)


def _combined(tests: ElectrodeTests) -> _Combined:
    measured = tests.measured
    injections, readings = np.flatnonzero(measured.any(axis=1)), np.flatnonzero(measured.any(axis=0))
    while not (inside := measured[np.ix_(injections, readings)]).all():  # leave out what has most gaps
        by_injection, by_reading = (~inside).mean(axis=1), (~inside).mean(axis=0)
        if by_injection.max() >= by_reading.max():
            injections = np.delete(injections, by_injection.argmax())
        else:
            readings = np.delete(readings, by_reading.argmax())
    left, sizes, right = np.linalg.svd(tests.currents[injections].T, full_matrices=False)
    rank = int(np.sum(sizes > RANK * sizes[0]))
    return _Combined(injections, readings, (left[:, :rank] * sizes[:rank]).T, right[:rank].T)


def _system(tests: ElectrodeTests) -> tuple[ElectrodeSystem, Values]:
    combined = _combined(tests)
    differences = combined.reduced(tests.voltages - tests.reference)
    system = ElectrodeSystem(
        values=differences, weights=np.ones(differences.shape), tests=tests, currents=combined.currents,
        patterns=tests.patterns[combined.readings],
    )  # fmt: skip
    return system, differences


def _objective(model: Plateaus, parameters: Parameters, predicted: Values, system: ElectrodeSystem) -> float:
    residual = system.values - predicted
    return float(np.sum(residual * system.weighted(residual))) / 2 + model.penalty(parameters)


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


def _box(low: np.ndarray, high: np.ndarray, count: int) -> Grid:

    lengths, longest = (high - low).tolist(), float((high - low).max())
    return Grid(tuple(Axis(round(count * length / longest) + 1, length, Neumann()) for length in lengths))
