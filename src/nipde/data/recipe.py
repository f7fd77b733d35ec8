"""A recipe turns one seed into one system; all recipes share this shape."""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from nipde.data.system import Quantities, System
from nipde.errors import ArchiveError
from nipde.grid import Grid

PRECISIONS = ("float32", "float64")


def option(default: Any, help: str, *, flag: str | None = None) -> Any:
    """A field of a recipe that a person can set: its default, one line of help, and its name on the command line."""
    return field(default=default, metadata={"help": help, "flag": flag})


@dataclass(frozen=True)
class Recipe(ABC):
    """How one system of a problem is drawn and solved."""

    problem: ClassVar[str]
    kinds: ClassVar[dict[str, type["Recipe"]]] = {}
    #: Systems of an archive unless a person asks for another number.
    systems: ClassVar[int] = 100
    #: How many hidden fields there are to choose from; None where each is a new one.
    catalogue: ClassVar[int | None] = None
    #: Whom to name, and under which licence, where a recipe uses the work of others.
    attribution: ClassVar[str] = ""
    #: Packages whose version may change a solution's last digits, besides NumPy and SciPy.
    stands_on: ClassVar[tuple[str, ...]] = ()

    nodes: int = option(21, "nodes per axis", flag="grid")
    pairs: int = option(100, "loads and responses per system")
    shared_loads: bool = option(False, "give every system the same loads (the paper does) instead of its own")
    precision: Literal["float32", "float64"] = option("float32", "stored precision; solves are always float64")

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ArchiveError(expected="at least one pair per system", got=self.pairs, remedy="ask for more pairs")
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
    @abstractmethod
    def parameter_names(self) -> tuple[str, ...]:
        """Keys of `System.parameters`."""

    @property
    @abstractmethod
    def diagnostic_names(self) -> tuple[str, ...]:
        """Keys of `System.diagnostics`."""

    def ready(self) -> None:
        """Raise, before anything is written, if a library or file that the recipe needs is not installed."""
        return

    @abstractmethod
    def draw_loads(self, rng: np.random.Generator) -> Float[np.ndarray, "pair component *space"]:
        """The loads of one system, or of all when shared."""

    @abstractmethod
    def solve(
        self, rng: np.random.Generator, loads: Float[np.ndarray, "pair component *space"], seed: np.uint64
    ) -> System:
        """Draw the hidden field and solve for every load."""

    def build(self, seed: int | np.uint64, *, shared_seed: int | np.uint64 | None = None) -> System:
        """The system of a seed. Loads come from `shared_seed` where one is given, else from the system's own."""
        hidden_stream, _ = streams(seed)
        loads = self.loads_of(seed if shared_seed is None else shared_seed)
        return self.solve(hidden_stream, loads, np.uint64(seed))

    def loads_of(self, seed: int | np.uint64) -> Float[np.ndarray, "pair component *space"]:
        """The loads of a seed, rounded before solving: the stored load is exactly the one that was solved for."""
        _, load_stream = streams(seed)
        return self.draw_loads(load_stream).astype(self.precision)

    def draw_entry(self, rng: np.random.Generator) -> int:
        """Number of the hidden field in the catalogue; the first thing its stream is asked for."""
        assert self.catalogue is not None
        return int(rng.integers(self.catalogue))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        values = {
            key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()
        }
        return {"problem": self.problem, **values}


def streams(seed: int | np.uint64) -> tuple[np.random.Generator, np.random.Generator]:
    """The two independent sources of randomness of a seed: of the hidden field, and of the loads."""
    hidden, loads = np.random.SeedSequence(int(seed)).spawn(2)
    return np.random.default_rng(hidden), np.random.default_rng(loads)
