"""Statements give each result once, with its name and unit; numbers and units are written for people."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import nipde
from nipde.discovery.discovery import RecommendedLoads
from nipde.errors import KernelError
from nipde.kernels.prediction_bands import SAME_DISCRETISATION, OutlierTest
from nipde.report.files import summary
from nipde.report.kernel_factors import factors_of
from nipde.report.numbers import capitalised, number, percent, unit_symbol, unit_text
from nipde.report.page.page import page
from nipde.report.phases import prefers_phases
from nipde.report.statements import CAUSES, COVERED, NOT_COVERED, outlier_statement, statements


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
    assert len(sentences) == 8
    for sentence in sentences:
        assert sentence.endswith(".")
        assert "nan" not in sentence
        assert "coefficient" not in sentence
    best = percent(discovery.held_out.errors.mean()).replace("\u00a0", " ")
    assert sentences[3] == outlier_statement(discovery.kernel.outlier_test)
    parts = (
        (NOT_COVERED, "own solver", "90 %"), ("tension", "3.02 kN"), (best, "adjoint Gauss-Newton", "4.4 %"), (),
        ("tension",),
        ("tension", "90 %"), (discovery.recommended_loads.names[0], "34 %"), ("tension", "all loads", "all responses"),
    )  # fmt: skip
    for sentence, expected in zip(sentences, parts, strict=True):
        assert all(part in sentence for part in expected)


def test_results_that_are_missing_are_not_spoken_of(discovery):
    nothing = RecommendedLoads((), np.zeros(0), np.zeros((0, 21, 21)))
    bare = replace(
        discovery, held_out=None, baselines=(), recommended_loads=nothing, kernel=replace(discovery.kernel, bands=None),
        phases=replace(discovery.phases, medians=(1130.0,)), material=replace(discovery.material, unit="m^2/d"),
    )  # fmt: skip
    sentences = statements(bare)
    assert len(sentences) == 6
    assert "1,130 m²/d" in sentences[1]
    assert not any(character.isdigit() for character in sentences[2])


def test_coverage_comes_first_with_its_reasons(discovery, fitted_as):
    covered = fitted_as(noise_stated=True, outside=())
    assert covered.coverage.covered
    assert statements(covered)[0].startswith(COVERED)
    bands = discovery.kernel.bands
    failed = replace(bands, outlier_test=replace(bands.outlier_test, threshold=0.0))
    outlier = replace(discovery, kernel=replace(discovery.kernel, bands=failed))
    unknown = replace(discovery, kernel=replace(discovery.kernel, bands=None))
    posterior = replace(unknown, material=replace(discovery.material, calibrated=False))
    outside = fitted_as(noise_stated=True, outside=("fewer than 5 pairs",))
    for one in (discovery, outlier, unknown, posterior, outside):
        assert one.coverage.reasons
        assert statements(one)[0].startswith(NOT_COVERED)
        assert all(reason in statements(one)[0] for reason in one.coverage.reasons)
    assert statements(posterior)[0].endswith("Bands are those of the posterior alone.")
    assert "posterior" not in statements(unknown)[0]  # its bands have the factor of other systems


def test_weights_calibrated_on_their_own_solver_cover_no_specimen(discovery):
    assert not bool(discovery.kernel.outlier_test.is_outlier)
    assert discovery.coverage.reasons == (SAME_DISCRETISATION,)


def test_noise_that_was_estimated_is_stated_as_a_share_of_the_readings(at_sensors, fitted_as):
    assert "estimated from the residuals" in statements(at_sensors)[0]
    (sentence,) = (one for one in statements(at_sensors) if one.startswith("Noise not stated"))
    share = float(re.search(r"as ([\d.]+) % of the readings", sentence)[1])
    summary = at_sensors.kernel.laws[0].summary
    assert share == pytest.approx(100 * summary["noise"] / summary["size"], rel=0.06)
    assert f"({number(summary['noise'])} m)" in sentence.replace(" × ", "\u00a0×\u00a0")
    assert not any("weights" in one for one in statements(at_sensors))
    without = fitted_as(noise=0.25, size=None)
    assert any("from the residuals as 0.25 m." in one for one in statements(without))
    stated = statements(fitted_as(noise_stated=True))
    assert not any(one.startswith("Noise not stated") for one in stated)
    assert any(one.startswith("In-distribution check") for one in stated)


def test_phases_are_reported_only_where_the_data_prefer_them(at_sensors, fitted_as):
    assert at_sensors.kernel.laws[0].summary["model"] == "smooth"
    assert not prefers_phases(at_sensors)
    assert not any("phase" in one for one in statements(at_sensors))
    low, median, high = np.percentile(at_sensors.material.values[1:-1, 1:-1], (5, 50, 95))
    assert statements(at_sensors)[1] == (
        f"Smooth transmissivity: from {number(low)} to {number(high)} m²/d (5 % and 95 % of interior nodes), "
        f"median {number(median)} m²/d."
    )
    for count in (2, 3):
        one = fitted_as(model=f"{count} phases")
        assert prefers_phases(one)
        assert one.kernel.phases == count
        assert not statements(one)[1].startswith("Smooth")
    assert len(at_sensors.phases.medians) == 1
    assert fitted_as(model="tikhonov").kernel.phases is None  # fitted for comparison: nothing was preferred


def test_another_model_that_explains_the_readings_is_mentioned(fitted_as):
    decided, undecided = (statements(fitted_as(undecided=undecided)) for undecided in (False, True))
    (sentence,) = set(undecided) - set(decided)
    assert sentence.startswith("A material with phases explains the readings as well")
    assert set(decided) < set(undecided)


def test_shares_count_interior_nodes_everywhere(discovery):
    grid = discovery.kernel.grid
    labels = np.zeros(grid.shape)
    labels[:, -1] = labels[:, 0] = labels[5:10, 5:9] = 1  # sides, and 20 of 19² interior nodes
    identifiable = np.where(np.asarray(grid.unknown), 1.0, 0.0)
    identifiable[3, 3:9] = 0.1
    low = discovery.material.values.copy()
    low[5:10, 5:9] /= 20  # the band of 20 of 19² nodes is wider than a factor of 2
    changed = replace(
        discovery, phases=replace(discovery.phases, labels=labels, probability=np.where(labels > 0, 0.5, 1.0)),
        material=replace(discovery.material, identifiable=identifiable, low=low),
    )  # fmt: skip
    sentences = statements(changed)
    assert "11.9 kN on 6 % of interior nodes; 5.5 % of them" in sentences[1]
    assert "98 % of interior nodes; its band stays within a factor of 2 at 94 % of" in sentences[4]
    record = summary(changed, factors_of(changed.kernel))
    assert record["phases"]["shares"] == pytest.approx([1 - 20 / 361, 20 / 361])
    assert record["phases"]["uncertain_share"] == pytest.approx(20 / 361)
    assert record["coefficient"]["identifiable_share"] == pytest.approx(1 - 6 / 361)
    assert record["coefficient"]["known_share"] == pytest.approx(1 - 20 / 361)
    written = page(changed)
    assert re.findall(r"phase \d: [^<]*?, (\d+) % of interior nodes", written)[:2] == ["94", "6"]
    assert re.search(r'id="known".*?class="value">94\u00a0%.*?identifiable: 98\u00a0%<', written)
    shares = {
        float(share) for share in re.findall(r"([\d.]+)[ \u00a0]% of interior nodes", re.sub("<[^>]*>", " ", written))
    }
    assert shares == {94, 6, 98, 99}  # 99: the colour scale


def test_the_gain_is_what_the_statement_says(discovery):
    assert "2 % in all loads is an error of 2 % in the tension" in statements(discovery)[-1]
    assert "2 % in all responses an error of −2 %" in statements(discovery)[-1]
    pairs = discovery.measurement.pairs.to(dtype=torch.float32)
    model = nipde.load("darcy-two-phase")
    kernels = {
        name: model(replace(pairs, **changed))
        for name, changed in {
            "as read": {}, "loads": {"loads": 1.02 * pairs.loads}, "responses": {"responses": 1.02 * pairs.responses},
        }.items()
    }  # fmt: skip
    plain = kernels["as read"].coefficient
    assert float((kernels["loads"].coefficient / plain).median()) == pytest.approx(1.02, abs=1e-3)
    assert float((kernels["responses"].coefficient / plain).median()) == pytest.approx(1 / 1.02, abs=1e-3)


def test_names_keep_their_capitals():
    assert [capitalised(name) for name in ("tension", "EI", "pH", "Young's modulus", "")] == [
        "Tension", "EI", "PH", "Young's modulus", "",
    ]  # fmt: skip


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


def test_phases_that_vary_are_said_to(fitted_as):
    shown = fitted_as(model="2 varying phases", variation=0.123)
    assert any("of interior nodes, varying within each by ± 12 %;" in one for one in statements(shown))
    assert not any("varying" in one for one in statements(fitted_as(model="2 phases")))
