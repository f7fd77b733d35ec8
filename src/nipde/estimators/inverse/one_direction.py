"""Candidates that vary in one direction only, near a smooth material that nearly does: graded ones, and layers.

A graded profile is fitted first. Cut into layers, whose interfaces are parameters then, it is where these start.
"""

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import scipy.linalg as dense
import scipy.sparse as sparse
from jaxtyping import Float

from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.inverse_problem import InverseProblem
from nipde.estimators.inverse.layers import AlongOneDirection, Graded, Layers, direction_of
from nipde.estimators.inverse.material_models import Parameters

#: They are tried if the squared slopes of the smooth material across the direction are less than this share of those
#: along it.
ACROSS = 0.25
#: Deviations that a profile passes through before those of the data, as shares of the responses' root mean square. It
#: is given up if its misfit is larger than HOPELESS then.
OF_PROFILE, HOPELESS = (0.1, 0.03), 1.5
#: The same for layers, and the share of the profile's variance that each of these costs at the start.
OF_LAYERS, COSTS = (0.03, 0.01, 0.003, 0.001), (0.02, 0.005)


def along_one_direction(
    problem: InverseProblem, smooth: Candidate, *, layers: bool, steps: int
) -> dict[str, Candidate]:
    """A graded material and, if asked for, one of `layers`; none if the smooth one varies across its direction, too."""
    nodes, specimen = problem.nodes, problem.pairs.specimen
    if nodes.dimension != 2:
        return {}
    field = smooth.fit.model.at_nodes(smooth.fit.parameters)
    inside = np.ones(nodes.shape, dtype=bool) if specimen is None else specimen.shape.holds_nodes(nodes)
    angle, across = direction_of(nodes, field, inside.ravel())
    if across > ACROSS:
        return {}
    jumping = Graded(nodes, angle=angle)
    profile = jumping.start(field)
    for share in OF_PROFILE:
        tolerance = 0.02 if share == OF_PROFILE[0] else 1e-4
        begun = problem.roughly(share).minimised(jumping, profile, steps=8, tolerance=tolerance, coarse=True)
        profile = begun.parameters
    if begun.chi_square > HOPELESS:
        return {}
    graded = problem.candidate(jumping, profile, steps=steps)
    gradual = problem.candidate(replace(jumping, order=2), graded.fit.parameters, steps=steps)
    found = {"graded": min(graded, gradual, key=lambda one: one.criterion)}
    return {**found, "layers": _layered(problem, graded, steps=steps)} if layers else found


def _layered(problem: InverseProblem, graded: Candidate, *, steps: int) -> Candidate:
    """Layers near a profile: few, or more if these do not explain the readings."""
    jumping, profile, best = graded.fit.model, graded.fit.parameters, None
    assert isinstance(jumping, Graded)
    known = np.isin(np.arange(jumping.knots), graded.near.active - 1)
    model = Layers(problem.nodes, angle=jumping.direction(profile))
    for cost in COSTS:
        one = _in_stages(problem, model, model.start(jumping, profile, known=known, share=cost), steps=steps)
        if best is None or one.criterion < best.criterion:
            best = one
        if not one.significant:
            break
    assert best is not None
    return _simplest(best, steps=steps)


def _simplest(best: Candidate, *, steps: int) -> Candidate:
    """With fewer layers as long as the criterion falls."""
    while isinstance(best.fit.model, Layers):
        fewer = best.fit.model.simpler(best.fit.parameters)
        other = None if fewer is None else best.problem.candidate(best.fit.model, fewer, steps=steps)
        if other is None or other.criterion > best.criterion:
            break
        best = other
    return best


def _in_stages(problem: InverseProblem, model: Layers, parameters: Parameters, *, steps: int) -> Candidate:
    """The minimum, by way of larger deviations."""
    for share in OF_LAYERS:
        if share * problem.size > 2 * problem.usual_deviation:
            parameters = problem.roughly(share).minimised(model, parameters, steps=6).parameters
    return problem.candidate(model, parameters, steps=steps)


def layers_of(best: Candidate) -> dict[str, Any]:
    """Of a material that varies in one direction only: that in degrees with its deviation, and the layers.

    Interfaces are distances from the middle of the box along the direction; `values` are b between them.
    """
    model, parameters = best.fit.model, best.fit.parameters
    if not isinstance(model, AlongOneDirection):
        return {}
    covariance = max(1.0, best.fit.chi_square) * dense.inv(best.curvature + best.precision)
    found: dict[str, Any] = {
        "direction": float(np.degrees(model.direction(parameters)) % 180),
        "deviation": float(np.degrees(sqrt(covariance[0, 0]) / model.reach)),
    }

    def variance(rows: sparse.csr_array) -> Float[np.ndarray, " row"]:
        of_active = rows[:, best.near.active].toarray()
        return np.einsum("ri,ij,rj->r", of_active, covariance, of_active)

    if isinstance(model, Layers):
        found["phases"] = model.phases(parameters, variance)
        found["interfaces"] = (np.sort(model.parts(parameters)[2]) * np.mean(model.grid.spacing)).tolist()
        found["values"] = np.exp(model.levels(parameters)).tolist()
    return {"layers": found}
