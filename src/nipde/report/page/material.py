"""Maps of the coefficient, of its band, of its identifiability, and of its phases where the data prefer them."""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from nipde.discovery.discovery import CERTAIN, IDENTIFIABLE, Discovery, Phases
from nipde.report.faulty_readings import faulty_sensors
from nipde.report.interior import half_width, interior_share
from nipde.report.numbers import capitalised, number, unit_text
from nipde.report.page.colours import LAST, Colours, hex_colours
from nipde.report.page.figure import Figure, line
from nipde.report.page.scale import Scale
from nipde.report.page.sections import Section
from nipde.report.page.view import Plot, View, rounded
from nipde.report.phases import prefers_phases


def material_section(discovery: Discovery, view: View) -> tuple[Section, Section]:
    """`map` and `half-width` are on the first screen; the others follow below."""
    material, phases = discovery.material, discovery.phases
    coefficient = coefficient_figure(discovery, view)
    sensors, faulty = sensor_places(discovery, view), faulty_places(discovery, view)
    on_top = replace(coefficient, name="map", quiet=True, sensors=sensors, faulty=faulty)
    figures = [on_top, half_width_figure(discovery, view), coefficient, identifiability_figure(discovery, view)]
    if prefers_phases(discovery):
        figures.append(phase_figure(discovery, view, phases))
    fields = {
        "values": material.values, "low": material.low, "high": material.high, "phase": phases.labels,
        "identifiable": material.identifiable, "probability": phases.probability,
    }  # fmt: skip
    kept = {name: rounded(field if view.whole else view.shown(field)) for name, field in fields.items()}
    data: Section = kept | {
        "quantity": material.quantity, "unit": unit_text(material.unit), "level": f"{100 * material.level:g} %",
        "switch": coefficient.colours.to_json(), "planes": all_planes(discovery, view) if view.whole else None,
    }  # fmt: skip
    return {"figures": {figure.name: figure for figure in figures}, "phases": phases}, data


def all_planes(discovery: Discovery, view: View) -> Section:
    """Codes of whole fields by figure, from which the script cuts planes through any node."""
    material, phases, half = discovery.material, discovery.phases, 100 * half_width(discovery)
    scale, stack = coefficient_scale(discovery, view), np.stack([material.values, material.low, material.high])
    found = {
        "coefficient": Colours.on(scale, stack),
        "half-width": Colours.on(half_width_scale(discovery), half[None]),
        "identifiable": Colours.between(material.identifiable, 0, 1),
        "phases": Colours.between(phases.labels, 0, max(1, len(phases.medians) - 1)),
    }
    limits = {"identifiable": IDENTIFIABLE, "probability": CERTAIN}
    return {name: colours.to_json() for name, colours in found.items()} | {"limits": limits}


def coefficient_figure(discovery: Discovery, view: View) -> Figure:
    """The estimate and both ends of its band, on one scale."""
    material, scale, plot = discovery.material, coefficient_scale(discovery, view), view.plot()
    values, low, high = (view.shown(field) for field in (material.values, material.low, material.high))
    unidentified, means = unidentified_cells(discovery, view)
    return Figure(
        view, Colours.on(scale, np.stack([values, low, high])), "coefficient", capitalised(material.quantity),
        material.quantity, material.unit, scale=scale, follows=True, hatched=unidentified, hatched_means=means,
        area=line_area(view, plot, low, high, scale) if view.dimension == 1 else "",
    )  # fmt: skip


def half_width_figure(discovery: Discovery, view: View) -> Figure:
    """Of the band, in percent of the coefficient."""
    half, level = 100 * view.shown(half_width(discovery)), f"{100 * discovery.material.level:g} %"
    scale = half_width_scale(discovery)
    return Figure(
        view, Colours.on(scale, half[None]), "half-width", f"Half width of the {level} band",
        f"half width as a share of the {discovery.material.quantity}", "%", scale=scale, follows=True, quiet=True,
    )  # fmt: skip


