"""Training that can be trusted: recipes, one loop, checkpoints that survive anything."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__, {"Callback": "loop", "ModelRecipe": "recipe", "TrainingRecipe": "recipe"}
)
