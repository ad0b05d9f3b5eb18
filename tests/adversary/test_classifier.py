from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.adversary.cases import decisions, mlp, points
from undertow.adversary import Classifier, Groups, robust_accuracy
from undertow.core.errors import InputError, ModelError

NET, X = mlp(0), points(0, 12)
Y = decisions(NET, X)


def test_margins_of_one_logit_and_of_its_two_class_twin_are_equal() -> None:
    one = mlp(3, outputs=1)
    y = torch.arange(12) % 2
    twin = Classifier(lambda v: torch.cat([-one(v) / 2, one(v) / 2], 1))
    assert torch.equal(Classifier(one).margins(X, y), twin.margins(X, y))


def test_a_tie_is_an_error() -> None:
    constant = Classifier(lambda v: torch.zeros(len(v), 2))
    assert robust_accuracy(constant, X, Y.clamp(max=1), eps=0.1).value == 0.0


def test_groups_sum_class_scores() -> None:
    y = torch.ones(12, dtype=torch.long)
    out = NET(X)
    margins = Classifier(NET, readout=Groups((0, 2), (1,))).margins(X, y)
    assert torch.allclose(margins, out[:, 0] + out[:, 2] - out[:, 1])
    with pytest.raises(InputError, match="at most once"):
        Classifier(NET, readout=Groups((0, 1), (1,))).margins(X, y)


def test_normalisation_per_channel() -> None:
    x = torch.rand(2, 3, 4, 4)
    net = Classifier(lambda v: v.mean((2, 3)), mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 4.0))
    expected = (x.mean((2, 3)) - torch.tensor([0.1, 0.2, 0.3])) / torch.tensor([1.0, 2.0, 4.0])
    y = torch.zeros(2, dtype=torch.long)
    assert torch.allclose(net.margins(x, y), expected[:, 0] - expected[:, 1:].amax(1), atol=1e-6)
    with pytest.raises(InputError, match="broadcast"):
        Classifier(NET, mean=(1.0, 2.0)).margins(X, Y)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (torch.full((12,), 3), "classes 0 … 2"),
        (torch.full((12,), -1), "classes 0 … 2"),
        (torch.ones(12), "integer labels"),
        (torch.zeros(11, dtype=torch.long), "12 integer labels"),
    ],
)
def test_labels_out_of_range_are_refused(labels: torch.Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        robust_accuracy(NET, X, labels, eps=0.1)


def test_inputs_outside_the_bounds_are_refused() -> None:
    with pytest.raises(InputError, match="leave the declared bounds"):
        robust_accuracy(NET, X, Y, eps=0.1, bounds=(0.0, 1.0))
    with pytest.raises(InputError, match="NaN"):
        robust_accuracy(NET, X * torch.nan, Y, eps=0.1)
    with pytest.raises(InputError, match="smallest"):
        Classifier(NET, bounds=(1.0, 0.0))


def test_probabilities_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="probabilities"):
        robust_accuracy(lambda v: NET(v).softmax(1), X, Y, eps=0.1, attack="apgd-ce")
    one = mlp(3, outputs=1)
    with pytest.warns(UserWarning, match="probabilities"):
        robust_accuracy(lambda v: one(v).sigmoid(), X, torch.arange(12) % 2, eps=0.1, attack="apgd-ce")


def test_broken_networks_are_refused() -> None:
    with pytest.raises(ModelError, match="NaN"):
        robust_accuracy(lambda v: NET(v) * torch.nan, X, Y, eps=0.1)
    with torch.random.fork_rng(), pytest.raises(ModelError, match="different outputs"):
        robust_accuracy(lambda v: NET(v) + torch.randn(3), X, Y, eps=0.1)
    with pytest.raises(ModelError, match=r"shape \(1, 3, 2\).*output=lambda out: out\[:, -1\]"):
        robust_accuracy(lambda v: NET(v)[:, :, None].expand(-1, -1, 2), X, Y, eps=0.1)
    with pytest.raises(ModelError, match="needs one output"):
        robust_accuracy(NET, X, Y, eps=0.1, readout="logit")
    with pytest.raises(ModelError, match="architecture"):
        robust_accuracy([NET, mlp(0, width=9)], X, Y, eps=0.1)
    with pytest.raises(InputError, match="did you mean 'logit'"):
        Classifier(NET, readout="logits")


def test_dropout_is_switched_off_and_on_again() -> None:
    net = nn.Sequential(NET[0], nn.Dropout(0.5), NET[1], NET[2]).train()
    plain = robust_accuracy(NET, X, Y, eps=0.2, attack="apgd-ce")
    assert robust_accuracy(net, X, Y, eps=0.2, attack="apgd-ce").value == plain.value
    assert net.training
    assert net[1].training


def test_division_by_the_norm_keeps_certificates_of_homogeneous_networks_only() -> None:
    """f(x/‖x‖) = f(x)/‖x‖ without offsets: the same decisions, so the same proofs; with offsets none is given."""
    plain = nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 2, bias=False))
    torch.manual_seed(0)
    for weight in plain.parameters():
        nn.init.normal_(weight)
    x = torch.rand(10, 4, generator=torch.Generator().manual_seed(1)) + 0.5
    y = plain(x).argmax(1)
    own = robust_accuracy(Classifier(plain), x, y, eps=0.1)
    divided = robust_accuracy(Classifier(plain, unit_norm=True), x, y, eps=0.1)
    assert (divided.value, divided.proved) == (own.value, own.proved)
    assert own.proved > 0
    several = robust_accuracy(Classifier([plain, plain], unit_norm=True), x, y, eps=0.1)
    assert isinstance(several.value, torch.Tensor)
    assert several.value.tolist() == [own.value, own.value]
    offset = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    found = robust_accuracy(Classifier(offset, unit_norm=True), x, offset(x).argmax(1), eps=0.1)
    assert found.proved == 0.0
    assert "no certificate" in " ".join(found.notes)
