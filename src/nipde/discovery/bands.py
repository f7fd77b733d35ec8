"""Bands on the material: the posterior of log b, widened to what errors on other systems were; or a bootstrap.

b · exp(± c(d, ν) · deviation(x))
"""

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from nipde.context.pairs import Pairs
from nipde.discovery.discovery import Material
from nipde.errors import KernelError
from nipde.estimators.conditioned import ConditionedNIPS
from nipde.estimators.conditioning.material_posterior import MaterialPosterior
from nipde.kernels.conditioned import ConditionedKernel

#: c of a normal distribution, for weights without a calibration, by level.
NORMAL = {0.5: 0.674, 0.8: 1.282, 0.9: 1.645, 0.95: 1.960}


def material_of(
    kernel: ConditionedKernel, posterior: MaterialPosterior, *, level: float = 0.9, unit: str = ""
) -> tuple[Material, Float[ndarray, "*space"]]:
    """What `model.with_posterior(pairs)` says of b; and the deviation of log b behind its band."""
    check_level(level)
    trust = kernel.trust
    calibrated = trust is not None and trust.material is not None
    factor = NORMAL[level]
    if trust is not None and trust.material is not None:
        factor = float(trust.material[trust.levels.index(level)])
    values, deviation, identifiable = (
        field.detach().double().cpu().numpy()
        for field in (posterior.coefficient, posterior.deviation(), posterior.identifiable())
    )
    wide = np.exp(factor * deviation)
    material = Material(values, values / wide, values * wide, level, calibrated, unit, identifiable)
    return material, factor / NORMAL[level] * deviation


def check_level(level: float) -> None:
    """Raise unless bands of this level can be had."""
    if level not in NORMAL:
        raise KernelError(expected=f"a level among {', '.join(map(str, NORMAL))}", got=level, remedy="choose one")


@torch.no_grad()
def bootstrap(model: ConditionedNIPS, pairs: Pairs, *, draws: int = 24, seed: int = 0) -> Float[ndarray, "draw *space"]:
    """b of as many pairs drawn with replacement, `draws` times."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Tensor] = []
    for _ in range(draws):
        chosen = torch.randint(pairs.count, (pairs.count,), generator=generator)
        coefficient = model(pairs.take(chosen)).coefficient
        if coefficient is None:
            raise KernelError(expected="weights that infer a material", got="gated ones", remedy="use others")
        found.append(coefficient.double().cpu())
    return torch.stack(found).numpy()
