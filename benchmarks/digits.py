"""Which digit is it? A small convolutional network trained on bitmaps, applied to maps identified in specimens."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn
from torch.nn.functional import cross_entropy

from nipde.data.mechanics import mnist


def digit_classifier(exclude: Int[np.ndarray, " image"], *, epochs: int = 12, seed: int = 0) -> nn.Module:
    """Trained on all bitmaps but those of specimens, moved by up to two pixels; sees images of values 0 to 1."""
    bitmaps = mnist()
    images = torch.as_tensor(np.delete(bitmaps.images, exclude, axis=0), dtype=torch.float32)[:, None] / 255
    digits = torch.as_tensor(np.delete(bitmaps.digits, exclude), dtype=torch.long)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 49, 96), nn.ReLU(), nn.Linear(96, 10),
        )  # fmt: skip
        optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3)
        steps = epochs * (len(images) // 64)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=steps)
        for _ in range(steps):
            chosen = torch.randint(len(images), (64,))
            across, down = (int(value) for value in torch.randint(-2, 3, (2,)))
            loss = cross_entropy(network(images[chosen].roll((across, down), (2, 3))), digits[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return network.eval()


@torch.no_grad()
def digits_in(network: nn.Module, moduli: Float[np.ndarray, "specimen x y"], *, soft: float, stiff: float) -> list[int]:
    """Maps of moduli, x along the first axis and y up, read as images."""
    images = np.clip((moduli - soft) / (stiff - soft), 0, 1).transpose(0, 2, 1)[:, ::-1].copy()
    return network(torch.as_tensor(images, dtype=torch.float32)[:, None]).argmax(1).tolist()
