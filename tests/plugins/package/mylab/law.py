"""Reaction and diffusion -Δu + k u = f: the loss rate k is hidden, 0 in some places and `rate` in the others."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sparse

from nipde.data.recipe import RandomLoads, option
from nipde.data.system import Quantities, Quantity
from nipde.discretisation.links import links_of
from nipde.physics.balance import BalanceLaw
from nipde.physics.random_fields import GaussianField


@dataclass(frozen=True, eq=False)
class Reaction(BalanceLaw):
    """The loss rate at every node."""

    rate: np.ndarray

    @property
    def symmetric(self) -> bool:
        """Diffusion and loss are."""
        return True

    @cached_property
    def matrix(self) -> sparse.csc_array:
        """What leaves every cell through its faces, and what is lost in it."""
        links = links_of(self.grid)
        loss = self.rate.reshape(-1)[links.unknown] * links.volume
        return (links.assemble(conductance=links.area / links.distance) + sparse.diags_array(loss)).tocsc()


@dataclass(frozen=True)
class ReactionRecipe(RandomLoads):
    """-Δu + k u = f on the unit square, u = 0 on its sides, k = 0 or `rate` by the sign of a Gaussian field."""

    problem: ClassVar[str] = "reaction"
    parameter_names: ClassVar[tuple[str, ...]] = ("lossy_share",)

    rate: float = option(400.0, "loss rate where there is any")

    @property
    def quantities(self) -> Quantities:
        """Dimensionless."""
        return Quantities(load=Quantity("source"), response=Quantity("concentration"), hidden=Quantity("loss rate"))

    def draw_hidden(self, rng: np.random.Generator, seed: np.uint64) -> tuple[np.ndarray, tuple[float]]:
        """Two phases."""
        lossy = GaussianField(4.0).sample(self.grid, rng=rng, count=1) > 0
        return np.where(lossy, self.rate, 0.0), (float(lossy.mean()),)

    def law_of(self, hidden: np.ndarray) -> Reaction:
        """The operator of a stored field."""
        return Reaction(self.grid, hidden[0].astype(np.float64))
