"""SimPEG on an aquifer: heads of wells at sensors to log b, as its DC resistivity in a plane. Run by a Python with it.

-∇·(b∇u) = δ(x - well), u = 0 on the rim: `Simulation3DCellCentered` on a mesh of two dimensions, its model log(1 / b).
`python simpeg_aquifer.py given.npz found.npz`. Given: wells (load, 2), readings (load, sensor), sensors (sensor, 2),
noise, low and high of the square, queries (load, 2), lattice (point, 2), centres (cell, 2), setting (JSON). Found:
log_b at the centres, responses (load, point), seconds, chi_square, version. Wells and sensors are at centres of cells:
those at the rim have half the width.
"""

# mypy: ignore-errors

import json
import sys
import time

import numpy as np
import simpeg
from discretize import TensorMesh
from simpeg import (
    data,
    data_misfit,
    directives,
    inverse_problem,
    inversion,
    maps,
    optimization,
    regularization,
)
from simpeg.electromagnetics.static import resistivity


def main(given, out):
    """The discrepancy principle as SimPEG's tutorials have it: β falls until the misfit is that of the noise."""
    setting = json.loads(str(given["setting"]))
    start = time.process_time()
    low, high = float(given["low"]), float(given["high"])
    count = round((high - low) / setting["spacing"])
    widths = np.full(count + 1, (high - low) / count)
    widths[[0, -1]] /= 2
    mesh = TensorMesh([widths, widths], origin=[low, low])
    flow = simulation(mesh, given["wells"], given["sensors"])
    first = homogeneous(flow, given["readings"])
    model, misfit = inverted(mesh, flow, first, given, setting)
    seconds = time.process_time() - start
    asked = simulation(mesh, given["queries"], given["lattice"])
    nearest = mesh.closest_points_index(given["centres"], grid_loc="CC")
    np.savez(
        out, log_b=-model[nearest], responses=asked.dpred(model).reshape(len(given["queries"]), -1), seconds=seconds,
        chi_square=misfit, version=simpeg.__version__,
    )  # fmt: skip


def simulation(mesh, wells, points):
    """Every well on its own, read at all points."""
    receivers = resistivity.receivers.Pole(points, data_type="volt")
    survey = resistivity.Survey([resistivity.sources.Pole([receivers], location=well) for well in wells])
    return resistivity.Simulation3DCellCentered(
        mesh, survey=survey, rhoMap=maps.ExpMap(mesh), bc_type="Dirichlet", storeJ=True
    )


def homogeneous(flow, readings):
    """The constant that fits best: heads are proportional to 1 / b."""
    unit = flow.dpred(np.zeros(flow.mesh.n_cells))
    return np.full(flow.mesh.n_cells, np.log(readings.ravel() @ unit / (unit @ unit)))


def inverted(mesh, flow, first, given, setting):
    """Model, and its misfit per reading."""
    readings = given["readings"].ravel()
    measured = data.Data(flow.survey, dobs=readings, standard_deviation=np.full(len(readings), float(given["noise"])))
    misfit = data_misfit.L2DataMisfit(data=measured, simulation=flow)
    weights = {"alpha_s": setting["alpha_s"], "alpha_x": 1.0, "alpha_y": 1.0, "reference_model": first}
    beta = directives.BetaEstimate_ByEig(beta0_ratio=10.0, random_seed=0)
    if setting["norms"] is None:
        penalty = regularization.WeightedLeastSquares(mesh, **weights)
        steps = [beta, directives.BetaSchedule(coolingFactor=2.0, coolingRate=1), directives.TargetMisfit(chifact=1.0)]
    else:
        penalty = regularization.Sparse(mesh, norms=setting["norms"], gradient_type="components", **weights)
        reweighted = directives.UpdateIRLS(  # as in its tutorials
            cooling_factor=2.0, irls_cooling_factor=1.5, f_min_change=1e-4, max_irls_iterations=30, verbose=False
        )
        steps = [beta, reweighted]
    search = optimization.InexactGaussNewton(maxIter=setting["steps"], cg_maxiter=50, tolF=1e-8, tolX=1e-8)
    problem = inverse_problem.BaseInvProblem(misfit, penalty, search)
    model = inversion.BaseInversion(problem, directiveList=[*steps, directives.UpdatePreconditioner()]).run(first)
    off = (flow.dpred(model) - readings) / float(given["noise"])
    return model, np.mean(off**2)


if __name__ == "__main__":
    main(dict(np.load(sys.argv[1])), sys.argv[2])
