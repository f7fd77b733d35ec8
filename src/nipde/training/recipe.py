"""What determines a training run, as frozen dataclasses; saved beside the result and enough to make it again."""

from dataclasses import asdict, dataclass, field, fields, replace
from math import cos, pi
from typing import Any, Literal, Self

from nipde.data.recipe import option
from nipde.errors import TrainingError

ABOVE_ZERO = ("steps", "minutes", "context", "batch", "parts", "learning_rate", "clip", "validate_every",
              "validation_systems")  # fmt: skip
Kind = Literal["nips", "nips-mlp", "nao", "nao-f", "nao-wp", "afno"]


@dataclass(frozen=True)
class ModelRecipe:
    """Which network, and its sizes beyond what the data decides."""

    kind: Kind = option("nips", "network: nips, nips-mlp, nao, nao-f, nao-wp or afno")
    layers: int = option(2, "L, number of layers")
    channels: int = option(40, "d_k, the rank of the kernel (AFNO has none: its rank is the number of pairs)")
    modes: int | None = option(None, "Fourier modes per axis of NIPS; all by default")


@dataclass(frozen=True)
class TrainingRecipe:
    """One run: a number of `steps`, or `minutes` on a clock, whichever is given."""

    model: ModelRecipe = field(default_factory=ModelRecipe)
    context: int = option(50, "d, pairs in a context")
    queries: int = option(0, "loads outside the context to learn from; 0 learns from the context's own, as the paper")
    orders: int | None = option(
        None, "the paper's n_rand: ordered contexts per system; fresh ones in every step if none"
    )
    noise: float = option(0.0, "white noise on the context's responses, as a share of their root mean square")
    load_noise: float = option(0.0, "the same on the context's loads, where the paper puts it")
    batch: int = option(10, "samples per step, over all processes")
    parts: int = option(1, "parts a process cuts its share of a batch into, to save memory")
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
    validate_every: int = option(500, "steps between two looks at the validation systems")
    validation_systems: int = option(50, "validation systems to look at, at most")

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            got = "both" if self.steps is not None else "neither"
            raise TrainingError(expected="steps or minutes", got=got, remedy="say how long to train, one way")
        for name in ABOVE_ZERO:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise TrainingError(expected=f"{name} above 0", got=value)
        for name in ("queries", "noise", "load_noise", "seed"):
            if getattr(self, name) < 0:
                raise TrainingError(expected=f"{name} of 0 or more", got=getattr(self, name))

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
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild from JSON form."""
        try:
            return cls(**{**record, "model": ModelRecipe(**record["model"])})
        except (TypeError, KeyError) as error:
            raise TrainingError(
                "unreadable recipe",
                expected="one of this version",
                got=str(error),
                remedy="use the nipde that wrote it",
            ) from error
