"""Adversarial points with the adversary's labels: targets, radii, and what is left of the true labels."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import ConfigError
from undertow.core.validation import validate
from undertow.data.data_sets import DATA_SETS
from undertow.data.relabelled import RelabelledData, _network

CLUSTERS = {"name": "d-binary", "n": 300, "d": 60, "k": 4}
DIGITS = {"name": "digits", "limit": 400}


def section(of: dict[str, object], **options: object) -> RelabelledData:
    settings = {"name": "relabelled", "of": of, "width": 16, "epochs": 8, "steps": 20, **options}
    return validate(RelabelledData, settings).with_seed(3)


@pytest.mark.parametrize("of", [CLUSTERS, DIGITS], ids=["clusters", "digits"])
@pytest.mark.parametrize("targets", ["random", "deterministic"])
def test_points_stay_within_the_ball_and_go_where_the_network_sees_the_target(
    of: dict[str, object], targets: str
) -> None:
    own = section(of, targets=targets, eps=2.0)
    source, moved = own.of.build(), own.build()
    delta = (moved.x - source.x.flatten(1)).norm(dim=1)
    assert float(delta.max()) <= 2.0 * (1 + 1e-5)
    if source.bounds is not None:
        assert moved.x.min() >= source.bounds[0]
        assert moved.x.max() <= source.bounds[1]
    network = _network(own.model_copy(update={"targets": "random", "eps": 1.0, "steps": 1}))
    before, after = (
        (network(x).argmax(1) == moved.y).double().mean().item() for x in (source.x.flatten(1), moved.x)
    )
    assert after > before + 0.2


def test_deterministic_targets_are_the_next_class_and_random_ones_know_nothing() -> None:
    turned = section(DIGITS, targets="deterministic", eps=0.0)
    assert torch.equal(turned.build().y, (turned.of.build().y + 1) % 10)
    drawn = section(CLUSTERS | {"n": 4000}, eps=0.0)
    labels, truth = drawn.build().y, drawn.of.build().y
    assert abs(float((labels == truth).double().mean()) - 0.5) < 4 * 0.5 / 4000**0.5
    assert torch.equal(labels, drawn.build().y)
    assert not torch.equal(labels, drawn.model_copy(update={"seed": None}).with_seed(4).build().y)


def test_the_control_moves_nothing_and_points_to_measure_are_clean() -> None:
    for of in (CLUSTERS, DIGITS):
        control = section(of, eps=0.0)
        assert torch.equal(control.build().x, control.of.build().x.flatten(1))
        wanted = control.of.points(control.of.build(), split="test", limit=50)
        found = control.points(control.build(), split="test", limit=50)
        assert torch.equal(found.x, wanted.x)
        assert torch.equal(found.y, wanted.y)


def test_averaged_features_relabel_themselves_beyond_the_radius_of_the_theory() -> None:
    """Moved by ε against the averages, Σ y x has coefficient ε/√(dk) − 1/k on each own centre: sign by sign."""
    d, k, n = 64, 4, 4
    centres, signs = 8.0 * torch.eye(d)[:k], torch.tensor([1.0, 1.0, -1.0, -1.0])
    direction = (signs @ centres) / (signs @ centres).norm()
    for factor, sign in ((0.5, -1.0), (2.0, 1.0)):
        eps = factor * (d / k) ** 0.5
        moved = centres - eps * signs[:, None] * direction
        learned = (-signs[:, None] * moved).sum(0) / n
        coefficients = signs * (centres @ learned) / d
        assert torch.allclose(coefficients, torch.full((k,), eps / (d * k) ** 0.5 - 1 / k), atol=1e-6)
        assert bool((coefficients.sign() == sign).all())


def test_a_source_that_is_neither_is_refused() -> None:
    assert RelabelledData in DATA_SETS
    with pytest.raises(ConfigError, match="d-binary"):
        section({"name": "d-binry"})
    with pytest.raises(ConfigError, match="of"):
        section({"name": "d-binary", "d": -1})
    with pytest.raises(ConfigError, match="of"):
        validate(RelabelledData, {"name": "relabelled", "of": 3})
