"""Sections of the feature-averaging study's other rows: what is built from them, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from undertow.config.trial import TrialConfig, validate
from undertow.core.errors import ConfigError
from undertow.core.streams import stream
from undertow.data.loading import load
from undertow.data.network_features import FeaturesData, feature_network, features
from undertow.execution.build import build_data, build_network, build_points
from undertow.models import NearestNeighbour, resnet
from undertow.training.batches import epoch_order

LINEAR = {"name": "mlp", "widths": [], "init": {"name": "gaussian", "std": 0.0}}


def trial(
    data: dict[str, Any], model: dict[str, Any] = LINEAR, loss: str = "logistic", **probe: Any
) -> TrialConfig:
    document = {"data": data, "model": model, "training": {"loss": loss}, "probe": probe, "seed": 3}
    return validate(TrialConfig, document)


@pytest.mark.parametrize(
    "data",
    [
        {"name": "slabs", "n": 30, "d": 5},
        {"name": "lower-bound", "n": 30, "d": 9, "corners": 20},
        {"name": "axis-clusters", "n": 30, "d": 12, "k": 4, "norm": 1.0, "sigma": 0.1},
    ],
)
def test_sampled_data_are_drawn_anew_for_the_test_split(data: dict[str, Any]) -> None:
    config = trial(data, split="test", limit=10)
    trained, points = build_data(config.data), build_points(config, build_data(config.data))
    assert (len(trained), len(points)) == (30, 10)
    assert not torch.equal(trained.x[:10], points.x)
    same = build_points(trial(data, limit=10), trained)
    assert torch.equal(same.x, trained.x[:10])
    if data["name"] == "lower-bound":
        assert torch.equal(points.details["corners"], trained.details["corners"])
    with pytest.raises(ConfigError, match=r"probe\.split = 'test'"):
        trial(data, split="all")


def test_networks_that_are_made_rather_than_drawn() -> None:
    data = {"name": "lower-bound", "n": 100, "d": 9, "corners": 20}
    config = trial(data, {"name": "nearest"}, "cross-entropy")
    dataset = build_data(config.data)
    net = build_network(config, dataset)
    assert isinstance(net, NearestNeighbour)
    assert len(net.anchors) == 20
    assert torch.equal(net(dataset.x).argmax(1), dataset.y)
    with pytest.raises(ConfigError, match="cross-entropy"):
        trial(data, {"name": "nearest"}, "logistic")
    prelu: Any = build_network(
        trial(data, {"name": "prelu", "width": 6, "power": 3.0}, "exponential"), dataset
    )
    assert prelu.activation.power == 3
    assert float(prelu.hidden.weight.detach().norm(dim=1).max()) < 1e-6
    with pytest.raises(ConfigError, match="one logit"):
        trial(data, {"name": "prelu", "width": 6}, "cross-entropy")
    images = {"name": "resnet", "image": [1, 8, 8], "channels": [2, 4]}
    config = trial({"name": "digits", "limit": 4}, images, "cross-entropy")
    digits = build_data(config.data)
    net = build_network(config, digits)
    assert net(digits.x).shape == (4, 10)
    assert not net.training


def test_features_know_their_class_means_and_task() -> None:
    config = FeaturesData(
        name="features", of="digits", task="parity", train=120, limit=120, channels=(4, 8), epochs=2, seed=1
    )
    data = features(config)
    assert (data.x.shape, data.classes) == ((120, 8), 2)
    assert torch.equal(data.y, data.details["cluster"] % 2)
    assert data.details["cluster_sign"].tolist() == [-1, 1] * 5
    for c in range(10):
        mean = data.x[data.details["cluster"] == c].mean(0)
        assert torch.allclose(mean, data.details["centres"][c], atol=1e-4)
    assert float(data.details["centres"].norm(dim=1).mean()) == pytest.approx(8**0.5, rel=1e-4)
    assert bool((data.x >= 0).all())
    centred = features(config.model_copy(update={"centred": True}))
    assert float(centred.x.mean(0).abs().max()) < 1e-4
    # Another split goes through the same network, and the same settings give the same one again.
    test = features(config.model_copy(update={"split": "test", "limit": 20}))
    assert torch.equal(test.details["centres"], data.details["centres"])
    kept = feature_network(config.model_copy(update={"limit": None, "task": None}))
    feature_network.cache_clear()
    again = feature_network(config.model_copy(update={"limit": None, "task": None}))
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), again.parameters(), strict=True))


def test_the_feature_network_is_trained_as_torchs_sgd_does() -> None:
    config = FeaturesData(
        name="features", of="digits", train=70, channels=(4,), epochs=3, batch_size=32, seed=2
    )
    data = load("digits", split="train", limit=70)
    net = resnet(
        image=(1, 8, 8),
        channels=(4,),
        blocks=1,
        outputs=10,
        generator=torch.Generator().manual_seed(stream(2, "weights")),
    ).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=config.learning_rate, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 9)
    for epoch in range(3):
        for batch in torch.split(epoch_order(70, seeds=[stream(2, "order")], epoch=epoch), 32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(data.x.flatten(1)[batch]), data.y[batch]).backward()
            optimizer.step()
            schedule.step()
    ours = feature_network(config).state_dict()  # BatchNorm's running statistics are among it
    for name, value in net.state_dict().items():
        torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-6)
