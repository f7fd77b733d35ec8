"""Loads tuned to an estimator: gradient descent on the error of its answers, over example systems whose law is known.

    min over F of  mean over systems and queries of  ‖K̂(F, K F + noise) q - K q‖ / ‖K q‖,   the rms of every load fixed

`design` counts what loads see in a fixed metric. What they tell about the system at large, through the prior that a
network infers from them, only the network knows: it is asked. The last tenth of the examples is kept out of the descent
and judges it: loads that do no better there than those before are not returned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nipde.context.pairs import Pairs
from nipde.discovery.a_optimal_design import Sensor
from nipde.discovery.candidates import Loads, as_loads
from nipde.errors import KernelError
from nipde.kernels.dense import DenseKernel
from nipde.spectral.transform import transform

#: Systems and queries of one step, the length of the first step relative to a load, and steps between two judgements.
SYSTEMS, QUERIES, RATE, JUDGE_EVERY = 10, 40, 0.01, 50


def tuned_loads(
    model: nn.Module,
    loads: Loads,
    *,
    examples: DenseKernel,
    queries: Loads,
    sensors: Sequence[Sensor] = (Sensor(0.0), Sensor(0.01)),
    steps: int = 500,
    seed: int = 0,
) -> Loads:
    """Better loads than those to start from, each with its root mean square.

    `examples` are true kernels of systems like those to come, one batch axis; `queries` are loads like those to answer.
    All `sensors` count alike.
    The model must be differentiable in its pairs. The elliptic prior is so in part only: expect little.
    """
    if len(examples.batch) != 1 or examples.batch[0] < 2:
        raise KernelError(
            expected="two kernels or more along one batch axis", got=f"a batch {examples.batch}", remedy="stack values"
        )
    grid, like, generator = examples.grid, next(model.parameters()), torch.Generator().manual_seed(seed)
    trial = _Trial(model, examples, as_loads(grid, queries).to(like), sensors)
    loads = as_loads(grid, loads).to(like)
    norm = grid.norm(loads).square().sum(-1).sqrt().reshape(-1, *(1,) * (grid.dimension + 1))
    waves = transform(grid)
    # A step should change long waves, which carry the response, more than short ones.
    squares = waves.squared_wavenumbers(loads)
    scale = (squares / squares[squares > 0].min()).clamp(min=1).rsqrt()
    amounts = (waves.analysis(loads / norm) / scale).requires_grad_()
    optimiser = torch.optim.Adam([amounts], lr=RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 1e-3, total_iters=steps)
    best, least = loads, trial.judged(loads)
    for step in range(1, steps + 1):
        applied = waves.synthesis(_unit(amounts * scale)) * norm
        (amounts.grad,) = torch.autograd.grad(trial.error(applied, generator), [amounts])
        optimiser.step()
        schedule.step()
        if step % JUDGE_EVERY == 0 or step == steps:
            found = waves.synthesis(_unit(amounts.detach() * scale)) * norm
            error = trial.judged(found)
            best, least = (found, error) if error < least else (best, least)
    return best.double()


@dataclass(frozen=True, eq=False)
class _Trial:
    """A model asked about examples."""

    model: nn.Module
    examples: DenseKernel
    queries: Loads
    sensors: Sequence[Sensor]

    @property
    def kept(self) -> int:
        """Examples that take part in the descent; those behind them judge."""
        count = self.examples.batch[0]
        return count - max(1, count // 10)

    def error(self, loads: Loads, generator: torch.Generator) -> Float[Tensor, ""]:
        """Of a few examples and queries at one level of noise, all drawn."""
        some = torch.randperm(self.kept, generator=generator)[:SYSTEMS]
        asked = self.queries[torch.randperm(len(self.queries), generator=generator)[:QUERIES]]
        sensor = self.sensors[int(torch.randint(len(self.sensors), (), generator=generator))]
        return self._errors(some, loads, asked, sensor=sensor, generator=generator).mean()

    @torch.no_grad()
    def judged(self, loads: Loads) -> float:
        """Of the examples behind, at every level of noise; always the same draw."""
        generator, asked = torch.Generator().manual_seed(0), self.queries[:QUERIES]
        found = [
            self._errors(some, loads, asked, sensor=sensor, generator=generator)
            for sensor in self.sensors
            for some in torch.arange(self.kept, self.examples.batch[0]).split(SYSTEMS)
        ]
        return float(torch.cat(found).mean())

    def _errors(
        self, some: Int[Tensor, " system"], loads: Loads, asked: Loads, *, sensor: Sensor, generator: torch.Generator
    ) -> Float[Tensor, "system query"]:
        """Relative errors of answers from noisy responses to the loads."""
        grid, truth = self.examples.grid, DenseKernel(self.examples.grid, self.examples.values[some].to(loads))
        responses, answers = truth.predict(loads), truth.predict(asked)
        level = sensor.noise(responses.flatten(2), answers.flatten(2))
        errors = torch.randn(responses.shape, generator=generator, dtype=responses.dtype).to(responses)
        measured = responses + level.reshape(-1, *(1,) * (responses.ndim - 1)) * errors
        kernel = self.model(Pairs(grid, loads.expand(len(some), *loads.shape), measured, noise=level))
        sizes = [grid.norm(field).square().sum(-1) for field in (kernel.predict(asked) - answers, answers)]
        return (sizes[0] / sizes[1]).sqrt()


def _unit(amounts: Float[Tensor, "pair component *mode"]) -> Float[Tensor, "pair component *mode"]:
    """Every load's amounts, their squares summing to 1: the norm of a load is that of its amounts."""
    return amounts / amounts.flatten(1).norm(dim=1).reshape(-1, *(1,) * (amounts.ndim - 1))
