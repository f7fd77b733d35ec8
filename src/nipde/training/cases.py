"""Recipes by name: the paper's models at the paper's sizes, with a training schedule for processors.

The authors' scripts train for 450,000 steps of 100 samples on a graphics card; how these schedules were chosen instead,
and on what, stands in docs/training.md.
"""

from nipde.training.recipe import Kind, ModelRecipe, TrainingRecipe


def _darcy(kind: Kind, layers: int, learning_rate: float) -> TrainingRecipe:
    return TrainingRecipe(ModelRecipe(kind, layers), minutes=20.0, learning_rate=learning_rate)


def _small_darcy(kind: Kind) -> TrainingRecipe:
    return TrainingRecipe(ModelRecipe(kind, layers=3, channels=280), context=150, minutes=20.0, learning_rate=1e-2)


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
}
