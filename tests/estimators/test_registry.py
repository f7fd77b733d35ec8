"""Every trainable model says in its config what rebuilds it; other packages add estimators by entry points."""

import dataclasses
import json
import sys

import pytest
import torch

import nipde
from nipde.boundary import Neumann
from nipde.cli import main
from nipde.errors import PairsError
from nipde.estimators import registry
from nipde.grid import Axis, Grid

PLANE = Grid((Axis(8, 1.3), Axis(7, 2.5, Neumann())))
SIZES = {"pairs": 4, "channels": 3, "layers": 2}
MODELS = {
    "NIPS": lambda: nipde.NIPS(PLANE, **SIZES),
    "NIPS, some modes": lambda: nipde.NIPS(PLANE, **SIZES, modes=[3, 2], components=2),
    "NIPS-mlp": lambda: nipde.estimators.NIPSMLP(PLANE, **SIZES),
    "NIPS-mlp, narrow": lambda: nipde.estimators.NIPSMLP(PLANE, **SIZES, hidden=5),
    "NAO": lambda: nipde.NAO(PLANE, **SIZES),
    "NAO-f": lambda: nipde.NAO(PLANE, **SIZES, full_norms=True, attention="quadratic"),
    "NAO-W^P": lambda: nipde.NAO(PLANE, **SIZES, token_projections=True, kernel_networks="plain"),
    "AFNO": lambda: nipde.AFNO(PLANE, pairs=4, layers=2, components=2),
    "elliptic": lambda: nipde.ConditionedNIPS(dimension=2, drift=True, channels=6),
    "gated": lambda: nipde.ConditionedNIPS(dimension=1, components=(2, 3), prior="gated", head=True, terms=5),
    "elastic": lambda: nipde.ConditionedNIPS(dimension=2, components=(2, 2), prior="elastic"),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def test_a_config_rebuilds_its_model(model):
    again = type(model).from_config(model.config)
    assert again.config == model.config
    again.load_state_dict(model.state_dict())
    if isinstance(model, nipde.NAO):
        assert again.attention is model.attention
        assert [one.form for one in again.kernel_networks] == [one.form for one in model.kernel_networks]


def test_a_config_survives_json(model):
    text = json.dumps(model.config.to_dict())
    assert type(model).Config.from_dict(json.loads(text)) == model.config


def test_a_config_is_frozen(model):
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.config.components = 7


def test_the_same_weights_in_a_rebuilt_model_give_the_same_kernel():
    model = MODELS["NIPS, some modes"]()
    again = nipde.NIPS.from_config(model.config)
    again.load_state_dict(model.state_dict())
    loads, responses = torch.randn(2, 4, 2, *PLANE.shape, generator=torch.Generator().manual_seed(0))
    pairs = nipde.Pairs(PLANE, loads, responses)
    assert torch.equal(again(pairs) @ loads, model(pairs) @ loads)


# Other packages


@pytest.fixture
def other_package(tmp_path, monkeypatch):
    """One file and the metadata that an installer would leave beside it."""
    (tmp_path / "halved.py").write_text(
        "from nipde.estimators.base import Model, ModelConfig\n"
        "from nipde.estimators.regression.ridge import Ridge\n"
        "class Halved:\n"
        "    def __call__(self, pairs):\n"
        "        return Ridge()(pairs) * 0.5\n"
        "class Trained(Model):\n"
        "    Config = ModelConfig\n"
    )
    folder = tmp_path / "halved-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: halved\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[nipde.estimators]\nhalved = halved:Halved\ntrained = halved:Trained\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry._others.cache_clear()
    yield
    sys.modules.pop("halved", None)
    registry._others.cache_clear()


def test_an_estimator_of_another_package_is_loaded_when_it_is_used(other_package):
    assert "halved" in registry.names()
    assert "halved" not in sys.modules
    assert registry.factory("halved")().__class__.__name__ == "Halved"


@pytest.mark.slow
def test_the_command_line_knows_it(other_package, tmp_path, capsys):
    data = str(tmp_path / "data")
    words = ["--grid", "6", "--systems", "8", "--pairs", "6", "--out", data]
    assert main(["generate", "darcy", *words]) == 0
    assert main(["evaluate", "halved", "--data", data, "--pairs", "3", "--json", str(tmp_path / "errors.json")]) == 0
    assert json.loads((tmp_path / "errors.json").read_text())["held_out"]["mean"] > 0.4
    assert main(["estimate", data, "--estimator", "halved"]) == 0
    assert "held out" in capsys.readouterr().out


def test_a_trainable_model_needs_weights(other_package):
    assert registry.model_class("trained").__name__ == "Trained"
    for name in ("trained", "nips"):
        with pytest.raises(PairsError):
            registry.factory(name)
    with pytest.raises(PairsError):
        registry.model_class("ridge")
