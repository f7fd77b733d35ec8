"""Quadratic triangles for plane solids: strains at points, displacements at points, supports and forces.

    A = Bᵀ diag(c) B,   c = weight · E · factor(ν), three rows of B per point: (εx + εy, εx - εy, γ) / √2

In these three strains the stiffness of an isotropic solid is diagonal, so that B knows neither E nor ν. Every triangle
has twelve points, so that E may vary below the mesh.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
import shapely
from jaxtyping import Float, Int
from scipy.linalg import qr
from scipy.sparse.linalg import SuperLU, splu

from nipde.discretisation.links import factorised, minimum_degree
from nipde.discretisation.parts import ClampedPart, GripPart, NeumannPart, RollerPart, Specimen
from nipde.discretisation.solid_load import SolidLoad, Vector, VectorFunction, vectors_at
from nipde.errors import PhysicsError
from nipde.physics.triangles import Triangulation

#: Of a triangle: a rule of three points, exact for squares, in each of its four parts.
_CORNERS = np.eye(3)
_MIDDLES = (_CORNERS + np.roll(_CORNERS, -1, axis=0)) / 2
_PARTS = [np.stack(part) for part in (
    (_CORNERS[0], _MIDDLES[0], _MIDDLES[2]), (_CORNERS[1], _MIDDLES[1], _MIDDLES[0]),
    (_CORNERS[2], _MIDDLES[2], _MIDDLES[1]), tuple(_MIDDLES),
)]  # fmt: skip
RULE = np.concatenate([(np.eye(3) / 2 + 1 / 6) @ part for part in _PARTS])
#: Points and weights of a side.
ALONG, SHARES = np.polynomial.legendre.leggauss(3)
#: Singular values below this are 0.
ZERO = 1e-8
#: Of forces that are in balance, the share that is left.
BALANCED = 1e-6


@dataclass(frozen=True, eq=False)
class PlaneElements:
    """A specimen's triangles with nodes at corners and in the middle of sides; unknowns are x and y of every node."""

    mesh: Triangulation
    specimen: Specimen

    @cached_property
    def _lines(self) -> tuple[Int[np.ndarray, "line 2"], Int[np.ndarray, "triangle 3"]]:
        sides = np.sort(self.mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        lines, number = np.unique(sides, axis=0, return_inverse=True)
        return lines, number.reshape(-1, 3)

    @cached_property
    def nodes(self) -> Float[np.ndarray, "node 2"]:
        """Corners, then the middles of sides."""
        return np.concatenate([self.mesh.vertices, self.mesh.vertices[self._lines[0]].mean(axis=1)])

    @cached_property
    def elements(self) -> Int[np.ndarray, "triangle 6"]:
        """Nodes of every triangle."""
        return np.concatenate([self.mesh.triangles, len(self.mesh.vertices) + self._lines[1]], axis=1)

    @cached_property
    def points(self) -> Float[np.ndarray, "point 2"]:
        """Where strains and the material are taken, triangle by triangle."""
        return (RULE @ self.mesh.vertices[self.mesh.triangles]).reshape(-1, 2)

    @cached_property
    def weights(self) -> Float[np.ndarray, " point"]:
        """Areas of the points."""
        return np.repeat(self.mesh.areas / len(RULE), len(RULE))

    @cached_property
    def strain(self) -> sparse.csr_array:
        """B from all displacements."""
        gradients = np.einsum("qnc,tca->tqna", _slopes_by_shares(RULE), self.mesh.slopes)
        x, y = gradients[..., 0], gradients[..., 1]
        rows = np.stack([np.stack([x, y], -1), np.stack([x, -y], -1), np.stack([y, x], -1)], axis=2) / np.sqrt(2)
        count = rows.shape[0] * rows.shape[1] * 3
        columns = (2 * self.elements[:, None, None, :, None] + np.arange(2)).astype(np.int32)
        columns = np.broadcast_to(columns, rows.shape)
        return sparse.csr_array(
            (rows.ravel(), columns.ravel(), np.arange(0, 12 * count + 1, 12)), shape=(count, 2 * len(self.nodes))
        )

    def stiffness(self, conductances: Float[np.ndarray, " row"]) -> sparse.csc_array:
        """Bᵀ diag(c) B, triangle by triangle."""
        rows = self.strain.data.reshape(len(self.elements), -1, 12)
        each = (rows * conductances.reshape(len(rows), -1, 1)).swapaxes(1, 2) @ rows
        places = self.strain.indices.reshape(rows.shape)[:, 0]
        first, second = np.repeat(places, 12, axis=1).ravel(), np.tile(places, (1, 12)).ravel()
        return sparse.csc_array(sparse.coo_array((each.ravel(), (first, second)), shape=(2 * len(self.nodes),) * 2))

    @cached_property
    def supported(self) -> "Supported":
        """What the conditions on the outline leave free."""
        return Supported.of(self)

    def at(self, points: Float[np.ndarray, "point 2"]) -> sparse.csr_array:
        """From displacements of the nodes to those at points: x of all points, then y of all."""
        tree = shapely.STRtree(shapely.polygons(self.mesh.vertices[self.mesh.triangles]))
        found = tree.nearest(shapely.points(points))
        corners, slopes = self.mesh.vertices[self.mesh.triangles[found]], self.mesh.slopes[found]
        shares = 1 / 3 + np.einsum("pka,pa->pk", slopes, points - corners.mean(axis=1))
        values = _values(shares)
        rows, columns = np.repeat(np.arange(len(points)), 6), self.elements[found].ravel()
        shape = (len(points), len(self.nodes))
        scalar = sparse.coo_array((values.ravel(), (rows, columns)), shape=shape)
        both = [
            sparse.coo_array((scalar.data, (scalar.row, 2 * scalar.col + k)), shape=(shape[0], 2 * shape[1]))
            for k in (0, 1)
        ]
        return sparse.csr_array(sparse.vstack(both))

    def nodes_of(self, part: str) -> Int[np.ndarray, " node"]:
        """On a part of the outline."""
        return np.unique(self._sides(part))

    def forces(self, load: SolidLoad) -> Float[np.ndarray, " unknown"]:
        """At the nodes, of tractions and body forces."""
        total = np.zeros((len(self.nodes), 2))
        for part, traction in load.tractions.items():
            self._add_traction(total, part, traction)
        if load.body is not None:
            densities = vectors_at(load.body, self.points) * self.weights[:, None]
            each = np.einsum("qn,tqa->tna", _values(RULE), densities.reshape(-1, len(RULE), 2))
            np.add.at(total, self.elements, each)
        return total.ravel()

    def lengths(self, part: str) -> float:
        """Of a part of the outline."""
        sides = self._sides(part)
        return float(np.linalg.norm(self.nodes[sides[:, 1]] - self.nodes[sides[:, 0]], axis=1).sum())

    def _add_traction(self, total: Float[np.ndarray, "node 2"], part: str, traction: Vector | VectorFunction) -> None:
        sides = self._sides(part)
        start, end = self.nodes[sides[:, 0]], self.nodes[sides[:, 1]]
        length = np.linalg.norm(end - start, axis=1)
        for at, share in zip(ALONG, SHARES, strict=True):
            values = vectors_at(traction, (start * (1 - at) + end * (1 + at)) / 2) * (length * share / 2)[:, None]
            for column, shape in enumerate((at * (at - 1) / 2, at * (at + 1) / 2, 1 - at**2)):
                np.add.at(total, sides[:, column], shape * values)

    def _sides(self, part: str) -> Int[np.ndarray, "side 3"]:
        """Both ends and the middle of the sides on a part."""
        mine = self.mesh.edges[np.array([one == part for one in self.mesh.parts])]
        if not len(mine):
            raise PhysicsError(
                expected=f"a part among {', '.join(sorted(set(self.mesh.parts)))}", got=repr(part),
                remedy="name a part of the outline",
            )  # fmt: skip
        place = {tuple(line): number for number, line in enumerate(self._lines[0].tolist())}
        middles = [len(self.mesh.vertices) + place[tuple(sorted(edge))] for edge in mine.tolist()]
        return np.column_stack([mine, middles])


@dataclass(frozen=True, eq=False)
class Supported:
    """u = T q + given: what supports leave of the displacements."""

    elements: PlaneElements
    #: T.
    free: sparse.csr_array
    #: Numbers in q of a grip's displacements.
    grips: Mapping[str, tuple[int, int]]
    #: Rigid motions that no support stops, as displacements; as many unknowns are left out instead.
    loose: Float[np.ndarray, "displacement motion"]

    @classmethod
    def of(cls, elements: PlaneElements) -> "Supported":
        """By the conditions of the specimen; where parts meet, clamped counts more than a grip, that than a roller."""
        nodes, conditions = elements.nodes, elements.specimen.conditions
        for part, condition in conditions.items():
            if not isinstance(condition, ClampedPart | RollerPart | GripPart | NeumannPart):
                raise PhysicsError(
                    expected="clamped parts, rollers, grips and free parts of a solid",
                    got=f"{part!r}, {condition.name}", remedy="say how the part is held",
                )  # fmt: skip
        kind = np.full((len(nodes), 2), -1)  # -1: free; 0: given; n: of the n-th grip
        for part, condition in conditions.items():
            if isinstance(condition, RollerPart):
                kind[elements.nodes_of(part), "xy".index(condition.direction)] = 0
        held = [(part, condition) for part, condition in conditions.items() if isinstance(condition, GripPart)]
        for number, (part, _) in enumerate(held, start=1):
            kind[elements.nodes_of(part)] = number
        for part, condition in conditions.items():
            if isinstance(condition, ClampedPart):
                kind[elements.nodes_of(part)] = 0
        flat = kind.ravel()
        alone = np.flatnonzero(flat < 0)
        blocks = [sparse.csr_array((np.ones(len(alone)), (alone, np.arange(len(alone)))), (len(flat), len(alone)))]
        grips, count = {}, len(alone)
        for number, (part, condition) in enumerate(held, start=1):
            mine = np.flatnonzero(kind[:, 0] == number)
            centre = nodes[elements.nodes_of(part)].mean(axis=0)
            motions = rigid_motions(nodes[mine] - centre)[:, :, : 3 if condition.rotates else 2]
            columns = np.zeros((len(nodes), 2, motions.shape[2]))
            columns[mine] = motions
            blocks.append(sparse.csr_array(columns.reshape(len(flat), -1)))
            grips[part] = (count, count + 1)
            count += motions.shape[2]
        free = sparse.csr_array(sparse.hstack(blocks))
        rigid = rigid_motions(nodes - nodes.mean(axis=0)).reshape(len(flat), 3)
        rigid = rigid / np.linalg.norm(rigid, axis=0)
        inner = splu(sparse.csc_array(free.T @ free)).solve(free.T @ rigid)
        _, values, directions = np.linalg.svd(rigid - free @ inner, full_matrices=False)
        modes = inner @ directions[values < ZERO].T
        if modes.shape[1]:
            left_out = qr(modes.T, pivoting=True, mode="r")[1][: modes.shape[1]]
            keep = np.ones(count)
            keep[left_out] = 0.0
            free = sparse.csr_array(free @ sparse.diags_array(keep))
        return cls(elements, free, grips, rigid @ directions[values < ZERO].T)

    @cached_property
    def kept(self) -> Int[np.ndarray, " unknown"]:
        """Unknowns that are not left out, in an order that keeps factors sparse; both of a node stay together."""
        kept = np.flatnonzero(np.asarray(abs(self.free).sum(axis=0)).ravel() > 0)
        free = abs(self.free[:, kept])
        _, node = np.unique(np.asarray(free.argmax(axis=0)).ravel() // 2, return_inverse=True)
        pattern = free @ sparse.csr_array((np.ones(len(kept)), (np.arange(len(kept)), node)))
        between = pattern.T @ abs(self.elements.stiffness(np.ones(self.elements.strain.shape[0]))) @ pattern
        place = np.argsort(minimum_degree(between + sparse.diags_array(between.sum(axis=1))))
        return kept[np.argsort(place[node], kind="stable")]

    @cached_property
    def reduced(self) -> sparse.csr_array:
        """T without the unknowns that are left out."""
        return sparse.csr_array(self.free[:, self.kept])

    def factor(self, conductances: Float[np.ndarray, " row"]) -> SuperLU:
        """Of Tᵀ Bᵀ diag(c) B T."""
        matrix = self.reduced.T @ self.elements.stiffness(conductances) @ self.reduced
        return factorised(matrix.tocsc(), symmetric=True)

    @cached_property
    def strain(self) -> sparse.csr_array:
        """B T."""
        return sparse.csr_array(self.elements.strain @ self.reduced)

    def forces(self, loads: Sequence[SolidLoad]) -> Float[np.ndarray, "unknown pair"]:
        """On q, of every load."""
        total = np.zeros((self.free.shape[1], len(loads)))
        known = {part: self.elements.specimen.condition(part) for part in self.elements.specimen.shape.parts}
        for pair, load in enumerate(loads):
            load.check(known)
            at_nodes = self.elements.forces(load)
            total[:, pair] = self.free.T @ at_nodes
            for part, force in load.forces.items():
                total[list(self.grips[part]), pair] += vectors_at(force, np.zeros((1, 2)))[0]
            if not self.balanced(load):
                raise PhysicsError(
                    expected="loads in balance along what no support holds",
                    got=f"{100 * self.imbalance(load):.2g} % of the forces would move the specimen",
                    remedy="clamp a part, or load the opposite one as well",
                )
        return total[self.kept]

    def given(self, loads: Sequence[SolidLoad]) -> Float[np.ndarray, "displacement pair"] | None:
        """Displacements of clamped parts and rollers; None if all are 0."""
        if not any(load.displacements for load in loads):
            return None
        nodes, values = self.elements.nodes, np.zeros((len(self.elements.nodes), 2, len(loads)))
        conditions = self.elements.specimen.conditions
        for pair, load in enumerate(loads):
            # Clamped parts last: where they meet a roller, they count more, moved or not.
            order = sorted(conditions, key=lambda part: isinstance(conditions[part], ClampedPart))
            for part in (part for part in order if isinstance(conditions[part], ClampedPart | RollerPart)):
                displacement = load.displacements.get(part, (0.0, 0.0))
                condition, mine = conditions[part], self.elements.nodes_of(part)
                moved = vectors_at(displacement, nodes[mine])
                for k in range(2):
                    if isinstance(condition, ClampedPart) or "xy"[k] == getattr(condition, "direction", ""):
                        values[mine, k, pair] = moved[:, k]
        fixed = np.asarray(abs(self.free).sum(axis=1)).ravel() == 0
        return np.asarray(values.reshape(-1, len(loads)) * fixed[:, None])

    def imbalance(self, load: SolidLoad) -> float:
        """What a load does along motions that no support stops, as a share of its forces."""
        if not self.loose.shape[1]:
            return 0.0
        at_nodes = self.elements.forces(load)
        work, size = self.loose.T @ at_nodes, np.abs(at_nodes).sum()
        for part, force in load.forces.items():
            mine = self.elements.nodes_of(part)
            moved = self.loose.reshape(-1, 2, self.loose.shape[1])[mine].mean(axis=0)  # of the middle of the grip
            work, size = work + np.asarray(force) @ moved, size + np.abs(force).sum()
        return float(np.abs(work).max() / max(size * np.abs(self.loose).max(), 1e-300))

    def balanced(self, load: SolidLoad) -> bool:
        """Whether what is not held would stay where it is."""
        return self.imbalance(load) < BALANCED


def rigid_motions(points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "point 2 3"]:
    """Displacements of points: along x, along y, turned about the origin."""
    motions = np.zeros((len(points), 2, 3))
    motions[:, 0, 0] = motions[:, 1, 1] = 1
    motions[:, 0, 2], motions[:, 1, 2] = -points[:, 1], points[:, 0]
    return motions


def stiffness_factors(poisson: float, *, plane: str) -> Float[np.ndarray, " strain"]:
    """Of E, in plane stress or plane strain, for the three strains."""
    if plane not in ("stress", "strain") or not -1 < poisson < 0.5:
        raise PhysicsError(
            expected="plane stress or strain, and -1 < Poisson's ratio < 0.5", got=f"plane {plane}, {poisson}",
            remedy="check them",
        )  # fmt: skip
    area = 1 / (1 - poisson) if plane == "stress" else 1 / ((1 + poisson) * (1 - 2 * poisson))
    return np.array([area, 1 / (1 + poisson), 1 / (1 + poisson)])


def _values(shares: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point 6"]:
    """Of the six shape functions, by barycentric coordinates."""
    return np.concatenate([shares * (2 * shares - 1), 4 * shares * np.roll(shares, -1, axis=1)], axis=1)


def _slopes_by_shares(shares: Float[np.ndarray, "point 3"]) -> Float[np.ndarray, "point 6 3"]:
    """Their derivatives by these."""
    slopes = np.zeros((len(shares), 6, 3))
    for k in range(3):
        after = (k + 1) % 3
        slopes[:, k, k] = 4 * shares[:, k] - 1
        slopes[:, 3 + k, k], slopes[:, 3 + k, after] = 4 * shares[:, after], 4 * shares[:, k]
    return slopes
