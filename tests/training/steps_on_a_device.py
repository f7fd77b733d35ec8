"""A training step on a device apart from the processor: no mix, the same losses, and known waits.

Run by `test_steps_on_a_device.py` in a process of their own.
"""

import pytest
import torch

import nipde
from nipde.training.feed import Feed
from nipde.training.loop import _Clock, _step
from nipde.training.processes import Group
from nipde.training.run import Run
from tests.golden.answers import _archive
from tests.simulated_device import MixedDevices, OnDevice, device, waits, watched
from tests.waits import LISTED

device()  # PyTorch's backward pass serves the devices that are known at its first use
LEARNED = {"queries": 6, "noise": 0.01, "load_noise": 0.01, "prior_weight": 0.2, "symmetries": True}
#: Model and the options of its run.
CASES = {
    **{kind: ({"kind": kind, "layers": 2}, {}) for kind in ("nips", "nips-mlp", "nao", "nao-f", "nao-wp", "afno")},
    "elliptic": ({"kind": "conditioned"}, LEARNED),
    "drift": ({"kind": "conditioned", "drift": True}, LEARNED),
    "gated": ({"kind": "conditioned", "prior": "gated"}, LEARNED),
    "gated with a head": ({"kind": "conditioned", "prior": "gated", "head": True}, LEARNED),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return _archive(tmp_path_factory.mktemp("archives") / "darcy")


def begun(archive, name, where):
    """A run, and a function that takes its next step."""
    model, options = CASES[name]
    recipe = nipde.TrainingRecipe(
        nipde.training.ModelRecipe(channels=6, **model), context=12, batch=4, parts=2, steps=10, warmup=2, clip=1e-3,
        precision="float64", **options,
    )  # fmt: skip
    run = Run.fresh(recipe, archive, Group(device=where))
    feed = Feed.of(recipe, run.archives, run.group)
    batches = feed.batches(0)
    return run, lambda: _step(run, run.task, feed, batches, _Clock(run))


@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_the_processor(archive, name):
    run, step = begun(archive, name, torch.device("cpu"))
    expected = [step(), step()]
    with watched() as seen:
        moved, step = begun(archive, name, device())
        got = [step()]
        seen.clear()  # constants are sent in the first step
        got.append(step())
    for one, other in zip(got, expected, strict=True):
        assert (one.loss, one.gradient_norm) == pytest.approx((other.loss, other.gradient_norm), rel=1e-9)
    for one, other in zip(moved.task.parameters(), run.task.parameters(), strict=True):
        torch.testing.assert_close(one.detach().held, other.detach(), rtol=1e-6, atol=1e-9)
    assert waits(seen) <= LISTED
    uploads = {crossing.place.split(".py:")[0] for crossing in seen if crossing.kind == "upload"}
    assert uploads <= {"training/feed", "context/noise"}  # the batch, and its noise


@pytest.mark.parametrize("name", ["nips", "nips-mlp", "nao", "afno"])
def test_a_step_of_a_paper_model_sends_its_batch_and_waits_for_two_answers(archive, name):
    with watched() as seen:
        _, step = begun(archive, name, device())
        step()
        seen.clear()
        step()
    sent = [crossing for crossing in seen if crossing.kind == "upload"]
    assert sum(crossing.bytes for crossing in sent) == 2 * 4 * 12 * archive.grid.size * 8
    assert len(sent) == 2 * 2  # loads and responses, in two parts
    asked = [crossing.place for crossing in seen if crossing.kind != "upload"]
    assert asked == ["context/scaling.py:Scaling.of"] * 2 + ["training/loop.py:_read"]


def test_a_loss_that_mixes_devices_is_found(archive, monkeypatch):
    """The planted mistake: a constant without its device."""
    root = torch.tensor(archive.grid.weights).sqrt()

    def mixing(grid, estimate, truth):
        return ((estimate - truth) * root).flatten(2).norm(dim=2)

    monkeypatch.setattr("nipde.training.task.relative_errors", mixing)
    with watched():
        _, step = begun(archive, "nips", device())
        with pytest.raises(MixedDevices, match="both sides"):
            step()


def test_work_on_the_device_is_not_a_crossing():
    layer = torch.nn.Linear(3, 2).to(device())
    optimiser = torch.optim.Adam(layer.parameters(), fused=True)
    own = torch.ones(3).to(device())
    with watched() as seen:
        layer(own).square().sum().backward()
        optimiser.step()
        torch.fft.rfft(own)
        torch.zeros(3, device=device()) + torch.linspace(0, 1, 3, device=device())
    assert seen == []
    assert isinstance(layer.weight.grad, OnDevice)
