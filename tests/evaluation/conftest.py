"""Small archives, made once: loads of their own, shared loads, arithmetic face means, another law."""

import pytest

from nipde.data.archive import open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan
from nipde.data.problems import AdvectionRecipe

EXACT = {"nodes": 9, "pairs": 14, "precision": "float64"}
RECIPES = {
    "own": DarcyRecipe(**EXACT),
    "shared": DarcyRecipe(nodes=9, pairs=20, shared_loads=True),
    "arithmetic": DarcyRecipe(**EXACT, face_mean="arithmetic"),
    "advection": AdvectionRecipe(nodes=9, pairs=6, speed=5.0),
}


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    made = {}
    for name, recipe in RECIPES.items():
        generate(Plan(recipe, systems=10, seed=5, split=(0.5, 0.1, 0.4)), folder / name, workers=1)
        made[name] = open_archive(folder / name)
    return made


@pytest.fixture
def own(archives):
    return archives["own"]


@pytest.fixture
def shared(archives):
    return archives["shared"]
