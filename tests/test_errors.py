"""Errors carry what was expected, what came and what to do, also from one process to another."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from nipde import errors
from nipde.errors import MissingExtraError, NipdeError, needing

CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, NipdeError)]


def fields(error: NipdeError) -> tuple[object, ...]:
    return type(error), str(error), error.message, error.expected, error.got, error.remedy


def fail(kind: type[NipdeError]) -> None:
    raise kind("a grid", expected=(3, 4), got=(5,), remedy="use another")


@pytest.mark.parametrize("kind", CLASSES)
def test_fields_survive_pickling(kind):
    error = kind("a grid", expected=(3, 4), got=(5,), remedy="use another")
    assert fields(error) == (kind, str(error), "a grid", (3, 4), (5,), "use another")
    assert all(part in str(error) for part in ("a grid", "(3, 4)", "(5,)", "use another"))
    assert fields(pickle.loads(pickle.dumps(error))) == fields(error)


def test_fields_come_back_from_another_process():
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        raised = pool.submit(fail, errors.GridError).exception()
    assert fields(raised)[2:] == ("a grid", (3, 4), (5,), "use another")


def test_fields_not_given_are_none():
    error = NipdeError()
    assert (error.message, error.expected, error.got, error.remedy) == (None,) * 4


def test_a_missing_library_names_the_extra_it_comes_with():
    with pytest.raises(MissingExtraError) as error, needing("telepathy", extra="mind"):
        raise ImportError
    assert "nipde[mind]" in error.value.remedy
