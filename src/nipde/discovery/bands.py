"""Bands of the coefficient, b · exp(± c · deviation(x)): the posterior of log b, its width calibrated on other systems.

c is the calibrated factor of the weights, or the quantile of a normal distribution.
"""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from nipde.discovery.discovery import Material
from nipde.errors import KernelError
from nipde.kernels.base import Predictor

#: c of a normal distribution by level, for weights without a calibration.
NORMAL = {0.5: 0.674, 0.8: 1.282, 0.9: 1.645, 0.95: 1.960}


def material_of(
    kernel: Predictor, *, level: float = 0.9, unit: str = "", quantity: str = "coefficient"
) -> tuple[Material, Float[ndarray, "*space"]]:
    """The coefficient of `kernel.posterior` with its band; and the deviation of log b behind the band."""
    check_level(level)
    bands, posterior = kernel.bands, kernel.posterior
    if posterior is None:
        raise KernelError(
            expected="weights that infer a coefficient", got="a kernel without posterior",
            remedy="use weights with an elliptic prior, such as darcy",
        )  # fmt: skip
    factor, calibrated = NORMAL[level], bands is not None and bands.material is not None
    if bands is not None and bands.material is not None:
        factor = float(bands.material[bands.levels.index(level)])
    values, deviation, identifiable = (
        field.detach().double().cpu().numpy()
        for field in (posterior.coefficient, posterior.deviation(), posterior.identifiable())
    )
    width = np.exp(factor * deviation)
    material = Material(values, values / width, values * width, level, calibrated, unit, identifiable, quantity)
    return material, factor / NORMAL[level] * deviation


def check_level(level: float) -> None:
    """Raise unless there are bands of this level."""
    if level not in NORMAL:
        raise KernelError(expected=f"a level among {', '.join(map(str, NORMAL))}", got=level, remedy="use one of them")
