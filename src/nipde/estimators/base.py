"""Two contracts: an estimator maps Pairs to a Kernel, in one pass, in physical units; a trainable one has a config."""

from dataclasses import dataclass, fields
from inspect import signature
from typing import Any, ClassVar, Protocol, Self

from torch import nn

from nipde.context.pairs import Pairs
from nipde.errors import PairsError
from nipde.grid import Grid
from nipde.kernels.base import Predictor
from nipde.records import dataclass_from_json

#: Largest numbers of a config: what is beyond them is a mistake, and would take all memory before it is noticed.
MOST, MOST_OF, MOST_NODES = 2**14, {"layers": 64, "dimension": 3}, 2**22


class Estimator(Protocol):
    """Anything that maps pairs to a predictor of responses; a Kernel unless its docstring says otherwise."""

    def __call__(self, pairs: Pairs) -> Predictor:
        """The kernel of the system that made the pairs; batch axes of the pairs are batch axes of the kernel."""


@dataclass(frozen=True)
class ModelConfig:
    """Everything that rebuilds a trainable model but its weights: sizes from 1 on, words, tuples of these, a grid."""

    #: Name of the model in the registry.
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):  # as JSON has them
            if isinstance(value := getattr(self, field.name), list):
                object.__setattr__(self, field.name, tuple(value))
        for name, value in vars(self).items():
            if isinstance(value, Grid) and value.size > MOST_NODES:
                raise PairsError(expected=f"at most {MOST_NODES} nodes", got=value.size, remedy="use a coarser grid")
            most = MOST_OF.get(name, MOST)
            for one in value if isinstance(value, tuple) else (value,):
                if type(one) is int and not 1 <= one <= most:
                    raise PairsError(expected=f"{name} from 1 to {most}", got=one, remedy="build a smaller network")

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with the kind."""
        return {"kind": self.kind} | {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """Rebuild from JSON form."""
        return dataclass_from_json({name: value for name, value in record.items() if name != "kind"}, cls)


class Model(nn.Module):
    """A trainable estimator. Its constructor takes the fields of its Config and stores them as `config`."""

    Config: ClassVar[type[ModelConfig]]
    #: Whether torch.export can trace it, context and queries in, predictions out.
    exportable: ClassVar[bool] = False
    config: ModelConfig
    #: Of the weights, if they have one.
    name: str = ""
    #: Whether its kernels have a coefficient.
    infers_coefficient: bool = False

    def __init_subclass__(cls) -> None:
        cls.__signature__ = signature(cls.Config)  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        self.config = self.Config(*args, **settings)

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """The model of a config, with fresh weights."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls.Config)})

    def settings(self) -> dict[str, Any]:
        """What predictions depend on beyond config and weights, in JSON form."""
        return {}

    def restore(self, settings: dict[str, Any]) -> None:
        """Take over `settings`, among which others may stand."""


def _to_json(value: Any) -> Any:
    if isinstance(value, Grid):
        return value.to_dict()
    return list(value) if isinstance(value, tuple) else value
