"""Random labels mixed in: how many, where, and that other splits keep the true ones."""

from __future__ import annotations

import pytest
import torch

from undertow.core.errors import ConfigError
from undertow.core.validation import validate
from undertow.data.mixed_labels import MixedLabelsData, mixed_labels

DIGITS = {"name": "digits", "limit": 400}
CLUSTERS = {"name": "d-binary", "n": 300, "d": 60, "k": 4}


def section(of: dict[str, object], share: float, seed: int = 3) -> MixedLabelsData:
    return validate(MixedLabelsData, {"name": "mixed-labels", "of": of, "share": share}).with_seed(seed)


@pytest.mark.parametrize("of", [CLUSTERS, DIGITS], ids=["clusters", "digits"])
def test_points_stay_and_measured_are_the_labels_trained_on_or_the_true_ones_of_the_test_split(
    of: dict[str, object],
) -> None:
    own = section(of, 0.5)
    source, mixed = own.of.build(), own.build()
    assert torch.equal(mixed.x, source.x)
    assert not torch.equal(mixed.y, source.y)
    assert torch.equal(own.points(mixed, split=None, limit=50).y, mixed.y[:50])
    wanted = own.of.points(source, split="test", limit=50)
    found = own.points(mixed, split="test", limit=50)
    assert torch.equal(found.x, wanted.x)
    assert torch.equal(found.y, wanted.y)


def test_a_share_of_labels_is_uniform_and_grows_with_the_share() -> None:
    n, truth = 20000, torch.zeros(20000, dtype=torch.long)
    before = torch.zeros(n, dtype=torch.bool)
    for share in (0.0, 0.25, 0.5, 1.0):
        changed = mixed_labels(truth, 4, share, seed=1) != truth
        expected = 0.75 * share
        assert abs(float(changed.double().mean()) - expected) <= 4 * (expected * (1 - expected) / n) ** 0.5
        assert bool(changed[before].all()), "labels of a smaller share are among those of a larger one"
        before = changed
    assert torch.equal(section(CLUSTERS, 0.0).build().y, section(CLUSTERS, 0.0).of.build().y)


def test_labels_follow_the_seed_and_shares_beyond_one_are_refused() -> None:
    assert torch.equal(section(DIGITS, 0.5).build().y, section(DIGITS, 0.5).build().y)
    assert not torch.equal(section(DIGITS, 0.5).build().y, section(DIGITS, 0.5, seed=4).build().y)
    with pytest.raises(ConfigError, match="share"):
        section(DIGITS, 1.5)
