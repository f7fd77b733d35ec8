"""Training of a segmentation network on simulated phantoms: cross-entropy over the nodes of a specimen.

Every step draws a set of injections and readings, phantoms, a symmetric view of them, and errors as measurements have
them: without these a network does not learn to refuse bodies that are none. Steps are seeded by their number, so that a
training that was interrupted goes on as if it had not been. The weights are averaged over steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from nipde.context.electrode_tests import ElectrodeTests
from nipde.errors import CheckpointError
from nipde.estimators.inverse.linearised_images import NODES, LinearisedImages
from nipde.estimators.segmentation.electrode_segmentation import channels_of
from nipde.estimators.segmentation.network import PHASES, SegmentationConfig, SegmentationNetwork
from nipde.records import reading
from nipde.training.electrode_phantoms import Phantoms
from nipde.weights import checkpoint

#: Steps between files, and those in which the rate rises.
KEPT, RISE = 500, 50
#: Longest gradient, share of the first rate that is left at the end.
LONGEST, LEFT = 1.0, 0.02
OPTIMISER = "optimiser"
#: Symmetric views of phantoms: these, and their electrodes, turned or mirrored.
View = Callable[[Phantoms, np.random.Generator], Phantoms]


@dataclass(frozen=True)
class MeasurementErrors:
    """Deviations, for a background of 1; `white` and `share` are drawn anew for every phantom, between two ends."""

    #: A common factor of all voltages; the contact of an electrode.
    drift: float = 0.04
    contact: float = 0.004
    #: Factors of injections and of readings, of body and reference alike.
    injections: float = 0.03
    readings: float = 0.02
    #: Of independent errors, in V and in proportion to the difference.
    white: tuple[float, float] = (0.001, 0.005)
    share: tuple[float, float] = (0.01, 0.08)

    def differences(
        self, shown: Phantoms, level: LinearisedImages, tests: ElectrodeTests, rng: np.random.Generator
    ) -> Float[np.ndarray, "phantom reading injection"]:
        """Of voltages with errors to a reference with the same factors, injections combined."""
        currents, patterns = tests.currents[level.shown.injections], tests.patterns[level.shown.readings]
        count = len(shown.resistances)
        body, empty = (np.einsum("rk,pkl,il->pri", patterns, each, currents, optimize=True)
                       for each in (shown.resistances, shown.empty))  # fmt: skip
        factors = (1 + rng.normal(0, self.readings, (count, len(patterns), 1))) * (
            1 + rng.normal(0, self.injections, (count, 1, len(currents)))
        )
        contacts = rng.normal(0, self.contact, (count, currents.shape[1]))
        found = factors * ((1 + rng.normal(0, self.drift, (count, 1, 1))) * body - empty)
        found = found + np.einsum("rk,pk,ik->pri", patterns, contacts, currents, optimize=True)
        found = found @ level.shown.mixing
        white, share = (rng.uniform(*ends, (count, 1, 1)) for ends in (self.white, self.share))
        return found + np.hypot(white, share * found) * rng.standard_normal(found.shape)


@dataclass(frozen=True)
class SegmentationTraining:
    """How long, and how."""

    steps: int = 4000
    batch: int = 8
    rate: float = 2e-3
    decay: float = 1e-3
    #: Of the average over steps.
    average: float = 0.998
    errors: MeasurementErrors = MeasurementErrors()

    def __call__(
        self, levels: Sequence[ElectrodeTests], phantoms: Phantoms, *, seed: int, view: View, folder: Path,
        config: SegmentationConfig | None = None, nodes: int = NODES,
        progress: Callable[[int, float], None] = lambda step, loss: None,
    ) -> SegmentationNetwork:  # fmt: skip
        """A network for tests with the injections, readings and gaps of any of the `levels`; goes on from `folder`."""
        torch.manual_seed(seed)
        linear = [LinearisedImages.of(tests, nodes=nodes) for tests in levels]
        network = SegmentationNetwork(config or SegmentationConfig(images=linear[0].operators.shape[0]))
        state, losses = _State(network, folder / f"seed-{seed}.safetensors", of=self), list[float]()
        while state.step < self.steps:
            drawn = self._drawn(linear, levels, phantoms, view, np.random.default_rng([seed, state.step]))
            losses.append(state.advanced(*drawn, rate=self._rate(state.step)))
            if state.step % KEPT == 0 or state.step == self.steps:
                state.write()
                progress(state.step, float(np.mean(losses[-KEPT:])))
        return state.found

    def _drawn(
        self, linear: Sequence[LinearisedImages], levels: Sequence[ElectrodeTests], phantoms: Phantoms, view: View,
        rng: np.random.Generator,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        which, chosen = int(rng.integers(len(levels))), rng.integers(len(phantoms.phases), size=self.batch)
        shown = view(phantoms.chosen(chosen), rng)
        level = linear[which]
        images = level.images(self.errors.differences(shown, level, levels[which], rng))
        return channels_of(images, level), phase_shares(shown.phases, level.grid.shape), torch.tensor(level.inside)

    def _rate(self, step: int) -> float:
        falling = LEFT + (1 - LEFT) * 0.5 * (1 + cos(pi * step / self.steps))
        return self.rate * min(1.0, (step + 1) / RISE) * falling


def phase_shares(phases: np.ndarray, shape: tuple[int, ...]) -> Float[Tensor, "phantom phase x y"]:
    """Shares of the phases around every node, from phases at the same number of points around each."""
    per = [wide // nodes for wide, nodes in zip(phases.shape[1:], shape, strict=True)]
    blocks = phases.reshape(len(phases), shape[0], per[0], shape[1], per[1])
    return torch.tensor(
        np.stack([(blocks == phase).mean(axis=(2, 4)) for phase in PHASES], axis=1), dtype=torch.float32
    )


def cross_entropy(
    logits: Float[Tensor, "test phase x y"], shares: Float[Tensor, "test phase x y"], inside: Tensor
) -> Tensor:
    """Mean over the nodes inside."""
    return -(shares * logits.log_softmax(dim=1)).sum(dim=1)[:, inside].mean()


class _State:
    """A network, its average over steps and its optimiser, as the file has them if there is one."""

    def __init__(self, network: SegmentationNetwork, path: Path, *, of: SegmentationTraining) -> None:
        self.network, self.path, self.step = network, path, 0
        self.average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(of.average))
        self.optimiser = torch.optim.AdamW(network.parameters(), of.rate, weight_decay=of.decay)
        if path.is_file():
            tensors, record = checkpoint.load(path)
            with reading(f"{path} is no state of this training", CheckpointError, expected="a state"):
                self._restore(tensors)
                self.step = record["step"]

    @property
    def found(self) -> SegmentationNetwork:
        """The average, ready to use."""
        found = self.average.module
        assert isinstance(found, SegmentationNetwork)
        return found.eval().requires_grad_(False)

    def advanced(self, channels: Tensor, shares: Tensor, inside: Tensor, *, rate: float) -> float:
        """One step, and the loss before it."""
        loss = cross_entropy(self.network(channels), shares, inside)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), LONGEST)
        self.optimiser.step()
        self.average.update_parameters(self.network)
        self.step += 1
        return loss.item()

    def write(self) -> None:
        """Whole or not at all."""
        tensors = {f"{name}.{key}": value for name, part in self._parts.items() for key, value in part.items()}
        for place, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"{OPTIMISER}.{place}.{kind}": value for kind, value in moments.items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(self.path, tensors, {"step": self.step})

    @property
    def _parts(self) -> dict[str, dict[str, Tensor]]:
        return {"network": self.network.state_dict(), "averaged": self.average.state_dict()}

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "averaged": {}, OPTIMISER: {}}
        for key, value in tensors.items():
            name, rest = key.split(".", 1)
            parts[name][rest] = value
        self.network.load_state_dict(parts["network"])
        self.average.load_state_dict(parts["averaged"])
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in parts[OPTIMISER].items():
            place, kind = key.split(".")
            moments.setdefault(int(place), {})[kind] = value
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
