"""What a kernel says about the material: the law's own permeability where it has one, else that of the nearest law."""

import numpy as np
from jaxtyping import Float

from nipde.errors import NipdeError
from nipde.estimators.kernel_match import permeability_of
from nipde.kernels.base import Kernel
from nipde.kernels.conditioned import ConditionedKernel
from nipde.kernels.law import LawKernel
from nipde.physics.faces import FaceMean

#: What solvers and linear algebra say of a kernel that no law is near to.
HOPELESS = (NipdeError, ArithmeticError, RuntimeError, np.linalg.LinAlgError)


def permeability_in(kernel: Kernel, *, face_mean: FaceMean) -> Float[np.ndarray, "*space"]:
    """Of one system; NaN if there is no law near enough to be found."""
    if isinstance(kernel, LawKernel | ConditionedKernel) and kernel.coefficient is not None:
        return kernel.coefficient.double().cpu().numpy()
    try:
        return permeability_of(kernel, face_mean=face_mean)[0].double().cpu().numpy()
    except HOPELESS:
        return np.full(kernel.grid.shape, np.nan)
