"""What determines a training run, as frozen dataclasses; saved beside the result and enough to make it again.

Recipes by name are the paper's models at the paper's sizes, and our own; how their schedules were chosen, and on what,
stands in docs/how-to/training.md.
"""

from dataclasses import asdict, dataclass, field, fields, replace
from math import cos, inf, pi
from typing import Any, Literal, Self

from nipde.data.recipe import option
from nipde.errors import TrainingError
from nipde.estimators.base import Model
from nipde.estimators.registry import model_class
from nipde.grid import Grid
from nipde.records import dataclass_from_json, reading

ABOVE_ZERO = ("steps", "minutes", "context", "batch", "parts", "tile_rows", "sampled_lines", "learning_rate", "clip",
              "validate_every", "validation_systems")  # fmt: skip
#: Variants of NAO in the paper.
VARIANTS: dict[str, tuple[str, dict[str, bool]]] = {
    "nao-f": ("nao", {"full_norms": True}),
    "nao-wp": ("nao", {"token_projections": True}),
}
Kind = Literal["nips", "nips-mlp", "nao", "nao-f", "nao-wp", "afno", "conditioned"]


@dataclass(frozen=True)
class ModelRecipe:
    """Which network, and its sizes beyond what the data decides."""

    kind: Kind = option("nips", "network: nips, nips-mlp, nao, nao-f, nao-wp, afno or conditioned")
    layers: int = option(2, "L, number of layers of the paper's models")
    channels: int = option(40, "d_k, the rank of the kernel (AFNO has none: its rank is the number of pairs)")
    modes: int | None = option(None, "modes per axis that NIPS or a gated prior retains; all by default")
    gains: Literal["token", "pair"] = option(
        "token",
        "gains of the first norm of the paper's models: token (and pair, as the paper) or pair, for large grids",
    )
    prior: Literal["elliptic", "gated"] = option("elliptic", "prior of the conditioned model: elliptic or gated")
    drift: bool = option(False, "let the prior of the conditioned model have a drift, so that it need not be symmetric")
    terms: int = option(12, "terms of the prior of the conditioned model")
    head: bool = option(False, "add a nonlinear correction to a gated prior")

    def __post_init__(self) -> None:
        for name in ("layers", "channels", "modes", "terms"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise TrainingError(expected=f"{name} above 0", got=value)

    def build(self, grid: Grid, *, pairs: int, components: tuple[int, int] = (1, 1)) -> Model:
        """The model for such data, of fresh weights; `components` are those of a response and of a load."""
        kind, variant = VARIANTS.get(self.kind, (self.kind, {}))
        known = {name: value for name, value in asdict(self).items() if name not in ("kind", "modes")}
        known |= {"grid": grid, "dimension": grid.dimension, "pairs": pairs, **variant}
        known["components"] = components if self.adapts else components[1]
        known["modes"] = None if self.modes is None else (self.modes,) * grid.dimension
        model = model_class(kind)
        names = [field.name for field in fields(model.Config) if field.name in known]
        return model.from_config(model.Config(**{name: known[name] for name in names}))

    @property
    def spreads(self) -> bool:
        """Whether several processes can share the rows of a grid."""
        return self.tiles or (self.kind == "conditioned" and self.prior == "gated" and not self.head)

    @property
    def tiles(self) -> bool:
        """Whether it can work through the rows of a grid in tiles."""
        return self.kind in ("nips", "nips-mlp")

    @property
    def adapts(self) -> bool:
        """Whether one network serves any grid and any number of pairs, and has a prior."""
        return self.kind == "conditioned"


@dataclass(frozen=True)
class TrainingRecipe:
    """One run: a number of `steps`, or `minutes` on a clock, whichever is given."""

    model: ModelRecipe = field(default_factory=ModelRecipe)
    context: int | tuple[int, ...] = option(
        50, "d, pairs in a context; of a list such as [50,5,20] every step draws one, validation takes the first"
    )
    queries: int = option(0, "loads outside the context to learn from; 0 learns from the context's own, as the paper")
    orders: int | None = option(
        None, "the paper's n_rand: ordered contexts per system; fresh ones in every step if none"
    )
    noise: float | tuple[float, ...] = option(
        0.0, "white noise on the context's responses, as a share of their root mean square; a list as for the context"
    )
    load_noise: float = option(0.0, "the same on the context's loads, where the paper puts it")
    symmetries: bool = option(False, "turn every step's batch by a random symmetry of the box")
    prior_weight: float = option(0.0, "weight in the loss of the error of the model's prior alone, if it has one")
    batch: int = option(10, "samples per step, over all processes")
    parts: int = option(1, "parts a process cuts its share of a batch into, to save memory")
    tile_rows: int | None = option(
        None,
        "rows of the grid that NIPS works through at a time, made again in backward, to save memory; all by default",
    )
    sampled_lines: int | None = option(
        None,
        "nodes along every axis that a step of NIPS learns from, drawn one from each of as many strata; all by default",
    )
    steps: int | None = option(None, "length of the run")
    minutes: float | None = option(None, "length of the run on the clock; the learning rate then follows the clock")
    clock: Literal["wall", "cpu"] = option("wall", "the clock of --minutes: of the wall, or of the first process")
    learning_rate: float = option(1e-2, "peak of the learning rate of Adam")
    warmup: int = option(100, "steps over which it rises; it falls as a cosine afterwards")
    second_moment: float = option(0.99, "decay of Adam's running mean of squared gradients")
    weight_decay: float = option(0.0, "weight decay")
    clip: float = option(1.0, "largest norm of a gradient; longer ones are shortened to it")
    precision: Literal["float32", "float64"] = option("float32", "precision of the weights")
    seed: int = option(0, "seed of the weights and of every draw")
    start: str | None = option(None, "weights to start from: NIPS of a coarser grid or of fewer layers")
    validate_every: int = option(500, "steps between two looks at the validation systems")
    validation_systems: int = option(50, "validation systems to look at, at most")

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            got = "both" if self.steps is not None else "neither"
            raise TrainingError(expected="steps or minutes", got=got, remedy="say how long to train, one way")
        for name in ("context", "noise"):
            if isinstance(getattr(self, name), list):  # as JSON has them
                object.__setattr__(self, name, tuple(getattr(self, name)))
            if getattr(self, name) == ():
                raise TrainingError(expected=f"at least one {name}", got="none", remedy="give a number or a list")
        for name in ABOVE_ZERO:
            for value in _each(getattr(self, name)):
                if value is not None and not 0 < value < inf:
                    raise TrainingError(expected=f"{name} above 0", got=value)
        for name in ("queries", "noise", "load_noise", "prior_weight", "warmup", "weight_decay", "seed"):
            for value in _each(getattr(self, name)):
                if not 0 <= value < inf:
                    raise TrainingError(expected=f"{name} of 0 or more", got=value)
        if not 0 <= self.second_moment < 1:
            raise TrainingError(expected="second_moment from 0 to below 1", got=self.second_moment)
        self._check_model()

    @property
    def contexts(self) -> tuple[int, ...]:
        """Every number of pairs a context may have; validation takes the first."""
        return _each(self.context)

    @property
    def noises(self) -> tuple[float, ...]:
        """Every share of noise on responses; validation takes the first."""
        return _each(self.noise)

    def progress(self, step: int, seconds: float) -> float:
        """How much of the run is done, 0 to 1."""
        if self.steps is not None:
            return min(1.0, step / max(1, self.steps))
        return min(1.0, seconds / (60 * (self.minutes or 1)))

    def rate(self, step: int, progress: float) -> float:
        """The learning rate of a step."""
        rising = min(1.0, (step + 1) / max(1, self.warmup))
        return self.learning_rate * rising * (1 + cos(pi * progress)) / 2

    def with_options(self, options: dict[str, Any]) -> Self:
        """Another recipe: options of the run or, under their own names, of its model."""
        of_model = {one.name for one in fields(ModelRecipe)}
        model = replace(self.model, **{name: value for name, value in options.items() if name in of_model})
        return replace(self, model=model, **{name: value for name, value in options.items() if name not in of_model})

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild from JSON form; what it does not mention has its default, as when it was written."""
        problem = "unreadable recipe", TrainingError
        with reading(*problem, expected="one of this version", remedy="use the nipde that wrote it"):
            return dataclass_from_json({"model": None, **record}, cls, name="recipe")

    def _check_model(self) -> None:
        """Paper models have one number of pairs and no prior; only NIPS works through tiles of rows."""
        if self.tile_rows is not None and not self.model.tiles:
            raise TrainingError(expected="tile_rows for nips or nips-mlp", got=self.model.kind, remedy="leave it out")
        if self.sampled_lines is not None and (not self.model.tiles or self.tile_rows is not None):
            got = self.model.kind if self.tile_rows is None else "tile_rows as well"
            raise TrainingError(expected="sampled_lines for nips or nips-mlp", got=got, remedy="leave one out")
        retains = self.model.tiles or (self.model.adapts and self.model.prior == "gated")
        if self.model.modes is not None and not retains:
            raise TrainingError(
                expected="modes for nips, nips-mlp or a gated prior", got=self.model.kind, remedy="leave it out"
            )
        if self.model.adapts:
            return
        if len(set(self.contexts)) > 1:
            raise TrainingError(
                expected=f"one number of pairs for {self.model.kind}", got=list(self.contexts),
                remedy="give one --context, or train a conditioned model",
            )  # fmt: skip
        if self.prior_weight:
            raise TrainingError(
                expected=f"prior_weight 0 for {self.model.kind}, which has no prior", got=self.prior_weight,
                remedy="leave it out, or train a conditioned model",
            )  # fmt: skip


def _each(value: Any) -> tuple[Any, ...]:
    """Several values as they are, or one of them."""
    return value if isinstance(value, tuple) else (value,)


def _darcy(kind: Kind, layers: int, learning_rate: float) -> TrainingRecipe:
    return TrainingRecipe(ModelRecipe(kind, layers), minutes=20.0, learning_rate=learning_rate)


def _small_darcy(kind: Kind) -> TrainingRecipe:
    return TrainingRecipe(ModelRecipe(kind, layers=3, channels=280), context=150, minutes=20.0, learning_rate=1e-2)


def _solid(kind: Kind, layers: int, learning_rate: float) -> TrainingRecipe:
    """At 29², two components, 100 pairs."""
    model = ModelRecipe(kind, layers, channels=100)
    return TrainingRecipe(model, context=100, minutes=20.0, learning_rate=learning_rate, validate_every=100,
                          validation_systems=20)  # fmt: skip


def _conditioned(prior: Literal["elliptic", "gated"], *, drift: bool = False) -> TrainingRecipe:
    return TrainingRecipe(
        ModelRecipe("conditioned", channels=32, prior=prior, drift=drift), context=(50, 5, 10, 20, 35, 75), queries=20,
        # Validation takes the first: without noise a balance is exact, and there is nothing to choose by.
        noise=(0.01, 0.0, 0.0, 0.03, 0.05) if prior == "elliptic" else (0.0, 0.0, 0.0, 0.01, 0.03, 0.05),
        symmetries=True, prior_weight=0.2, batch=10, minutes=20.0,
        learning_rate=3e-3, second_moment=0.99, validate_every=200,
    )  # fmt: skip


#: Name on the command line -> recipe; grid and components come with the data.
CASES: dict[str, TrainingRecipe] = {
    "nips-2": _darcy("nips", 2, 5e-2),
    "nips-4": _darcy("nips", 4, 3e-2),
    "nao-2": _darcy("nao", 2, 3e-2),
    "nao-4": _darcy("nao", 4, 3e-2),
    "nao-f-2": _darcy("nao-f", 2, 3e-2),
    "nao-wp-2": _darcy("nao-wp", 2, 1e-2),
    "afno-2": _darcy("afno", 2, 1e-2),
    "afno-4": _darcy("afno", 4, 1e-2),
    "nips-3-wide": _small_darcy("nips"),
    "nao-3-wide": _small_darcy("nao"),
    "nips-2-solid": _solid("nips", 2, 3e-2),
    "nips-4-solid": _solid("nips", 4, 3e-2),
    "nips-mlp-4-solid": _solid("nips-mlp", 4, 3e-2),
    "nao-2-solid": _solid("nao", 2, 3e-2),
    "nao-4-solid": _solid("nao", 4, 3e-2),
    "conditioned-solid": _conditioned("gated").with_options(
        {"head": True, "terms": 16, "context": (100, 25, 50), "noise": 0.0, "batch": 2, "validate_every": 100,
         "validation_systems": 20}
    ),
    "conditioned-elliptic": _conditioned("elliptic"),
    "conditioned-gated": _conditioned("gated"),
    "conditioned-drift": _conditioned("elliptic", drift=True),
    "conditioned-gated-drift": _conditioned("gated", drift=True).with_options({"terms": 8}),
    "conditioned-wide": replace(_conditioned("elliptic"), context=(150, 20, 50, 100), noise=0.0),
}  # fmt: skip
