"""A recipe turns one seed into one system: it draws a hidden field and loads, and solves.

A law of one's own is one file with one recipe; an entry point of the group `nipde.problems` makes it known to every
command (`nipde.data.problems`).
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from jaxtyping import Float
from numpy.random import Generator

from nipde.data.system import Quantities, System
from nipde.discretisation.load_case import LoadCase
from nipde.discretisation.parts import Specimen
from nipde.errors import ArchiveError
from nipde.grid import Grid
from nipde.physics.random_fields import GaussianField

HiddenField = Float[np.ndarray, "component *space"]
Loads = Float[np.ndarray, "pair component *space"]
PRECISIONS = ("float32", "float64")


def option(default: Any, help: str, *, flag: str | None = None) -> Any:
    """A field of a recipe that a person can set: its default, one line of help, and its name on the command line."""
    return field(default=default, metadata={"help": help, "flag": flag})


class LinearLaw(Protocol):
    """The true operator of one system: `nipde evaluate` compares kernels with its Green's function."""

    @property
    def grid(self) -> Grid:
        """Where its fields live."""

    def checked_solve(
        self, loads: Float[np.ndarray, "pair *space"]
    ) -> tuple[Float[np.ndarray, "pair *space"], Float[np.ndarray, " pair"]]:
        """Responses and relative residuals, or a SolverError."""

    def green(self) -> Float[np.ndarray, "node node"]:
        """Green's density at all pairs of nodes."""


@dataclass(frozen=True)
class Recipe(ABC):
    """How one system of a problem is drawn and solved; the docstring's first line is its help text."""

    #: Name on the command line and in archives.
    problem: ClassVar[str]
    kinds: ClassVar[dict[str, type["Recipe"]]] = {}
    #: Keys of `System.parameters` and `System.diagnostics`.
    parameter_names: ClassVar[tuple[str, ...]] = ()
    diagnostic_names: ClassVar[tuple[str, ...]] = ("residual",)
    #: Default number of systems of an archive.
    systems: ClassVar[int] = 100
    #: Number of hidden fields to draw from; None where each is a new one.
    catalogue: ClassVar[int | None] = None
    #: Whom to name, and under which licence, where a recipe uses the work of others.
    attribution: ClassVar[str] = ""
    #: Whether systems are specimens with an outline inside the grid's box: fields are NaN outside.
    on_shapes: ClassVar[bool] = False
    #: Packages whose version may change a solution's last digits, besides NumPy and SciPy.
    stands_on: ClassVar[tuple[str, ...]] = ()

    nodes: int = option(21, "nodes per axis", flag="grid")
    pairs: int = option(100, "loads and responses per system")
    shared_loads: bool = option(False, "give every system the same loads (the paper does) instead of its own")
    precision: Literal["float32", "float64"] = option("float32", "stored precision; solves are always float64")

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ArchiveError(expected="at least one pair per system", got=self.pairs, remedy="raise the number")
        if self.precision not in PRECISIONS:
            raise ArchiveError(expected=f"precision {' or '.join(PRECISIONS)}", got=self.precision, remedy="choose one")

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "problem" in cls.__dict__:
            Recipe.kinds[cls.problem] = cls

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """Where the fields live."""

    @property
    @abstractmethod
    def quantities(self) -> Quantities:
        """Names and units of load, response and hidden field."""

    @property
    def fine_shape(self) -> tuple[int, ...] | None:
        """Cells of a finer mesh that systems are solved on; None where that is the grid itself."""
        return None

    @abstractmethod
    def draw_loads(self, rng: Generator) -> Loads:
        """The loads of one system, or of all when shared."""

    @abstractmethod
    def solve(self, rng: Generator, loads: Loads, seed: np.uint64) -> System:
        """Draw the hidden field and solve for every load."""

    def ready(self) -> None:
        """Raise, before anything is written, if a library or file that the recipe needs is not installed."""
        return

    def law_of(self, hidden: HiddenField) -> LinearLaw | None:
        """The true operator behind a stored hidden field; None where the law is not linear or not known."""
        return None

    def specimen_of(self, seed: int | np.uint64) -> Specimen | None:
        """Shape and supports of a system; None where it fills the grid's box."""
        return None

    def outline_of(self, seed: int | np.uint64) -> tuple[LoadCase, ...]:
        """Loads on its outline, one case per pair; none where nothing acts there."""
        return ()

    def build(self, seed: int | np.uint64, *, shared_seed: int | np.uint64 | None = None) -> System:
        """The system of a seed. Loads come from `shared_seed` where one is given, else from the system's own."""
        hidden_stream, _ = streams(seed)
        loads = self.loads_of(seed if shared_seed is None else shared_seed)
        return self.solve(hidden_stream, loads, np.uint64(seed))

    def loads_of(self, seed: int | np.uint64) -> Loads:
        """The loads of a seed, rounded before solving: the stored load is exactly the one that was solved for."""
        _, load_stream = streams(seed)
        return self.draw_loads(load_stream).astype(self.precision)

    def draw_entry(self, rng: Generator) -> int:
        """Number of the hidden field in the catalogue; the first draw from its stream."""
        assert self.catalogue is not None
        return int(rng.integers(self.catalogue))

    def system(
        self,
        hidden: HiddenField,
        loads: Loads,
        responses: Loads,
        *,
        seed: np.uint64,
        parameters: Sequence[float],
        diagnostics: Mapping[str, Float[np.ndarray, " pair"]],
        fine: HiddenField | None = None,
    ) -> System:
        """The solved system, `parameters` in the order of their names."""
        named = dict(zip(self.parameter_names, map(np.asarray, parameters), strict=True))
        stored = hidden.astype(self.precision)
        return System(self.grid, loads, responses, stored, np.asarray(seed), named, dict(diagnostics), fine)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        values = {
            key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()
        }
        return {"problem": self.problem, **values}


