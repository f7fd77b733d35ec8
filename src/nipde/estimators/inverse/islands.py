"""Small islands of a phase that the readings do not ask for.

Where readings say little, as beside a well, a smooth material returns to its mean. Phases that start from it have an
island there, and no level set moves across one.
"""

from math import log

import numpy as np
from jaxtyping import Bool
from scipy.ndimage import binary_dilation, label

from nipde.estimators.inverse.candidate import Candidate
from nipde.estimators.inverse.level_sets import LevelSetPhases, signed_distance
from nipde.estimators.inverse.material_models import Parameters

#: Islands have at most this share of the nodes.
SMALL = 0.01
#: If the readings ask for some of them, so many, the smallest first, are tried one by one.
MOST = 12
#: Without all of them, the fit is given up if χ² is larger by this after so many steps.
HOPELESS, FIRST = 1.2, 3
#: Nodes around an island where its level set changes.
BESIDE = 2

Island = tuple[int, Bool[np.ndarray, "*space"]]


def without_islands(found: Candidate, *, steps: int) -> Candidate:
    """Fitted again without islands as long as the criterion falls: without all of them, else without those alone."""
    model = found.fit.model
    while isinstance(model, LevelSetPhases) and (islands := islands_of(model, found.fit.parameters)):
        begun = found.problem.minimised(model, filled(model, found.fit.parameters, islands), steps=FIRST)
        if begun.chi_square > HOPELESS * found.fit.chi_square:
            return _without_some(found, model, islands, steps=steps)
        fewer = found.problem.candidate(model, begun.parameters, steps=steps)
        if fewer.criterion >= found.criterion:
            return _without_some(found, model, islands, steps=steps)
        found = fewer
    return found


def _without_some(found: Candidate, model: LevelSetPhases, islands: list[Island], *, steps: int) -> Candidate:
    """Without those of the smallest that explain less than one parameter would."""
    problem, parameters = found.problem, found.fit.parameters
    allowed = found.fit.chi_square * found.count + log(found.count)
    for island in islands[:MOST]:
        fewer = filled(model, parameters, [island])
        if float(np.sum(problem.fine.system.weights * problem.residual(model, fewer) ** 2)) < allowed:
            parameters = fewer
    if parameters is found.fit.parameters:
        return found
    return min(found, problem.candidate(model, parameters, steps=steps), key=lambda one: one.criterion)


def islands_of(model: LevelSetPhases, parameters: Parameters) -> list[Island]:
    """Small connected parts of either side of every level set, the smallest first."""
    islands = []
    for number, level_set in enumerate(model.parts(parameters)[0]):
        positive = level_set.reshape(model.grid.shape) > 0
        for side in (positive, ~positive):
            parts, count = label(side)
            sizes = np.bincount(parts.ravel())
            islands += [(number, parts == k) for k in range(1, count + 1) if sizes[k] <= SMALL * side.size]
    return sorted(islands, key=lambda one: int(one[1].sum()))


def filled(model: LevelSetPhases, parameters: Parameters, islands: list[Island]) -> Parameters:
    """With the phase around islands in them."""
    sets, levels = model.parts(parameters)
    sets = sets.copy()
    for number in {number for number, _ in islands}:
        mine = np.any([island for of, island in islands if of == number], axis=0)
        other = np.where(mine.ravel(), -sets[number], sets[number])
        near = binary_dilation(mine, iterations=BESIDE).ravel()
        sets[number] = np.where(near, signed_distance(model.grid, other), other)
    return np.concatenate([*sets, levels])
