"""-∇·(b∇u) = f on plane specimens: orders on disc and ring, electrodes, finite elements, and times."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import skfem
from jaxtyping import Float
from skfem.helpers import dot, grad

from benchmarks.timing import in_turns
from nipde.boundary import Neumann
from nipde.data.random_specimens import SPECIMENS
from nipde.data.recipe import Recipe
from nipde.data.reference import ReferenceDarcyRecipe
from nipde.data.shapes import ShapedDarcyRecipe
from nipde.discretisation.cut_cells import cut_cells
from nipde.discretisation.load_case import Function, LoadCase
from nipde.discretisation.parts import Condition, DirichletPart, NeumannPart, RobinPart, Terminal
from nipde.grid import Grid
from nipde.physics.conduction import Conduction
from nipde.shape import Shape
from tests.oracles.manufactured import observed_orders

SEED = 2026
GRIDS = (21, 41, 81, 161, 321)
IMPEDANCES = (0.05, 0.2, 0.5)
#: Off the nodes, so that no grid meets the outline in a special way.
CENTRE = (0.503, 0.497)
RADIUS, HOLE, INTERFACE = 0.4, 0.15, 0.27
VERTICES = 8192
ELECTRODES, CONDUCTIVITY = 8, 1.5
#: Of generated systems; the recipe of those without an outline.
PAIRS, WHOLE = 60, "whole square"
#: Random discs with a Dirichlet part of 10 to 80 % of the rim.
RIMS = 20
Vector = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
Conditions = Mapping[str, Condition]


@dataclass(frozen=True)
class Truth:
    """An exact solution: u, b, f = -∇·(b∇u), and b∇u, as functions of x and y."""

    solution: Function
    coefficient: Function
    density: Function
    flux: Vector


def measure(*, quick: bool) -> dict[str, Any]:
    """All figures of the table."""
    sizes = GRIDS[:3] if quick else GRIDS
    grids = [grid_of(nodes) for nodes in sizes]
    rows = []
    for coefficient, truth in (("smooth", smooth()), ("jump", jumping())):
        for name, shape, conditions in specimens():
            errors = {grid: error(grid, shape, conditions, truth) for grid in grids}
            orders = observed_orders(errors.__getitem__, grids)
            rows.append({
                "specimen": name, "coefficient": coefficient, "errors": list(errors.values()), "orders": orders,
            })  # fmt: skip
    few = sizes[:2] if quick else sizes[:4]
    return {
        "grids": list(sizes),
        "rows": rows,
        "ends": _ends(few, count=3 if quick else RIMS),
        "electrodes": {
            "grids": list(few),
            "rows": [
                {"impedance": one, "errors": [electrode_error(nodes, impedance=one) for nodes in few]}
                for one in (IMPEDANCES[1:2] if quick else IMPEDANCES)
            ],
        },
        "finite_elements": _against_finite_elements(few[1:], refinements=5 if quick else 7),
        "build": _build_times(41 if quick else 161, rounds=1 if quick else 3),
        "generation": _generation_times(rounds=1 if quick else 5),
    }


def grid_of(nodes: int) -> Grid:
    """The unit square around the specimens."""
    return Grid.uniform(nodes, boundary=Neumann())


# Exact solutions


def smooth() -> Truth:
    """u = cos(2x) eʸ, b = 2 + sin(3x - 2y)."""

    def solution(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.cos(2 * x) * np.exp(y)

    def coefficient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 2 + np.sin(3 * x - 2 * y)

    def slope(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return -2 * np.sin(2 * x) * np.exp(y), solution(x, y)

    def density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        along, across = slope(x, y)  # Δu = -3u
        return 3 * coefficient(x, y) * solution(x, y) - np.cos(3 * x - 2 * y) * (3 * along - 2 * across)

    def flux(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        along, across = slope(x, y)
        return coefficient(x, y) * along, coefficient(x, y) * across

    return Truth(solution, coefficient, density, flux)


def jumping(*, inner: float = 1.0, outer: float = 4.0, centre: tuple[float, float] = CENTRE) -> Truth:
    """b jumps on a circle; f = 1 gives a radial part of u, a uniform field at a distance the other."""
    turned = (outer - inner) / (outer + inner)

    def places(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        dx, dy = x - centre[0], y - centre[1]
        square = np.maximum(dx**2 + dy**2, 1e-30)
        return dx, dy, square, square < INTERFACE**2

    def coefficient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(places(x, y)[3], inner, outer)

    def solution(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        dx, _, square, within = places(x, y)
        radial = (INTERFACE**2 - square) / 4 / np.where(within, inner, outer)
        return radial + 0.1 * dx * np.where(within, 1 + turned, 1 + turned * INTERFACE**2 / square)

    def flux(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dx, dy, square, within = places(x, y)
        dipole = turned * INTERFACE**2 / square
        along = np.where(within, inner * (1 + turned), outer * (1 + dipole - 2 * dipole * dx**2 / square))
        across = np.where(within, 0.0, -2 * outer * dipole * dx * dy / square)
        return 0.1 * along - dx / 2, 0.1 * across - dy / 2

    return Truth(solution, coefficient, lambda x, y: np.ones_like(x), flux)


def specimens(centre: tuple[float, float] = CENTRE) -> list[tuple[str, Shape, Conditions]]:
    """Disc and ring, each with Dirichlet, Neumann and mixed outlines."""
    disc = Shape.disc(centre, RADIUS, vertices=VERTICES)
    ring = Shape.disc(centre, RADIUS, hole=HOLE, vertices=VERTICES)
    half = disc.with_part("left", lambda x, y: x < centre[0])
    fixed, free = DirichletPart(), NeumannPart()
    return [
        ("disc, Dirichlet", disc, {"rim": fixed}),
        ("disc, Neumann", disc, {"rim": free}),
        ("disc, left half Dirichlet, right half Neumann", half, {"left": fixed, "rim": free}),
        ("ring, Dirichlet", ring, {"rim": fixed, "hole 1": fixed}),
        ("ring, Neumann", ring, {"rim": free, "hole 1": free}),
        ("ring, rim Neumann, hole Dirichlet", ring, {"rim": free, "hole 1": fixed}),
    ]


def error(
    grid: Grid, shape: Shape, conditions: Conditions, truth: Truth, *, centre: tuple[float, float] = CENTRE
) -> float:
    """Relative L2 error; up to a constant where no part fixes u."""
    law = Conduction(cut_cells(grid, shape, conditions), truth.coefficient)
    weights, (x, y) = np.where(law.cells.active, law.cells.measure, 0.0), grid.coordinates
    exact = truth.solution(x, y)
    difference = np.nan_to_num(law.solve(data_of(law, truth, centre=centre)).response) - exact
    if law.floating:
        difference, exact = (field - np.average(field, weights=weights) for field in (difference, exact))
    return float(np.sqrt(np.sum(weights * difference**2) / np.sum(weights * exact**2)))


def data_of(law: Conduction, truth: Truth, *, centre: tuple[float, float] = CENTRE) -> LoadCase:
    """Loads of an exact solution on circles around a centre; balanced where no part fixes u."""
    cells = law.cells

    def into(sign: float) -> Function:
        def flux(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            (along, across), dx, dy = truth.flux(x, y), x - centre[0], y - centre[1]
            return sign * (along * dx + across * dy) / np.hypot(dx, dy)

        return flux

    values = {name: truth.solution for name, one in cells.conditions.items() if isinstance(one, DirichletPart)}
    fluxes = {
        name: into(-1.0 if name.startswith("hole") else 1.0)
        for name, one in cells.conditions.items() if isinstance(one, NeumannPart)
    }  # fmt: skip
    density = truth.density(*grid_coordinates(cells.grid))
    if law.floating:  # what quadrature leaves of the balance
        density = density - law.moments(LoadCase(density, values, fluxes)).sum() / cells.volume.sum()
    return LoadCase(density, values, fluxes)


def grid_coordinates(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """x and y at every node."""
    x, y = np.broadcast_arrays(*grid.coordinates)
    return x, y


# Ends of Dirichlet parts


def rim_error(nodes: int, start: float, share: float, *, shift: complex = 0.0) -> float:
    """Of a well in a disc with a Dirichlet part of 0, the rest insulated: relative, well inside and off the well.

    The disc is mapped to a half-plane with the Dirichlet part on one half of its edge, and its root to a quadrant.
    """
    centre, grid = complex(*CENTRE) + shift, grid_of(nodes)
    shape = Shape.disc((centre.real, centre.imag), RADIUS, vertices=VERTICES).with_arc("held", start, start + share)
    law = Conduction(cut_cells(grid, shape, {"held": DirichletPart()}), lambda x, y: np.ones_like(x))
    x, y = grid_coordinates(grid)
    at, density = ((nodes - 1) * 3 // 5, (nodes - 1) * 2 // 5), np.zeros(grid.shape)
    density[at] = 1 / np.prod(grid.spacing)
    line = shape.parts["held"]
    first, middle, last = (complex(*line.interpolate(one, normalized=True).coords[0]) for one in (0, 0.5, 1))
    place = x + 1j * y
    inside = (np.abs(place - centre) < 0.92 * RADIUS) & (np.abs(place - place[at]) > RADIUS / 4)
    turn = np.exp(-1j * np.angle((middle - first) / (middle - last)))
    plane, well = (turn * (z - first) / (z - last) for z in (place[inside], place[at]))
    if well.imag < 0:
        plane, well = np.conj(plane), np.conj(well)
    z, w = np.sqrt(plane), np.sqrt(well)
    exact = -np.log(np.abs((z - w) * (z + np.conj(w)) / ((z - np.conj(w)) * (z + w)))) / (2 * np.pi)
    ours = law.solve(LoadCase(density)).response[inside]
    return float(np.linalg.norm(ours - exact) / np.linalg.norm(exact))


def _ends(sizes: tuple[int, ...], *, count: int) -> dict[str, Any]:
    """Root mean square and largest error of random rims."""
    rng = np.random.default_rng(SEED)
    rims = [(rng.uniform(), rng.uniform(0.1, 0.8), complex(*rng.uniform(-0.02, 0.02, 2))) for _ in range(count)]
    errors = np.array(
        [[rim_error(nodes, start, share, shift=shift) for start, share, shift in rims] for nodes in sizes]
    )
    mean = np.sqrt(np.mean(errors**2, axis=1))
    orders = np.log(mean[:-1] / mean[1:]) / np.log(np.divide(np.array(sizes[1:]) - 1, np.array(sizes[:-1]) - 1))
    return {
        "grids": list(sizes), "rims": count, "errors": mean.tolist(), "worst": errors.max(axis=1).tolist(),
        "orders": orders.tolist(),
    }  # fmt: skip


# Electrodes


def electrode_error(nodes: int, *, impedance: float) -> float:
    """Of the potentials for all currents between neighbouring electrodes, relative."""
    names, shape = with_electrodes(Shape.disc(CENTRE, RADIUS, vertices=VERTICES))
    cells = cut_cells(grid_of(nodes), shape, dict.fromkeys(names, Terminal(impedance)))
    law = Conduction(cells, lambda x, y: np.full_like(x, CONDUCTIVITY))
    currents = np.eye(ELECTRODES) - np.roll(np.eye(ELECTRODES), 1, axis=1)
    solved = [law.solve(LoadCase(totals=dict(zip(names, one.tolist(), strict=True)))).terminals for one in currents]
    potentials = np.array([[one[name] for name in names] for one in solved])
    exact = electrode_potentials(currents, impedance=impedance)
    return float(np.linalg.norm(potentials - exact) / np.linalg.norm(exact))


def with_electrodes(shape: Shape) -> tuple[list[str], Shape]:
    """Electrodes on half of the rim, with gaps of their length."""
    names = [f"electrode {number}" for number in range(1, ELECTRODES + 1)]
    for number, name in enumerate(names):
        shape = shape.with_arc(name, number / ELECTRODES, (number + 0.5) / ELECTRODES)
    return names, shape


def electrode_potentials(
    currents: Float[np.ndarray, "pair part"], *, impedance: float, panels: int = 96
) -> Float[np.ndarray, "pair part"]:
    """Of the complete electrode model on a disc of constant conductivity; their mean is 0.

    On the rim u(θ) = -R/(2πb) ∫ j(t) ln(2 - 2 cos(θ - t)) dt + constant, as Σ cos(nθ)/n = -ln(2 - 2 cos θ)/2. Current
    densities j are constant on panels; on electrodes u + impedance · j = U.
    """
    step = np.pi / ELECTRODES / panels
    owner = np.repeat(np.arange(ELECTRODES), panels)
    angle = 2 * np.pi * owner / ELECTRODES + step * (np.tile(np.arange(panels), ELECTRODES) + 0.5)
    apart = angle[:, None] - angle
    np.fill_diagonal(apart, 1.0)
    kernel = -step * np.log(2 - 2 * np.cos(apart))
    np.fill_diagonal(kernel, 2 * step * (1 - np.log(step / 2)))  # the integral over a panel around its middle
    rim = RADIUS / (2 * np.pi * CONDUCTIVITY) * kernel + impedance * np.eye(len(angle))
    holds = np.eye(ELECTRODES)[owner]
    system = np.block([[rim, -holds], [RADIUS * step * holds.T, np.zeros((ELECTRODES, ELECTRODES))]])
    right = np.concatenate([np.zeros((len(angle), len(currents))), currents.T])
    potentials = np.linalg.solve(system, right)[-ELECTRODES:].T
    return potentials - potentials.mean(axis=1, keepdims=True)


# Finite elements


def bump(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A coefficient with a stiff spot."""
    return 1 + 3 * np.exp(-((x - 0.62) ** 2 + (y - 0.45) ** 2) / 0.02)