@dataclass(frozen=True)
class LinearRecipe(Recipe):
    """A linear law for a scalar field on the unit square, u = 0 on its sides."""

    @cached_property
    def grid(self) -> Grid:
        """The unit square with Dirichlet conditions on all sides."""
        return Grid.uniform(self.nodes)

    @abstractmethod
    def draw_hidden(self, rng: Generator, seed: np.uint64) -> tuple[HiddenField, Sequence[float]]:
        """A hidden field, from `rng` alone, and the system's parameters."""

    @abstractmethod
    def law_of(self, hidden: HiddenField) -> LinearLaw:
        """The true operator behind a stored hidden field."""

    def solve(self, rng: Generator, loads: Loads, seed: np.uint64) -> System:
        """Solve for all loads; the hidden field is rounded before, so that the stored one is the one solved with."""
        hidden, parameters = self.draw_hidden(rng, seed)
        responses, residual = self.law_of(hidden.astype(self.precision)).checked_solve(loads[:, 0])
        diagnostics = {"residual": residual}
        return self.system(hidden, loads, responses[:, None], seed=seed, parameters=parameters, diagnostics=diagnostics)


@dataclass(frozen=True)
class RandomLoads(LinearRecipe):
    """A linear law under Gaussian random loads of unit root mean square."""

    load_alpha: float | tuple[float, ...] = option(
        1.0, "smoothness of the loads; a list such as [1,2,4] draws one per load"
    )

    def draw_loads(self, rng: Generator) -> Loads:
        """One Gaussian field per pair, each of its own smoothness."""
        choices = np.atleast_1d(np.asarray(self.load_alpha, dtype=float))
        if len(choices) == 1:
            return GaussianField(float(choices[0]), rms=1.0).sample(self.grid, rng=rng, count=self.pairs)[:, None]
        alphas = rng.choice(choices, size=self.pairs)
        loads = np.empty((self.pairs, *self.grid.shape))
        for alpha in np.unique(choices):
            same = alphas == alpha
            loads[same] = GaussianField(float(alpha), rms=1.0).sample(self.grid, rng=rng, count=int(same.sum()))
        return loads[:, None]


def streams(seed: int | np.uint64) -> tuple[Generator, Generator]:
    """The two independent sources of randomness of a seed: of the hidden field, and of the loads."""
    hidden, loads = np.random.SeedSequence(int(seed)).spawn(2)
    return np.random.default_rng(hidden), np.random.default_rng(loads)
