"""The paper's inversion: b = argmin Σ_m ‖(G_b - K) φ_m‖²_W + λ R(log b), the law whose kernel is nearest to K.

φ_m are the smoothest functions that fit the grid's boundary, orthonormal: with all of them the sum is the Frobenius
distance of the kernels. It gives a coefficient to kernels of estimators that assume no law.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.discretisation.links import FaceMean, Harmonic
from nipde.errors import KernelError
from nipde.estimators.inverse.adjoint import AdjointGaussNewton
from nipde.estimators.inverse.gauss_newton import Search
from nipde.estimators.inverse.regularisers import SMOOTH, Regulariser
from nipde.estimators.inverse.systems import check_law
from nipde.grid import Grid
from nipde.kernels.base import Kernel
from nipde.spectral.basis import basis_of, nodal_matrix

#: A kernel that is not of the law gains nothing from a long search.
SHORT = Search(stages=7, iterations=2, last_iterations=2, contrast=30.0)


def permeability_of(
    kernel: Kernel,
    *,
    face_mean: FaceMean = Harmonic(),
    regulariser: Regulariser = SMOOTH,
    probes: int = 64,
    search: Search = SHORT,
) -> Float[Tensor, "*batch_component_space"]:
    """Permeability, load times length² per response, of the Darcy law nearest to every kernel of a batch.

    A kernel that is zero or not finite has none: its field is NaN.
    """
    check_law(kernel.grid, kernel.components)
    if probes < 1:
        raise KernelError(expected="at least one probing load", got=probes)
    loads = torch.as_tensor(probing_loads(kernel.grid, count=probes))[:, None]
    like = kernel.row_integral()
    with torch.no_grad():
        responses = kernel.predict(loads.to(like).expand(*kernel.batch, *loads.shape)).double().cpu()
    estimator = AdjointGaussNewton(face_mean, regulariser, search)
    fields = []
    for response in responses.reshape(-1, *loads.shape):
        if not bool(torch.isfinite(response).all()) or not bool((response[(..., *kernel.grid.inner)] != 0).any()):
            fields.append(np.full(kernel.grid.shape, np.nan))
            continue
        fields.append(estimator.permeability(Pairs(kernel.grid, loads, response))[0])
    return like.new_tensor(np.stack(fields)).reshape(*kernel.batch, 1, *kernel.grid.shape)


def probing_loads(grid: Grid, *, count: int) -> Float[np.ndarray, "probe *space"]:
    """The `count` eigenfunctions of -Δ with the longest waves, or all that the grid resolves."""
    squared = np.zeros(())
    for axis in grid.axes:
        squared = np.add.outer(squared, basis_of(axis).wavenumbers ** 2)
    modes = np.unravel_index(np.argsort(squared, axis=None, kind="stable")[:count], squared.shape)
    loads = np.ones((len(modes[0]), *grid.shape))
    for place, (axis, mode) in enumerate(zip(grid.axes, modes, strict=True)):
        along = [-1 if other == place else 1 for other in range(grid.dimension)]
        loads *= nodal_matrix(axis)[:, mode].T.reshape(len(loads), *along)
    return loads