def half_width_scale(discovery: Discovery) -> Scale:
    """From 0, of all nodes."""
    return Scale.of(100 * half_width(discovery), among=discovery.kernel.interior, from_zero=True)


def identifiability_figure(discovery: Discovery, view: View) -> Figure:
    """From 0 to 1."""
    unidentified, means = unidentified_cells(discovery, view)
    return Figure(
        view, Colours.between(view.shown(discovery.material.identifiable), 0, 1), "identifiable", "Identifiability",
        "identifiability", "", ends=("0, not determined by the data", "1, determined"), follows=True,
        hatched=unidentified, hatched_means=means,
    )  # fmt: skip


def phase_figure(discovery: Discovery, view: View, phases: Phases) -> Figure:
    """One colour for each phase."""
    labels = view.shown(phases.labels)
    return Figure(
        view, Colours.between(labels, 0, max(1, len(phases.medians) - 1)), "phases", "Phases", "phase", "",
        swatches=phase_swatches(discovery, phases), follows=True,
        hatched=hatched_cells(view, phases.uncertain),
        hatched_means="phase uncertain: another phase above 5 %",
    )  # fmt: skip


def coefficient_scale(discovery: Discovery, view: View) -> Scale:
    """Maps spend their colours on the values; lines have room for the band."""
    material = discovery.material
    shown = (material.low, material.high) if view.dimension == 1 else (material.values,)
    return Scale.of(np.stack(shown), among=discovery.kernel.interior)


def unidentified_cells(discovery: Discovery, view: View) -> tuple[str, str]:
    """Path around the nodes that the pairs do not determine, and its meaning."""
    cells = hatched_cells(view, discovery.material.identifiable < IDENTIFIABLE)
    return cells, f"not identifiable (less than {100 * IDENTIFIABLE:g} %)"


def hatched_cells(view: View, mask: ndarray) -> str:
    """Path around the nodes of a mask; of a box whose other planes have some, at least an empty one."""
    return view.cells(view.plot(), view.shown(mask)) or ("M0 0" if view.whole and mask.any() else "")


def sensor_places(discovery: Discovery, view: View) -> tuple[tuple[float, float], ...]:
    """Where responses were read at scattered points; none where they were read at the nodes, or not on a plane."""
    readings = discovery.measurement.readings
    if readings is None or len(view.coordinates) != 2:
        return ()
    return view.points(view.plot(), np.asarray(readings.sensors.points))


def faulty_places(discovery: Discovery, view: View) -> tuple[tuple[float, float], ...]:
    """Of sensors that were left out, scattered or at nodes."""
    found = faulty_sensors(discovery)
    if not found or len(view.coordinates) != 2:
        return ()
    positions = np.array([one["position"] for one in found]) - np.array(discovery.measurement.origin)
    return view.points(view.plot(), positions)


def line_area(view: View, plot: Plot, low: ndarray, high: ndarray, scale: Scale) -> str:
    """The band between two lines as a closed path."""
    sides = [np.clip(np.nan_to_num(scale.shares(side)), 0, 1) for side in (low, high)]
    there, back = (line(view, plot, side) for side in sides)
    points = back.replace("M", "L").split("L")[1:]
    return there + "".join(f"L{point}" for point in reversed(points)) + "z"


def phase_swatches(discovery: Discovery, phases: Phases) -> tuple[tuple[str, str], ...]:
    """Colour and words of every phase."""
    last, unit = max(1, len(phases.medians) - 1), unit_text(discovery.material.unit)
    shares = [interior_share(discovery.kernel, phases.labels == i) for i in range(len(phases.medians))]
    return tuple(
        (
            hex_colours("batlow")[round(LAST * i / last)],
            f"phase {i + 1}: {number(median)}{unit}, {100 * share:.0f} % of interior nodes",
        )
        for i, (median, share) in enumerate(zip(phases.medians, shares, strict=True))
    )
