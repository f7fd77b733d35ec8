"""The results of a discovery as sentences, the most important first."""

import math

from nipde.discovery.discovery import Baseline, Discovery, HeldOut
from nipde.errors import KernelError
from nipde.kernels.prediction_bands import OutlierTest
from nipde.kernels.refined import SMOOTH
from nipde.report.faulty_readings import faulty_readings_statement
from nipde.report.interior import (
    FACTOR,
    half_width,
    identifiable_share,
    interior_percentiles,
    interior_share,
    known_share,
)
from nipde.report.numbers import number, percent, unit_symbol, unit_text
from nipde.report.phases import fit_summary, prefers_phases

#: Usual causes of a score below, or above, those of the calibration systems.
CAUSES = {
    "stiffness": (
        "responses far larger for their loads: other units, or a softer material",
        "responses far smaller for their loads: other units, or a stiffer material",
    ),
    "misfit": (
        "the law explains the responses unusually well: a more homogeneous material, or less noise than stated",
        "the law does not explain the responses: swapped axes, another law, or more noise than stated",
    ),
    "whiteness": ("", "neighbouring sensors are off together: correlated noise, another law, or a support that gives"),
    "pattern": ("", "some sensors are off in the same way in all tests: a shifted zero, or a wrong position"),
    "gain": ("", "responses of a test are off in proportion: loads with an error of their size; try --nuisance [gain]"),
    "offset": ("", "all readings of a test are off by one number: a shifted zero; try --nuisance [offset]"),
    "tails": ("", "single readings are far off; try --nuisance [outliers]"),
    "proportion": ("", "large readings have larger errors: state the noise of every reading"),
    "contrast": (
        "a more homogeneous material than in the calibration systems",
        "phases further apart than in the calibration systems",
    ),
}
#: The first words of the first statement.
COVERED, NOT_COVERED = "Covered by the calibration", "Not covered by the calibration"
COUNTS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}


def statements(discovery: Discovery) -> tuple[str, ...]:
    """One sentence for each result: coverage, material, held-out error, tests, bands, loads, and what is not seen."""
    sentences = [coverage_statement(discovery), faulty_readings_statement(discovery)]
    sentences += [material_statement(discovery), undecided_statement(discovery)]
    sentences += [held_out_statement(discovery), check_statement(discovery)]
    quantity, share = discovery.material.quantity, identifiable_share(discovery)
    sentences.append(
        f"The {quantity} is identifiable at {100 * share:.0f} % of interior nodes; its band stays within a factor of "
        f"{FACTOR:g} at {100 * known_share(discovery):.0f} % of interior nodes."
    )
    sentences.append(band_statement(discovery))
    if loads := discovery.recommended_loads.names:
        gain = percent(float(discovery.recommended_loads.gains[0]))
        sentences.append(
            f"Recommended load: {unit_symbol(loads[0])}; it removes {gain} of the remaining variance of predictions "
            "for such loads and those so far."
        )
    sentences.append(gain_statement(discovery))
    return tuple(sentence.replace("\u00a0", " ") for sentence in sentences if sentence)


def coverage_statement(discovery: Discovery) -> str:
    """Whether bands were measured on systems like this one; if not, why."""
    coverage = discovery.coverage
    if coverage.covered:
        return f"{COVERED}: {coverage_means(discovery)}"
    return f"{NOT_COVERED}: {'; '.join(coverage.reasons)}. {coverage_means(discovery)}"


def coverage_means(discovery: Discovery) -> str:
    """What coverage, or its absence, says of the bands."""
    covered, calibrated = discovery.coverage.covered, discovery.material.calibrated
    level = f"{100 * discovery.material.level:g} %"
    if covered:
        return f"{level} bands were {'calibrated' if calibrated else 'checked'} on systems like this one."
    if calibrated:
        return f"Bands are calibrated on other systems: they may hold fewer than {level} of the true values."
    return "Bands are those of the posterior alone."


def material_statement(discovery: Discovery) -> str:
    """Coefficient and share of every phase; percentiles where the data prefer a smooth material; layers, if it has."""
    sentence = phase_statement(discovery) if prefers_phases(discovery) else range_statement(discovery)
    return sentence + direction_statement(discovery)


def direction_statement(discovery: Discovery) -> str:
    """Of a material that varies in one direction only; empty of others."""
    summary = fit_summary(discovery.kernel)
    if summary is None or summary["model"] not in ("graded", "layers"):
        return ""
    found = summary["layers"]
    along = f"{found['direction']:.1f}° ± {max(found['deviation'], 0.1):.1f}° from the first axis"
    if summary["model"] == "graded":
        return f" It varies in one direction only, {along}."
    return f" It has {len(found['values'])} layers between straight interfaces, their normal {along}."


def range_statement(discovery: Discovery) -> str:
    """Median and range of the coefficient."""
    material, summary = discovery.material, fit_summary(discovery.kernel)
    kind = "Layered" if summary is not None and summary["model"] == "layers" else "Smooth"
    low, median, high = interior_percentiles(discovery.kernel, material.values, 5, 50, 95)
    return (
        f"{kind} {material.quantity}: from {number(low)} to {number(high)}{unit_text(material.unit)} "
        f"(5 % and 95 % of interior nodes), median {number(median)}{unit_text(material.unit)}."
    )


