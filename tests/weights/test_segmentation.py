"""Files of segmentation networks: the same probabilities, and only what they claim to be."""

import pytest
import torch

from nipde.errors import CheckpointError
from nipde.estimators.segmentation.network import SegmentationConfig, SegmentationNetwork, features, inputs
from nipde.weights import checkpoint, segmentation


@pytest.fixture
def network():
    torch.manual_seed(0)
    return SegmentationNetwork(SegmentationConfig(images=2, widths=(4, 8, 8))).eval()


def test_a_network_comes_back_to_half_precision(network, tmp_path):
    path = tmp_path / "one.safetensors"
    segmentation.save(network, path, about={"seed": 3})
    other = segmentation.load(path)
    assert other.config == network.config
    assert segmentation.card(path) == {"seed": 3}
    given = torch.randn(2, inputs(2), 13, 16)  # no multiple of anything
    apart = (network(given).softmax(dim=1) - other(given).softmax(dim=1)).abs().max()
    assert other(given).shape == (2, 3, 13, 16)
    assert 0 < apart < 5e-3


def test_features_do_not_depend_on_the_unit_but_for_what_tells_the_size():
    images = torch.randn(1, 2, 8, 8)
    flat = torch.ones(8, 8)
    one, ten = (features(scale * images, flat, flat) for scale in (1.0, 10.0))
    assert one.shape[1] == inputs(2)
    assert torch.allclose(one[:, :2], ten[:, :2], atol=2e-2)
    assert torch.allclose(ten[:, 4] - one[:, 4], torch.tensor(10.0).log(), atol=1e-2)


def test_what_is_no_such_network_is_refused(network, tmp_path):
    path = tmp_path / "one.safetensors"
    halves = {name: value.half() for name, value in network.state_dict().items()}
    record = {"kind": segmentation.KIND, "version": 1, "network": network.config.to_dict(), "about": {}}
    for tensors, changed in (
        (halves, record | {"kind": "conditioned"}),
        (halves, record | {"network": {"images": 3, "widths": [4, 8, 8]}}),
        (halves, record | {"network": {"images": 2, "widths": [4, 8, 10**9]}}),
        (network.state_dict(), record),
        ({name: value for name, value in halves.items() if "readout" not in name}, record),
    ):
        checkpoint.save(path, tensors, changed)
        with pytest.raises(CheckpointError):
            segmentation.load(path)
    with pytest.raises(CheckpointError):
        segmentation.load("darcy-that-is-not-there.safetensors")