def source(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A load beside it."""
    return 20 * np.exp(-((x - 0.35) ** 2 + (y - 0.6) ** 2) / 0.01)


def surroundings(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Values on the rim, or beyond it."""
    return np.sin(4 * x) * np.cos(3 * y)


def finite_elements(
    points: Float[np.ndarray, "point axis"], *, refinements: int, robin: float | None = None
) -> Float[np.ndarray, " point"]:
    """u on the disc by linear triangles of scikit-fem, with values on the rim or a Robin condition."""
    mesh = skfem.MeshTri.init_circle(refinements).scaled(RADIUS).translated(CENTRE)
    basis = skfem.Basis(mesh, skfem.ElementTriP1(), intorder=4)
    stiffness = skfem.BilinearForm(lambda u, v, w: bump(*w.x) * dot(grad(u), grad(v))).assemble(basis)
    right = skfem.LinearForm(lambda v, w: source(*w.x) * v).assemble(basis)
    if robin is None:
        ends = basis.get_dofs()
        values = surroundings(*basis.doflocs)
        nodal = skfem.solve(*skfem.condense(stiffness, right, x=values, D=ends))
    else:
        rim = skfem.FacetBasis(mesh, skfem.ElementTriP1(), intorder=4)
        stiffness = stiffness + robin * skfem.BilinearForm(lambda u, v, w: u * v).assemble(rim)
        right = right + robin * skfem.LinearForm(lambda v, w: surroundings(*w.x) * v).assemble(rim)
        nodal = skfem.solve(stiffness, right)
    # The search for triangles takes memory of points × triangles.
    blocks = np.array_split(points, -(-len(points) // 100))
    return np.concatenate([basis.probes(block.T) @ nodal for block in blocks])


def difference_to_finite_elements(nodes: int, *, refinements: int, robin: float | None = None) -> float:
    """Relative, at the nodes well inside the disc."""
    grid, shape = grid_of(nodes), Shape.disc(CENTRE, RADIUS, vertices=VERTICES)
    condition = DirichletPart() if robin is None else RobinPart(robin)
    law = Conduction(cut_cells(grid, shape, {"rim": condition}), bump)
    x, y = grid_coordinates(grid)
    ours = law.solve(LoadCase(source(x, y), values={"rim": surroundings})).response
    inside = np.hypot(x - CENTRE[0], y - CENTRE[1]) < 0.98 * RADIUS
    theirs = finite_elements(np.stack([x[inside], y[inside]], axis=-1), refinements=refinements, robin=robin)
    return float(np.linalg.norm(ours[inside] - theirs) / np.linalg.norm(theirs))


def _against_finite_elements(sizes: tuple[int, ...], *, refinements: int) -> dict[str, Any]:
    """Also two meshes against each other: what the reference is worth."""
    x, y = (axis.ravel() for axis in grid_coordinates(grid_of(21)))
    inside = np.hypot(x - CENTRE[0], y - CENTRE[1]) < 0.98 * RADIUS
    points = np.stack([x[inside], y[inside]], axis=-1)
    rows = []
    for name, robin in (("Dirichlet", None), ("Robin", 2.0)):
        coarse, fine = (finite_elements(points, refinements=refinements - less, robin=robin) for less in (1, 0))
        rows.append({
            "condition": name,
            "differences": [
                difference_to_finite_elements(nodes, refinements=refinements, robin=robin) for nodes in sizes
            ],
            "between_meshes": float(np.linalg.norm(coarse - fine) / np.linalg.norm(fine)),
        })  # fmt: skip
    return {"grids": list(sizes), "triangles": 4 ** (refinements + 1), "rows": rows}


def _generation_times(*, rounds: int) -> dict[str, Any]:
    """Processor seconds of a system of `darcy-shapes`, and over those of a system that fills the square."""
    kinds = [kind.replace(" ", "-") for kind in SPECIMENS]
    recipes: dict[str, Recipe] = {kind: ShapedDarcyRecipe(pairs=PAIRS, shape=kind) for kind in kinds}  # type: ignore[arg-type]
    recipes[WHOLE] = ReferenceDarcyRecipe(pairs=PAIRS)
    taken = in_turns({name: lambda one=one: one.build(SEED) for name, one in recipes.items()}, rounds=rounds)  # type: ignore[misc]
    ratios = {kind: float(np.median(np.divide(taken[kind], taken[WHOLE]))) for kind in kinds}
    return {"pairs": PAIRS, "seconds": {name: float(np.median(t)) for name, t in taken.items()}, "ratios": ratios}


def _build_times(nodes: int, *, rounds: int) -> dict[str, Any]:
    """Processor seconds of the cut cells, and of matrix and factor after them."""
    cases = {name: (shape, conditions) for name, shape, conditions in specimens()}
    names, shape = with_electrodes(Shape.disc(CENTRE, RADIUS, vertices=VERTICES))
    cases["disc, 8 electrodes"] = (shape, dict.fromkeys(names, Terminal(0.2)))
    grid = grid_of(nodes)
    taken = in_turns(
        {name: lambda given=given: cut_cells(grid, *given) for name, given in cases.items()},  # type: ignore[misc]
        rounds=rounds,
    )
    return {"nodes": nodes, "vertices": VERTICES, "seconds": {name: float(np.median(t)) for name, t in taken.items()}}
