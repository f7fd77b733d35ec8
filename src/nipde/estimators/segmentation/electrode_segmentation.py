"""Voltages at electrodes to probabilities of phases: networks on linear reconstructions, and the inversion beside them.

    p = w p_network + (1 - w) p_inversion

A network knows bodies from simulations, the inversion the equation: each errs elsewhere.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import expit
from torch import Tensor

from nipde.context.electrode_tests import ElectrodeTests
from nipde.discretisation.interpolation import multilinear
from nipde.estimators.inverse.electrode_inversion import ElectrodeInversion, ElectrodeLaw
from nipde.estimators.inverse.linearised_images import NODES, LinearisedImages
from nipde.estimators.segmentation.network import PHASES, SegmentationNetwork, features
from nipde.grid import Grid


@dataclass(frozen=True, eq=False)
class ElectrodeSegmentation:
    """Networks that were trained for the same electrodes; their probabilities are averaged."""

    networks: tuple[SegmentationNetwork, ...]
    #: None: networks alone.
    inversion: ElectrodeInversion | None = field(default_factory=ElectrodeInversion)
    #: w.
    weight: float = 0.5
    #: What the inversion expects of φ where the networks are sure of a body; 0: it knows nothing of them.
    height: float = 0.0
    #: φ at which a phase of the inversion has probability ½, and how fast that changes.
    threshold: float = 0.67
    width: float = 0.15
    #: Of the images that the networks were trained with.
    nodes: int = NODES

    def __call__(self, tests: ElectrodeTests, *, linear: LinearisedImages | None = None) -> "PhaseProbabilities":
        """At any point; `linear` spares the work if it is at hand for the reference and the gaps of the tests."""
        level = LinearisedImages.of(tests, nodes=self.nodes) if linear is None else linear
        differences = level.shown.reduced(tests.voltages - tests.reference)[None]
        channels = channels_of(level.images(differences), level)
        with torch.no_grad():
            found = torch.stack([network(channels)[0].softmax(dim=0) for network in self.networks])
        learned = found.mean(dim=0).double().numpy().reshape(len(PHASES), -1)
        alone = PhaseProbabilities(tests, level.grid, learned, None, self.weight, self.threshold, self.width)
        if self.inversion is None:
            return alone
        law = self.inversion(tests, expected=lambda points: self.height * np.array(PHASES) @ alone.at(points))
        return replace(alone, law=law)


@dataclass(frozen=True, eq=False)
class PhaseProbabilities:
    """Of resistive, background and conductive."""

    tests: ElectrodeTests
    grid: Grid
    #: By the networks, at the nodes of the grid.
    learned: Float[np.ndarray, "phase node"]
    #: Of the inversion; None: networks alone.
    law: ElectrodeLaw | None
    weight: float
    threshold: float
    width: float

    def at(self, points: Float[np.ndarray, "point 2"]) -> Float[np.ndarray, "phase point"]:
        """Probabilities, in the order -1, 0, 1."""
        low = np.array(self.tests.specimen.shape.region.bounds[:2])
        ends = [axis.length for axis in self.grid.axes]
        learned = (multilinear(self.grid, np.clip(np.asarray(points) - low, 0, ends)) @ self.learned.T).T
        if self.law is None:
            return np.asarray(learned)
        values = self.law.field_at(points)
        below, above = (expit((sign * values - self.threshold) / self.width) for sign in (-1, 1))
        return np.asarray(self.weight * learned + (1 - self.weight) * np.stack([below, 1 - below - above, above]))

    def phase_at(self, points: Float[np.ndarray, "point 2"]) -> Int[np.ndarray, " point"]:
        """-1: less conductive than the background, 1: more, 0: the background."""
        return np.array(PHASES)[self.at(points).argmax(axis=0)]


def channels_of(
    images: Float[np.ndarray, "test image x y"], level: LinearisedImages
) -> Float[Tensor, "test channel x y"]:
    """What a network is given."""
    fixed = (torch.tensor(each, dtype=torch.float32) for each in (level.sensitivity, level.inside))
    return features(torch.tensor(images, dtype=torch.float32), *fixed).contiguous(memory_format=torch.channels_last)
