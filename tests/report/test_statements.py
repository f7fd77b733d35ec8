"""Statements give each result once, with its name and unit; numbers and units are written for people."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nipde.discovery.discovery import RecommendedLoads
from nipde.errors import KernelError
from nipde.kernels.prediction_bands import OutlierTest
from nipde.report.numbers import number, percent, unit_symbol, unit_text
from nipde.report.statements import CAUSES, outlier_statement, statements


def test_numbers():
    values = (0, 0.01234, -12.0, 3.001, 1130.4, 54321.0, 1.5e-7, 123456.0, float("nan"))
    assert [number(value) for value in values] == [
        "0", "0.0123", "−12", "3", "1,130", "54,300", "1.50\u00a0×\u00a010⁻⁷", "1.23\u00a0×\u00a010⁵", "—",
    ]  # fmt: skip
    assert [percent(share) for share in (0.00212, 0.0456, 0.345, 1.0, float("nan"))] == [
        "0.21\u00a0%", "4.6\u00a0%", "34\u00a0%", "100\u00a0%", "—",
    ]  # fmt: skip


def test_units():
    assert unit_symbol("N/mm^2") == "N/mm²"
    assert unit_symbol("W/m^2/K*s^-1") == "W/m²/K·s⁻¹"
    assert unit_text("m^2/d") == " m²/d"
    assert unit_text("1") == ""


def test_every_statement_is_a_sentence_with_the_quantity_of_the_user(discovery):
    sentences = statements(discovery)
    assert len(sentences) == 6
    for sentence in sentences:
        assert sentence.endswith(".")
        assert "nan" not in sentence
    best = percent(discovery.held_out.errors.mean()).replace("\u00a0", " ")
    assert sentences[2] == outlier_statement(discovery.kernel.outlier_test)
    parts = (("tension", "3.02 kN"), (best, "adjoint Gauss-Newton", "4.4 %"), (), ("tension",), ("tension", "90 %"),
             (discovery.recommended_loads.names[0], "34 %"))  # fmt: skip
    for sentence, expected in zip(sentences, parts, strict=True):
        assert all(part in sentence for part in expected)


def test_results_that_are_missing_are_not_spoken_of(discovery):
    nothing = RecommendedLoads((), np.zeros(0), np.zeros((0, 21, 21)))
    bare = replace(
        discovery, held_out=None, baselines=(), recommended_loads=nothing, kernel=replace(discovery.kernel, bands=None),
        phases=replace(discovery.phases, medians=(1130.0,)), material=replace(discovery.material, unit="m^2/d"),
    )  # fmt: skip
    sentences = statements(bare)
    assert len(sentences) == 5
    assert "1,130 m²/d" in sentences[0]
    assert not any(character.isdigit() for sentence in sentences[1:3] for character in sentence)


def test_the_outlier_test_in_words():
    test = OutlierTest({"stiffness": torch.tensor([0.5, -9.0]), "misfit": torch.tensor([-1.0, 20.0])}, 4.0)
    passed, failed = outlier_statement(test, 0), outlier_statement(test, 1)
    assert all(part in passed for part in ("misfit", "-1.0", "4.0"))
    assert "stiffness" not in passed
    assert failed.index("misfit, 20.0") < failed.index("stiffness, -9.0")
    assert CAUSES["misfit"][1] in failed
    assert CAUSES["stiffness"][0] in failed
    missing = OutlierTest({"stiffness": torch.tensor(torch.nan), "misfit": torch.tensor(0.0)}, 4.0)
    assert "stiffness, nan" in outlier_statement(missing)
    with pytest.raises(KernelError) as error:
        outlier_statement(test)
    assert error.value.expected == "one system"