def phase_statement(discovery: Discovery) -> str:
    """Coefficient and share of every phase."""
    kernel, material, phases = discovery.kernel, discovery.material, discovery.phases
    values = [f"{number(median)}{unit_text(material.unit)}" for median in phases.medians]
    if len(values) == 1:
        return f"One phase: {material.quantity} {values[0]}."
    shares = [100 * interior_share(kernel, phases.labels == phase) for phase in range(len(values))]
    parts = [f"{value} on {share:.0f} %" for value, share in zip(values, shares, strict=True)]
    uncertain = 100 * interior_share(kernel, phases.uncertain)
    variation = (fit_summary(kernel) or {}).get("variation")
    varying = "" if variation is None else f", varying within each by ± {percent(variation)}"
    return (
        f"{COUNTS.get(len(parts), len(parts))} phases: {material.quantity} {', '.join(parts)} of interior "
        f"nodes{varying}; "
        f"{uncertain:.1f} % of them have an uncertain phase (another phase above 5 %)."
    )


def undecided_statement(discovery: Discovery) -> str:
    """Empty unless a fit by output error found another model that is as good."""
    summary = fit_summary(discovery.kernel)
    if summary is None or not summary["undecided"]:
        return ""
    other = "with phases" if summary["model"] in SMOOTH else "that is smooth or has other phases"
    return f"A material {other} explains the readings as well; the bands include its distance."


def check_statement(discovery: Discovery) -> str:
    """The outlier test, or the noise where it was estimated; empty where coverage says why there is none."""
    test, summary = discovery.kernel.outlier_test, fit_summary(discovery.kernel)
    if test is not None:
        return outlier_statement(test)
    if summary is None or summary["noise_stated"]:
        return ""
    amount = f"{number(summary['noise'])}{unit_text(discovery.measurement.units.response)}"
    if size := summary.get("size"):
        amount = f"{percent(summary['noise'] / size)} of the readings ({amount})"
    return f"Noise not stated: estimated from the residuals as {amount}. The law is not tested then."


def band_statement(discovery: Discovery) -> str:
    """The usual half width of the band."""
    material = discovery.material
    (half,) = interior_percentiles(discovery.kernel, half_width(discovery), 50)
    kind = "from the posterior"
    if material.calibrated:
        kind = "calibrated" if discovery.coverage.covered else "calibrated on other systems"
    return f"{100 * material.level:g} % bands of the {material.quantity}: ± {percent(half)} (median), {kind}."


def gain_statement(discovery: Discovery) -> str:
    """What no set of pairs can tell: b scales with all loads, and with the inverse of all responses."""
    quantity = discovery.material.quantity
    return (
        f"Not seen in the pairs: a common gain. An error of 2 % in all loads is an error of 2 % in the {quantity}, "
        "one of 2 % in all responses an error of −2 %; the held-out error shows neither."
    )


def held_out_statement(discovery: Discovery) -> str:
    """The held-out prediction error, and that of the best baseline."""
    if discovery.held_out is None:
        return "Held-out prediction error not available: too few pairs to hold one out."
    best = best_baseline(discovery)
    beside = f" (best baseline, {best.name}: {percent(best.held_out_error)})" if best else ""
    allowed = check_remark(discovery.held_out)
    return f"Held-out prediction error: {percent(float(discovery.held_out.errors.mean()))}{allowed}{beside}."


def check_remark(held_out: HeldOut) -> str:
    """Whether noise and bands allow the held-out errors; empty where neither is known."""
    if held_out.check is None:
        return ""
    return f", {'more than' if held_out.check.fails else 'as'} noise and bands allow"


def best_baseline(discovery: Discovery) -> Baseline | None:
    """That of the smallest held-out error; None where no baseline has one."""
    measured = [one for one in discovery.baselines if math.isfinite(one.held_out_error)]
    return min(measured, key=lambda one: one.held_out_error, default=None)


def outlier_statement(test: OutlierTest, system: int | tuple[int, ...] = ()) -> str:
    """Whether the pairs of one system look like those of the calibration systems; if not, the usual causes."""
    if test.is_outlier[system].ndim:
        raise KernelError(
            expected="one system", got=f"a batch {tuple(test.is_outlier.shape)}", remedy="give the number of a system"
        )
    scores = {name: float(values[system]) for name, values in test.scores.items()}
    outside = {name: score for name, score in scores.items() if not abs(score) <= test.threshold}
    if not outside:
        name = max(scores, key=lambda name: abs(scores[name]))
        return (
            f"In-distribution check passed (largest z-score: {name}, {scores[name]:.1f}; limit {test.threshold:.1f})."
        )
    parts = [
        f"{name}, {score:.1f} ({CAUSES[name][int(score > 0)]})"
        for name, score in sorted(outside.items(), key=lambda entry: -abs(entry[1]))
    ]
    return f"In-distribution check failed (limit {test.threshold:.1f}): z-score of {'; of '.join(parts)}."
