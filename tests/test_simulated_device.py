"""The device itself: it refuses what an accelerator refuses, and sees what crosses."""

import numpy as np
import pytest
import torch

from tests.simulated_device import MixedDevices, device, watched

ONES = torch.ones(3)


def there(values=ONES):
    return values.to(device())


@pytest.mark.parametrize(
    "mix",
    [
        lambda: there() + ONES,
        lambda: ONES * there(),
        lambda: torch.eye(3) @ there(),
        lambda: torch.cat([there(), ONES]),
        lambda: torch.stack([there(torch.tensor(1.0)), torch.tensor(2.0)]),
        lambda: there().add_(ONES),
        lambda: torch.where(ONES > 0, there(), there()),
        lambda: torch.nn.functional.linear(there(), torch.eye(3)),
        lambda: ONES[there(torch.tensor([0, 1]))],
        lambda: torch.einsum("i,i->", there(), ONES),
    ],
)
def test_tensors_of_both_sides_do_not_meet(mix):
    with pytest.raises(MixedDevices):
        mix()


def test_numbers_of_the_processor_are_passed_by_value():
    assert (there() * torch.tensor(2.0) + 1).held.tolist() == [3.0] * 3


def test_numpy_cannot_look():
    with pytest.raises((TypeError, RuntimeError)):
        np.asarray(there())
    with pytest.raises((TypeError, RuntimeError)):
        there().numpy()


@pytest.mark.parametrize(
    ("cross", "kind"),
    [
        (lambda x: float(x.sum()), "read"),
        (lambda x: bool((x > 0).all()), "read"),
        (lambda x: x.cpu(), "read"),
        (lambda x: x.tolist(), "read"),
        (lambda x: torch.zeros(3).copy_(x), "read"),
        (lambda x: torch.equal(x, x), "read"),
        (lambda x: torch.linalg.cholesky(torch.diag(x)), "read"),
        (lambda x: x[x > 0], "size"),
        (lambda x: x.nonzero(), "size"),
        (lambda x: torch.unique(x), "size"),
        (lambda x: x[torch.tensor([0, 2])], "upload"),
        (lambda x: x + x.new_tensor([1.0, 2.0, 3.0]), "upload"),
        (lambda x: x + torch.as_tensor(np.ones(3), dtype=x.dtype, device=x.device), "upload"),
    ],
)
def test_what_crosses_is_seen(cross, kind):
    own = there()
    with watched() as seen:
        cross(own)
    assert [crossing.kind for crossing in seen] == [kind]
