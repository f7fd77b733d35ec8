"""-∇·(b ∇u) = f on a specimen of any shape by linear triangles: b is constant in every one.

Another discretisation than the cut cells that estimators solve with, for reference data: its mesh follows the outline.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sparse
import shapely
from jaxtyping import Bool, Float, Int
from scipy.sparse.linalg import SuperLU
from scipy.spatial import Delaunay, cKDTree

from nipde.discretisation.links import factorised
from nipde.discretisation.load_case import Function, LoadCase, at_points
from nipde.discretisation.parts import DirichletPart, RobinPart, Specimen, Terminal
from nipde.discretisation.singular_points import REGULAR, singular_points
from nipde.errors import PhysicsError
from nipde.physics.balance import check_positive
from nipde.shape import Shape

#: Vertices inside keep this distance from the outline, in spacings.
AWAY = 0.55
#: Triangles by their centres among which is the one that holds a point.
NEAREST = 12
#: Vertices of the lattice this far from the outline have its triangles around them; those farther away than the second
#: touch no others. In spacings.
DEEP, BAND = 1.3, 5.0
#: Triangles are halved this often towards singular points, from this share of the specimen's size on.
TIMES, REACH = 6, 0.05
#: Corners with another one within so many times this reach stay as they are.
APART = 3.0
#: Sides of the outline that meet at a larger angle have a corner between them, which the mesh keeps.
CORNER = np.deg2rad(12)
Points = Float[np.ndarray, "point axis"]


@dataclass(frozen=True, eq=False)
class Triangulation:
    """Vertices, corners of the triangles, and the edges on the outline with the part that each belongs to."""

    vertices: Points
    triangles: Int[np.ndarray, "triangle 3"]
    edges: Int[np.ndarray, "edge 2"]
    parts: tuple[str, ...]

    @cached_property
    def centres(self) -> Points:
        """Of the triangles."""
        return self.vertices[self.triangles].mean(axis=1)

    @cached_property
    def areas(self) -> Float[np.ndarray, " triangle"]:
        """Of the triangles."""
        (ax, ay), (bx, by) = (self.vertices[self.triangles[:, k]].T - self.vertices[self.triangles[:, 0]].T
                              for k in (1, 2))  # fmt: skip
        return np.abs(ax * by - ay * bx) / 2

    @cached_property
    def slopes(self) -> Float[np.ndarray, "triangle 3 axis"]:
        """∇N of every corner."""
        corners = self.vertices[self.triangles]
        opposite = np.roll(corners, -2, axis=1) - np.roll(corners, -1, axis=1)
        normals = np.stack([-opposite[..., 1], opposite[..., 0]], axis=-1)
        heights = np.sum(normals * (corners - np.roll(corners, -1, axis=1)), axis=-1)
        return np.asarray(normals / heights[..., None])

    def refined(self) -> "Triangulation":
        """Every triangle in four, which follow one another."""
        return self.divided(np.ones(len(self.triangles), dtype=bool))[0]

    def refined_near(
        self, places: Float[np.ndarray, "place axis"], *, radius: float, times: int, margin: float = 6.0
    ) -> tuple["Triangulation", Int[np.ndarray, " triangle"]]:
        """Smaller towards some places: in four within the radius, again within half of it, and so on.

        And the triangle of this mesh that each lies in. Neighbours of neighbours may be divided, too: within twice the
        radius and so many sides more.
        """
        if not len(places):
            return self, np.arange(len(self.triangles))
        tree, count = cKDTree(places), len(self.vertices)
        around = tree.query(self.centres)[0] < 2 * radius + margin * float(self.areas.max()) ** 0.5
        touched = np.zeros(count, dtype=bool)
        touched[self.triangles[around]] = True
        own = touched[self.edges].all(axis=1)
        part = Triangulation(self.vertices, self.triangles[around], self.edges[own], _some(self.parts, own))
        within, (ends, number) = np.flatnonzero(around), part.sides
        border = ends[np.bincount(number.ravel()) == 1]
        for time in range(times):
            part, parent = part.divided(tree.query(part.centres)[0] < radius / 2**time)
            within = within[parent]
        border = border[~_among(border, part.edges) & ~_among(border, self.edges)]
        if not _among(border, part.sides[0]).all():  # a triangle of the rest would have a vertex within a side
            return self.refined_near(places, radius=radius, times=times, margin=np.inf)
        within = np.concatenate([np.flatnonzero(~around), within])
        order = np.argsort(within, kind="stable")
        triangles = np.concatenate([self.triangles[~around], part.triangles])
        edges = np.concatenate([self.edges[~own], part.edges])
        return Triangulation(part.vertices, triangles[order], edges, (*_some(self.parts, ~own), *part.parts)), within[
            order
        ]

    def divided(self, chosen: Bool[np.ndarray, " triangle"]) -> tuple["Triangulation", Int[np.ndarray, " triangle"]]:
        """The chosen triangles in four, their neighbours in two or four; and the triangle that each lies in."""
        count, (ends, number) = len(self.vertices), self.sides
        cut = np.zeros(len(ends), dtype=bool)
        while np.any(chosen & ~cut[number].all(axis=1)):
            cut[number[chosen]] = True
            chosen = chosen | (cut[number].sum(axis=1) >= 2)
        vertices = np.concatenate([self.vertices, self.vertices[ends[cut]].mean(axis=1)])
        new = np.where(cut, count + np.cumsum(cut) - 1, -1)
        (a, b, c), (d, e, f) = self.triangles[chosen].T, new[number[chosen]].T
        quarters = np.stack([np.stack(each, axis=-1) for each in ((a, d, f), (d, b, e), (f, e, c), (d, e, f))], axis=1)
        halved = np.flatnonzero(~chosen & cut[number].any(axis=1))
        first = cut[number[halved]].argmax(axis=1)  # of the corners of the side that is cut
        a, b, c = (self.triangles[halved, (first + k) % 3] for k in range(3))
        middle = new[number[halved, first]]
        halves = np.stack([np.stack(each, axis=-1) for each in ((a, middle, c), (middle, b, c))], axis=1)
        whole = np.flatnonzero(~cut[number].any(axis=1))
        triangles = np.concatenate([self.triangles[whole], halves.reshape(-1, 3), quarters.reshape(-1, 3)])
        parent = np.concatenate([whole, np.repeat(halved, 2), np.repeat(np.flatnonzero(chosen), 4)])
        order = np.argsort(parent, kind="stable")
        keys, wanted = ends @ (count, 1), np.sort(self.edges, axis=1) @ (count, 1)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        at = np.where(keys[place] == wanted, new[place], -1)
        edges = np.stack([self.edges[:, 0], at, at, self.edges[:, 1]], axis=-1).reshape(-1, 2, 2)
        edges = np.where((at < 0)[:, None, None], self.edges[:, None], edges)
        kept = np.stack([np.ones_like(at), at >= 0], axis=-1).astype(bool)  # an edge that is not cut once
        parts = tuple(np.repeat(self.parts, kept.sum(axis=1)).tolist())
        return Triangulation(vertices, triangles[order], edges[kept], parts), parent[order]

    @cached_property
    def sides(self) -> tuple[Int[np.ndarray, "side 2"], Int[np.ndarray, "triangle 3"]]:
        """Ends of all sides, in order, and the numbers of those from each corner of a triangle to the next."""
        count = len(self.vertices)
        each = np.sort(self.triangles[:, [[0, 1], [1, 2], [2, 0]]], axis=-1) @ (count, 1)
        lines, number = np.unique(each, return_inverse=True)
        return np.stack([lines // count, lines % count], axis=-1), number.reshape(-1, 3)

    def moments(
        self, function: Callable[[Points], Float[np.ndarray, "point pair"]]
    ) -> Float[np.ndarray, "vertex pair"]:
        """∫ N f of functions given at any points; exact where they are quadratic in every triangle.

        Of their values at the vertices alone, waves would be weaker by the square of wave number times spacing over 12.
        """
        ends, number = self.sides
        at_corner = np.full((3, 3), -1 / 60) + np.eye(3) / 20
        at_side = np.full((3, 3), 2 / 15) - np.roll(np.eye(3), 1, axis=1) / 15  # that of corner 0 is from 1 to 2
        rows = np.repeat(self.triangles, 6, axis=1).ravel()
        columns = np.tile(np.hstack([self.triangles, len(self.vertices) + number]), (1, 3)).ravel()
        entries = (self.areas[:, None, None] * np.hstack([at_corner, at_side])).ravel()
        count = len(self.vertices)
        matrix = sparse.csr_array((entries, (rows, columns)), shape=(count, count + len(ends)))
        middles = self.vertices[ends].mean(axis=1)
        return np.asarray(matrix @ function(np.concatenate([self.vertices, middles])))

    @cached_property
    def mass(self) -> sparse.csr_array:
        """∫ N N."""
        return self._assembled(self.areas[:, None, None] / 12 * (1 + np.eye(3)))

    def stiffness(self, coefficient: Float[np.ndarray, " triangle"]) -> sparse.csr_array:
        """∫ b ∇N ∇N."""
        return self._assembled((self.areas * coefficient)[:, None, None] * (self.slopes @ self.slopes.swapaxes(1, 2)))

    def at(self, points: Points) -> sparse.csr_array:
        """Rows of N at points inside; of those between an arc and its chord by the nearest triangle."""
        near = cKDTree(self.centres).query(points, k=min(NEAREST, len(self.centres)))[1].reshape(len(points), -1)
        shares = 1 / 3 + np.einsum("pnka,pna->pnk", self.slopes[near], points[:, None] - self.centres[near])
        best = (np.arange(len(points)), shares.min(axis=-1).argmax(axis=-1))
        found, shares = near[best], shares[best]
        rows = np.repeat(np.arange(len(points)), 3)
        return sparse.csr_array(
            (shares.ravel(), (rows, self.triangles[found].ravel())), shape=(len(points), len(self.vertices))
        )

    def _assembled(self, entries: Float[np.ndarray, "triangle 3 3"]) -> sparse.csr_array:
        rows, columns = np.repeat(self.triangles, 3, axis=1).ravel(), np.tile(self.triangles, (1, 3)).ravel()
        return sparse.csr_array((entries.ravel(), (rows, columns)), shape=(len(self.vertices),) * 2)


@dataclass(frozen=True, eq=False)
class TriangleConduction:
    """One specimen; b > 0 in every triangle."""

    mesh: Triangulation
    coefficient: Float[np.ndarray, " triangle"]
    specimen: Specimen

    def __post_init__(self) -> None:
        check_positive(self.coefficient, "coefficient")
        if any(isinstance(one, Terminal) for one in self.specimen.conditions.values()):
            raise PhysicsError(expected="parts without terminals", got="a terminal", remedy="use conduction instead")

    def solve(
        self, moments: Float[np.ndarray, "vertex pair"], cases: Sequence[LoadCase] = ()
    ) -> Float[np.ndarray, "vertex pair"]:
        """Responses to ∫ N f of loads inside, and to loads on the outline, one case per pair."""
        return self.solve_and_check(moments, cases)[0]

    def solve_and_check(
        self, moments: Float[np.ndarray, "vertex pair"], cases: Sequence[LoadCase] = ()
    ) -> tuple[Float[np.ndarray, "vertex pair"], Float[np.ndarray, " pair"]]:
        """The same, and relative residuals."""
        known = {name: self.specimen.condition(name) for name in self.specimen.shape.parts}
        right, values = np.array(moments, dtype=np.float64), np.zeros(np.shape(moments))
        for pair, case in enumerate(cases):
            case.check(known)
            for part, flux in case.fluxes.items():
                right[:, pair] += self._edge_moments(part, flux)
            for part, value in case.values.items():
                condition = known[part]
                if isinstance(condition, RobinPart):
                    right[:, pair] += condition.coefficient * self._edge_moments(part, value)
                else:
                    held = np.unique(self._edges(part))
                    values[held, pair] = at_points(value, self.mesh.vertices[held])
        right -= self.matrix @ values
        right = right[self.free]
        values[self.free] = solution = self._factor.solve(right)
        residual = np.linalg.norm(self._free_matrix @ solution - right, axis=0)
        return values, residual / np.maximum(np.linalg.norm(right, axis=0), 1e-300)

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """Of all vertices, with the contacts of Robin parts."""
        total, count = self.mesh.stiffness(self.coefficient), len(self.mesh.vertices)
        for part, condition in self.specimen.conditions.items():
            if isinstance(condition, RobinPart):
                edges = self._edges(part)
                each = condition.coefficient * self._lengths(edges)[:, None, None] / 6 * (1 + np.eye(2))
                places = (np.repeat(edges, 2, axis=1).ravel(), np.tile(edges, (1, 2)).ravel())
                total = total + sparse.csr_array((each.ravel(), places), shape=(count, count))
        return sparse.csr_array(total)

    @cached_property
    def free(self) -> Int[np.ndarray, " vertex"]:
        """Vertices whose value is not given."""
        fixed = [part for part, one in self.specimen.conditions.items() if isinstance(one, DirichletPart)]
        held = np.unique(np.concatenate([self._edges(part).ravel() for part in fixed] or [np.zeros(0, int)]))
        return np.setdiff1d(np.arange(len(self.mesh.vertices)), held)

    @cached_property
    def _factor(self) -> SuperLU:
        return factorised(self._free_matrix, symmetric=True, ordered=False)

    @cached_property
    def _free_matrix(self) -> sparse.csc_array:
        return self.matrix[self.free][:, self.free].tocsc()

    def _edges(self, part: str) -> Int[np.ndarray, "edge 2"]:
        return self.mesh.edges[np.array([one == part for one in self.mesh.parts])]

    def _lengths(self, edges: Int[np.ndarray, "edge 2"]) -> Float[np.ndarray, " edge"]:
        return np.linalg.norm(np.diff(self.mesh.vertices[edges], axis=1)[:, 0], axis=1)

    def _edge_moments(self, part: str, flux: float | Function) -> Float[np.ndarray, " vertex"]:
        """∫ N q along a part, q at two points of every edge."""
        edges, moments = self._edges(part), np.zeros(len(self.mesh.vertices))
        ends, lengths = self.mesh.vertices[edges], self._lengths(edges)
        for share in (0.5 - 0.5 / np.sqrt(3), 0.5 + 0.5 / np.sqrt(3)):
            q = at_points(flux, (1 - share) * ends[:, 0] + share * ends[:, 1])
            np.add.at(moments, edges[:, 0], lengths / 2 * (1 - share) * q)
            np.add.at(moments, edges[:, 1], lengths / 2 * share * q)
        return moments


def triangulated(shape: Shape, spacing: float) -> Triangulation:
    """Triangles of about this size that follow the outline; parts begin and end at vertices."""
    rings, names = zip(
        *(_resampled(ring, sides, spacing) for ring, sides in zip(shape.rings, shape.sides, strict=True)), strict=True
    )
    region, outline = shapely.Polygon(rings[0], rings[1:]), np.concatenate(rings)
    low, high = np.array(shape.region.bounds).reshape(2, 2)
    x, y = np.arange(low[0], high[0], spacing), np.arange(low[1], high[1], spacing * np.sqrt(0.75))
    shifted = x + spacing / 2 * (np.arange(len(y)) % 2)[:, None]
    lattice = np.stack([shifted, np.broadcast_to(y[:, None], shifted.shape)], axis=-1).reshape(-1, 2)
    distance = cKDTree(outline).query(lattice, distance_upper_bound=BAND * spacing)[0] / spacing
    # Sides are shorter than 1.5 spacings: what is near one is within a spacing of a vertex.
    near: Bool[np.ndarray, " point"] = np.asarray(distance < 1)
    near[near] = shapely.dwithin(region.boundary, shapely.points(lattice[near]), AWAY * spacing)
    kept = shapely.contains_xy(region, *lattice.T) & ~near
    vertices = np.concatenate([outline, lattice[kept]])
    number = np.where(kept, len(outline) + np.cumsum(kept) - 1, -1)
    deep = kept & (distance > DEEP)
    # Those of the lattice are known: Qhull has to find the others only.
    inner = np.where(deep, number, -1).reshape(shifted.shape)
    banded = np.concatenate([np.arange(len(outline)), number[kept & np.isfinite(distance)]])
    simplices = banded[Delaunay(vertices[banded]).simplices]
    is_deep = np.zeros(len(vertices), dtype=bool)
    is_deep[number[deep]] = True
    triangles = np.concatenate([simplices[~is_deep[simplices].all(axis=1)], _lattice_triangles(inner)])
    triangles = triangles[shapely.contains_xy(region, *vertices[triangles].mean(axis=1).T)]
    a, b = (vertices[triangles[:, k]] - vertices[triangles[:, 0]] for k in (1, 2))
    flat = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) < 1e-6 * spacing**2  # along a straight side, by rounding
    triangles = triangles[~flat]
    starts = np.cumsum([0, *(len(ring) for ring in rings)])
    edges = np.concatenate([
        np.stack([np.arange(a, b), np.roll(np.arange(a, b), -1)], axis=-1)
        for a, b in pairwise(starts.tolist())
    ])  # fmt: skip
    mesh = Triangulation(vertices, triangles, edges, tuple(name for each in names for name in each))
    sides = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1) @ (len(vertices), 1)
    whole = np.isin(np.sort(edges, axis=1) @ (len(vertices), 1), sides).all()
    if not whole or abs(mesh.areas.sum() - region.area) > 1e-6 * region.area:
        raise PhysicsError(
            expected="triangles that fill the outline", got=f"{mesh.areas.sum() / region.area:.6f} of its area",
            remedy="use a smaller spacing: parts of the outline are closer to each other",
        )  # fmt: skip
    return mesh


def smaller_at_singular_points(
    mesh: Triangulation, specimen: Specimen
) -> tuple[Triangulation, Int[np.ndarray, " triangle"]]:
    """With smaller triangles at ends of parts that are held and corners that point inwards; the one that each lies in.

    There responses grow by a power below 1 of the distance, and triangles of one size err by the first power of it.
    Corners close to each other, as of a mask, stay as they are.
    """
    radius = REACH * specimen.shape.region.area**0.5
    held = [part for part, one in specimen.conditions.items() if one.holds]
    points = [one for one in singular_points(specimen.shape, held) if one.exponent < REGULAR]
    places = np.array([(one.place.real, one.place.imag) for one in points]).reshape(-1, 2)
    apart = np.linalg.norm(places[:, None] - places, axis=-1) + np.diag(np.full(len(places), np.inf))
    chosen = (apart > APART * radius).all(axis=1) | np.array([one.is_end for one in points], dtype=bool)
    return mesh.refined_near(places[chosen], radius=radius, times=TIMES)


def _some(parts: tuple[str, ...], chosen: Bool[np.ndarray, " edge"]) -> tuple[str, ...]:
    return tuple(part for part, mine in zip(parts, chosen.tolist(), strict=True) if mine)


def _among(sides: Int[np.ndarray, "side 2"], others: Int[np.ndarray, "other 2"]) -> Bool[np.ndarray, " side"]:
    count = 1 + max(int(sides.max(initial=0)), int(others.max(initial=0)))
    return np.isin(np.sort(sides, axis=1) @ (count, 1), np.sort(others, axis=1) @ (count, 1))


def _lattice_triangles(numbers: Int[np.ndarray, "row column"]) -> Int[np.ndarray, "triangle 3"]:
    """Of a lattice whose odd rows are shifted by half a spacing; -1 is no vertex."""
    triangles = []
    for parity in (0, 1):
        low, high = numbers[parity:-1:2], numbers[parity + 1 :: 2]
        (a, b), (c, d) = ((row[:, :-1], row[:, 1:]) for row in (low, high))
        each = ((a, b, c), (c, d, b)) if parity == 0 else ((a, b, d), (c, d, a))
        triangles += [np.stack(corners, axis=-1).reshape(-1, 3) for corners in each]
    every = np.concatenate(triangles)
    return every[(every >= 0).all(axis=1)]


def _resampled(ring: Points, sides: tuple[str, ...], spacing: float) -> tuple[Points, list[str]]:
    """Vertices about a spacing apart on a ring, corners and ends of parts among them; the part of every side."""
    before, after = ring - np.roll(ring, 1, 0), np.roll(ring, -1, 0) - ring
    turn = np.abs(np.angle((after[:, 0] + 1j * after[:, 1]) / (before[:, 0] + 1j * before[:, 1])))
    change = np.array([sides[k] != sides[k - 1] for k in range(len(sides))])
    long = np.linalg.norm(after, axis=1) > spacing / 2
    kept = np.flatnonzero((turn > CORNER) | change | ((turn > 1e-6) & long & np.roll(long, 1)))
    kept = kept if len(kept) else np.array([0])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(after, axis=1))])
    closed = np.vstack([ring, ring[:1]])
    points, names = [], []
    for start, end in zip(kept, [*kept[1:], kept[0] + len(ring)], strict=True):
        first, last = along[start], along[end % len(ring)] + (along[-1] if end >= len(ring) else 0.0)
        count = max(1, round((last - first) / spacing))
        at = (first + (last - first) * np.arange(count) / count) % along[-1]
        points.append(np.stack([np.interp(at, along, closed[:, k]) for k in (0, 1)], axis=-1))
        names += [sides[start]] * count
    return np.concatenate(points), names
