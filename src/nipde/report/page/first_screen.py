"""The first screen: specimen, file and date; whether the case is covered; held-out error, band, identifiability."""

from datetime import datetime
from pathlib import PurePath

import numpy as np

from nipde.discovery.discovery import Discovery
from nipde.report.faulty_readings import left_out
from nipde.report.interior import FACTOR, half_width, identifiable_share, interior_percentiles, known_share
from nipde.report.numbers import percent
from nipde.report.page.sections import Section
from nipde.report.statements import COVERED, NOT_COVERED, best_baseline, check_remark, coverage_means

#: Names of files that the head of the page lists; the others are at its end.
LISTED = 3


def first_screen(discovery: Discovery) -> Section:
    """Identity, coverage and the numbers to read first; the maps are those of the material section."""
    return {
        **identity(discovery), "coverage": coverage_box(discovery), "facts": facts(discovery),
        "warnings": sum(note.kind == "warning" for note in discovery.measurement.notes),
    }  # fmt: skip


def identity(discovery: Discovery) -> Section:
    """Name of the specimen, its files, the date, and what was measured.

    Provenance may state `specimen`, `measured_on` and the `date` of this page; without them these are the first file's
    name, nothing and today.
    """
    measurement, provenance = discovery.measurement, discovery.provenance
    names = [source.name for source in measurement.sources]
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    named = PurePath(names[0]).stem if names else "Specimen"
    grid = " × ".join(map(str, measurement.pairs.grid.shape))
    count, readings = measurement.pairs.count, measurement.readings
    pairs = f"{count} loads and responses on {grid} nodes"
    if readings is not None:
        pairs = f"{count} loads, responses at {len(readings.sensors)} points, map on {grid} nodes"
    return {
        "name": str(provenance.get("specimen") or named),
        "files": ", ".join(names[:LISTED]) + more,
        "date": str(provenance.get("date") or datetime.now().astimezone().date().isoformat()),
        "measured_on": str(provenance.get("measured_on") or ""),
        "pairs": pairs,
    }


def coverage_box(discovery: Discovery) -> Section:
    """Covered or not, with the reasons; a check that failed is marked more strongly than a case never measured."""
    coverage, test = discovery.coverage, discovery.kernel.outlier_test
    check = discovery.held_out and discovery.held_out.check
    box = {
        "reasons": coverage.reasons, "means": coverage_means(discovery),
        "left_out": left_out(discovery),
    }  # fmt: skip
    if coverage.covered:
        return {**box, "kind": "passed", "icon": "✓", "title": COVERED}
    failed = bool((test is not None and test.is_outlier) or (check and check.fails))
    return {**box, "kind": "failed" if failed else "unknown", "icon": "!" if failed else "?", "title": NOT_COVERED}


def facts(discovery: Discovery) -> list[Section]:
    """Name, number and remark, the most important first."""
    material, held_out, baseline = discovery.material, discovery.held_out, best_baseline(discovery)
    error, remark = "—", "too few pairs to hold one out"
    if held_out is not None:
        error, remark = percent(float(np.mean(held_out.errors))), "relative, mean over held-out pairs"
        remark += check_remark(held_out)
        if baseline is not None:
            remark = f"best baseline, {baseline.name}: {percent(baseline.held_out_error)}"
    (half,) = interior_percentiles(discovery.kernel, half_width(discovery), 50)
    return [
        {"id": "held-out-error", "name": "Held-out error", "value": error, "remark": remark},
        {
            "id": "band", "name": f"{100 * material.level:g} % band", "value": f"± {percent(float(half))}",
            "remark": f"of the {material.quantity}, median",
        },
        {
            "id": "known", "name": f"Known within a factor of {FACTOR:g}",
            "value": f"{100 * known_share(discovery):.0f}\u00a0%",
            "remark": f"of interior nodes; identifiable: {100 * identifiable_share(discovery):.0f}\u00a0%",
        },
    ]  # fmt: skip
