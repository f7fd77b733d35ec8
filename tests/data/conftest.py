"""A small archive, made once, and a copy of it for tests that damage files."""

import shutil
from pathlib import Path

import pytest

from nipde.data.archive import Archive, open_archive
from nipde.data.darcy import DarcyRecipe
from nipde.data.generation import generate
from nipde.data.plan import Plan


@pytest.fixture(scope="session")
def plan() -> Plan:
    return Plan(DarcyRecipe(nodes=11, pairs=6), systems=10, seed=3, shard_systems=4)


@pytest.fixture(scope="session")
def made(plan, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("archives") / "made"
    generate(plan, path, workers=1)
    return path


@pytest.fixture
def archive(made) -> Archive:
    return open_archive(made)


@pytest.fixture
def copy(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))
