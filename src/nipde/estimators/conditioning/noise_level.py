"""How noisy are the responses, if nobody says: what the shortest waves hold, where a smooth field has nothing."""

from jaxtyping import Float
from torch import Tensor

from nipde.grid import Grid
from nipde.spectral.transform import transform

#: Share of the modes, the shortest waves, that count as noise.
SHORTEST = 0.2


def noise_level(grid: Grid, fields: Float[Tensor, "system pair component *space"]) -> Float[Tensor, " system"]:
    """Standard deviation of white noise per node, of every system; an upper bound where the fields are rough."""
    waves = transform(grid)
    squares = waves.squared_wavenumbers(fields).flatten()
    count = max(1, int(SHORTEST * len(squares)))
    shortest = squares.topk(count).indices
    coefficients = waves.analysis(fields).flatten(-grid.dimension)[..., shortest]
    # White noise of variance ν² per node has coefficients of variance ν² w, w the volume of a cell.
    cell = float(grid.volume) / grid.size
    return (coefficients.double().square().flatten(1).mean(1) / cell).sqrt().to(fields)
