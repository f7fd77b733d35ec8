"""torch-fem on a plate in tension: camera points to log E of every element. Run by a Python that has torch-fem.

min over m: Σ ((u(e^m) - readings) / noise)² / 2 + weight · R(m), by L-BFGS with torch-fem's gradients; R sums the
squares of jumps of m between neighbours (smooth) or their sizes (total variation, rounded at 0.01), a side's length 1.
`python torchfem_plate.py given.npz found.npz`. Given: points (point, 2), readings (component, point), noise, traction,
poisson, centres (cell, 2), setting (JSON). Found: log_modulus at the centres, seconds, chi_square, version.
"""

# mypy: ignore-errors

import json
import sys
import time
from importlib.metadata import version

import numpy as np
import torch
from torchfem import Planar
from torchfem.materials import IsotropicElasticityPlaneStress
from torchfem.mesh import rect_quad

#: Below this a jump is penalised by its square.
ROUNDED = 0.01


def main(given, out):
    """Start from the one value that fits best."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    setting = json.loads(str(given["setting"]))
    start = time.process_time()
    cells = setting["cells"]
    nodes, elements = rect_quad(cells + 1, cells + 1, 1.0, 1.0)
    at = [int(torch.argmin(((nodes - torch.tensor(point)) ** 2).sum(1))) for point in given["points"]]
    measured, noise = torch.tensor(given["readings"].T), float(given["noise"])
    middles = nodes[elements].mean(1).numpy()
    order = torch.tensor(np.lexsort((middles[:, 1], middles[:, 0])))  # columns of x, as in a table (x, y)

    def displaced(log_modulus):
        material = IsotropicElasticityPlaneStress(torch.exp(log_modulus), torch.full_like(log_modulus, poisson))
        plate = Planar(nodes, elements, material)
        plate.constraints = (nodes[:, 0] < 1e-9)[:, None].expand(-1, 2).clone()
        plate.forces = plate.integrate_line_load(nodes[:, 0] > 1 - 1e-9, torch.tensor(given["traction"]))
        parameters = log_modulus if log_modulus.requires_grad else None
        return plate.solve(differentiable_parameters=parameters, method="direct", atol=1e-10)[0][at]

    poisson = float(given["poisson"])
    unit = displaced(torch.zeros(len(elements)))
    model = torch.full((len(elements),), float(torch.log((unit**2).sum() / (unit * measured).sum())))
    model.requires_grad_(True)
    search = torch.optim.LBFGS(
        [model], max_iter=setting["steps"], max_eval=2 * setting["steps"], history_size=30, tolerance_grad=1e-9,
        tolerance_change=1e-12, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss():
        search.zero_grad()
        misfit = (((displaced(model) - measured) / noise) ** 2).sum() / 2
        total = misfit + setting["weight"] * rough(model[order].reshape(cells, cells), setting["penalty"])
        total.backward()
        return total

    search.step(loss)
    with torch.no_grad():
        chi_square = (((displaced(model) - measured) / noise) ** 2).mean()
    seconds = time.process_time() - start
    table = model.detach()[order].reshape(cells, cells).numpy()
    i, j = np.clip((given["centres"] * cells).astype(int), 0, cells - 1).T
    np.savez(
        out, log_modulus=table[i, j], seconds=seconds, chi_square=float(chi_square), version=version("torch-fem")
    )  # fmt: skip


def rough(table, penalty):
    """R of a table of m."""
    jumps = torch.cat([(table[1:] - table[:-1]).ravel(), (table[:, 1:] - table[:, :-1]).ravel()])
    if penalty == "smooth":
        return (jumps**2).sum()
    return (torch.sqrt(jumps**2 + ROUNDED**2) - ROUNDED).sum() / len(table)


if __name__ == "__main__":
    main(dict(np.load(sys.argv[1])), sys.argv[2])
