"""The results of a discovery as sentences, the most important first."""

import math

import numpy as np

from nipde.discovery.discovery import IDENTIFIABLE, Discovery
from nipde.errors import KernelError
from nipde.kernels.prediction_bands import OutlierTest
from nipde.report.numbers import number, percent, unit_symbol, unit_text

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
    "contrast": (
        "a more homogeneous material than in the calibration systems",
        "phases further apart than in the calibration systems",
    ),
}
COUNTS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}


def statements(discovery: Discovery) -> tuple[str, ...]:
    """One sentence for each result."""
    grid, material = discovery.kernel.grid, discovery.material
    interior = np.asarray(grid.unknown)
    sentences = [phase_statement(discovery), held_out_statement(discovery)]
    test = discovery.kernel.outlier_test
    if test is None:
        sentences.append(
            "In-distribution check not available: these weights are not calibrated for pairs like these (many gaps, "
            "noisy loads, or weights of your own)."
        )
    else:
        sentences.append(outlier_statement(test))
    if not all(axis.boundary.essential for axis in grid.axes):
        sentences.append(
            "Not all sides are Dirichlet boundaries; the weights that come with nipde were trained with these only."
        )
    share = float(np.mean(material.identifiable[interior] >= IDENTIFIABLE))
    sentences.append(f"The {material.quantity} is identifiable at {100 * share:.0f} % of interior nodes.")
    half = float(np.median((np.log(material.high / material.low) / 2)[interior]))
    kind = "calibrated on other systems" if material.calibrated else "from the posterior alone, not calibrated"
    sentences.append(
        f"{100 * material.level:g} % bands of the {material.quantity}: ± {percent(np.expm1(half))} (median), {kind}."
    )
    if loads := discovery.recommended_loads.names:
        gain = percent(float(discovery.recommended_loads.gains[0]))
        sentences.append(
            f"Recommended load: {unit_symbol(loads[0])}; it removes {gain} of the remaining variance of predictions "
            "for long waves."
        )
    return tuple(sentence.replace("\u00a0", " ") for sentence in sentences)


def phase_statement(discovery: Discovery) -> str:
    """Coefficient and area of every phase."""
    material, phases = discovery.material, discovery.phases
    interior = np.asarray(discovery.kernel.grid.unknown)
    values = [f"{number(median)}{unit_text(material.unit)}" for median in phases.medians]
    if len(values) == 1:
        return f"One phase: {material.quantity} {values[0]}."
    shares = [100 * float(np.mean(phases.labels[interior] == phase)) for phase in range(len(values))]
    parts = [f"{value} on {share:.0f} %" for value, share in zip(values, shares, strict=True)]
    uncertain = 100 * float(np.mean(phases.uncertain[interior]))
    return (
        f"{COUNTS.get(len(parts), len(parts))} phases: {material.quantity} {', '.join(parts)} of the area; "
        f"{uncertain:.1f} % of nodes have an uncertain phase (another phase above 5 %)."
    )


def held_out_statement(discovery: Discovery) -> str:
    """The held-out prediction error, and that of the best baseline."""
    if discovery.held_out is None:
        return "Held-out prediction error not available: too few pairs to hold one out."
    errors = {one.held_out_error: one.name for one in discovery.baselines if math.isfinite(one.held_out_error)}
    best = f" (best baseline, {errors[min(errors)]}: {percent(min(errors))})" if errors else ""
    return f"Held-out prediction error: {percent(float(discovery.held_out.errors.mean()))}{best}."


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
