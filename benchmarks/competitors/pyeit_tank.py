"""pyEIT on the tank: difference images by linear reconstruction on a mesh of its own. Run by a Python that has pyEIT.

`python pyeit_tank.py given.npz found.npz`. Given: voltages and references (case, injection, reading) with NaN where
nothing was measured, currents (injection, electrode), patterns (reading, electrode), pixels, size of the triangles,
settings (JSON). Found: images (setting, case, pixel, pixel), NaN outside; seconds (setting, case), each with its own
mesh, Jacobian and matrix, though cases with the same electrodes share them here.
"""

# mypy: ignore-errors

import json
import sys
import time
from importlib.metadata import version

import numpy as np
from matplotlib.tri import LinearTriInterpolator, Triangulation
from pyeit import mesh
from pyeit.eit.bp import BP
from pyeit.eit.greit import GREIT
from pyeit.eit.interp2d import sim2pts
from pyeit.eit.jac import JAC
from pyeit.eit.protocol import PyEITProtocol
from scipy.interpolate import RegularGridInterpolator

SOLVERS = {"jac": JAC, "greit": GREIT, "bp": BP}


def main(given, out):
    """Every setting on every case."""
    settings = [json.loads(one) for one in given["settings"]]
    pixels, voltages = int(given["pixels"]), given["voltages"]
    start = time.process_time()
    body = tank(given["currents"].shape[1], float(given["size"]))
    meshing = time.process_time() - start
    images = np.empty((len(settings), len(voltages), pixels, pixels), dtype=np.float32)
    seconds = np.empty(images.shape[:2])
    measured = ~np.isnan(voltages)
    for gaps in np.unique(measured, axis=0):
        cases = np.flatnonzero((measured == gaps).all((1, 2)))
        known = {}
        for number, setting in enumerate(settings):
            start = time.process_time()
            shared, imaged = prepared(setting, body, gaps, given, known)
            shared += time.process_time() - start + meshing
            for case in cases:
                start = time.process_time()
                images[number, case] = drawn(
                    setting["method"], *imaged(voltages[case], given["references"][case]), pixels
                )
                seconds[number, case] = shared + time.process_time() - start
    np.savez(out, images=images, seconds=seconds, elements=body.n_elems, version=version("pyeit"))


def tank(electrodes, size):
    """pyEIT's disc, its electrodes numbered as in the challenge: the first at the top, anticlockwise."""
    body = mesh.create(electrodes, h0=size)
    x, y = body.node[body.el_pos, :2].T
    turned = (np.arctan2(y, x) - np.pi / 2 + 1e-6) % (2 * np.pi)
    body.el_pos = body.el_pos[np.argsort(turned)]
    return body


def prepared(setting, body, gaps, given, known):
    """What voltages become an image by, and the processor time of a Jacobian that is `known` already."""
    injections, readings = gaps.any(1), gaps.any(0)
    currents, patterns = given["currents"][injections], given["patterns"][readings]
    pairs = np.stack([patterns.argmax(1), patterns.argmin(1)], axis=1)
    protocol = PyEITProtocol(
        np.stack([currents.argmax(1), currents.argmin(1)], axis=1), np.tile(pairs, (len(currents), 1, 1)),
        np.ones(len(currents) * len(pairs), dtype=bool),
    )  # fmt: skip
    solver = SOLVERS[setting["method"]](body, protocol)
    spent = 0.0
    if setting["method"] != "bp":
        key = setting["options"]["jac_normalized"]
        if key in known:
            spent = known[key][1]
        else:
            start = time.process_time()
            known[key] = solver.fwd.compute_jac(normalize=key), time.process_time() - start
        solver.fwd.compute_jac = lambda perm, normalize: known[normalize][0]
    solver.setup(**setting["options"])
    unit, kept = currents.max(1)[:, None], np.ix_(injections, readings)

    def imaged(values, reference):
        before, after = ((each[kept] / unit).ravel() for each in (reference, values))
        return solver, body, solver.solve(after, before, normalize=setting["normalize"]).real

    return spent, imaged


def drawn(method, solver, body, change, pixels):
    """From elements (JAC), nodes (BP) or the grid (GREIT) to pixels, rows from the top."""
    line = (np.arange(pixels) + 0.5) * 2 / pixels - 1
    x, y = np.meshgrid(line, -line)
    if method == "greit":
        axes = solver.yg[:, 0], solver.xg[0]
        grid = RegularGridInterpolator(axes, change.reshape(solver.xg.shape), bounds_error=False, fill_value=None)
        image = grid(np.stack([y, x], axis=-1))
    else:
        points, triangles = body.node[:, :2], body.element
        nodes = change if method == "bp" else sim2pts(points, triangles, change)
        image = LinearTriInterpolator(Triangulation(*points.T, triangles), np.asarray(nodes))(x, y).filled(0.0)
    return np.where(np.hypot(x, y) < 1, image, np.nan)


if __name__ == "__main__":
    main(dict(np.load(sys.argv[1])), sys.argv[2])
