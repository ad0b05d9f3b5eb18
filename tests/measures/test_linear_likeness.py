"""Linear models against scikit-learn's, agreement written out, and features that no longer tell the label."""

from __future__ import annotations

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from undertow.core.errors import InputError
from undertow.data.slabs import slabs
from undertow.measures.linear_likeness import agreement, best_linear_model
from undertow.measures.randomised_features import randomised


def noisy(n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(n, 5, generator=draw, dtype=torch.float64)
    y = (x[:, 0] + torch.randn(n, generator=draw, dtype=torch.float64) > 0.3).long()
    return x, y


@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_the_best_linear_model_is_scikit_learns(ridge: float) -> None:
    x, y = noisy()
    model = best_linear_model(x, y, ridge=ridge)
    oracle = LogisticRegression(C=1 / (ridge * len(x)), tol=1e-10, max_iter=1000).fit(x.numpy(), y.numpy())
    assert model.weight.tolist() == pytest.approx(oracle.coef_[0].tolist(), abs=1e-5)
    assert float(model.bias) == pytest.approx(float(oracle.intercept_[0]), abs=1e-5)


def test_separable_data_is_separated() -> None:
    data = slabs(n=500, d=6, seed=1)
    model = best_linear_model(data.x, data.y)
    assert bool(((model(data.x) > 0) == (data.y == 1)).all())
    with pytest.raises(InputError, match="0 and 1"):
        best_linear_model(data.x, data.y + 1)


def test_agreement_written_out() -> None:
    x, y = noisy()
    model = best_linear_model(x, y)
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    found = agreement(net, x, y, model)
    with torch.no_grad():
        logits = net(x).flatten()
    ours, theirs = (logits > 0) == (y == 1), (model(x) > 0) == (y == 1)
    a, b = float(ours.double().mean()), float(theirs.double().mean())
    same = float((ours == theirs).double().mean())
    expected = a * b + (1 - a) * (1 - b)
    assert (found.agree, found.accuracy, found.linear_accuracy) == pytest.approx((same, a, b))
    assert found.beyond == pytest.approx((same - expected) / (1 - expected))
    rows = torch.cat([x, torch.ones(len(x), 1).double()], dim=1)
    left = logits - rows @ torch.linalg.pinv(rows) @ logits
    assert found.linearity == pytest.approx(1 - float(left.var() / logits.var()), abs=1e-6)
    line = nn.Linear(5, 1).double()
    assert agreement(line, x, y, model).linearity == pytest.approx(1.0)
    with pytest.raises(InputError, match="one logit"):
        agreement(nn.Linear(5, 2).double(), x, y, model)


def test_perfect_classifiers_leave_no_room_beyond_their_accuracy() -> None:
    data = slabs(n=100, d=3)
    model = best_linear_model(data.x, data.y)
    net = nn.Linear(3, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.0, 0.0]]))
        net.bias.zero_()
    found = agreement(net, data.x, data.y, model)
    assert (found.agree, found.beyond) == (1.0, None)


def test_exchanged_columns_keep_their_distribution_and_nothing_of_the_label() -> None:
    data = slabs(n=4000, d=4)
    mixed = randomised(data.x, slice(0, 1), generator=torch.Generator().manual_seed(0))
    assert torch.equal(mixed[:, 1:], data.x[:, 1:])
    assert torch.equal(mixed[:, 0].sort().values, data.x[:, 0].sort().values)
    assert float(((mixed[:, 0] > 0) == (data.y == 1)).double().mean()) == pytest.approx(0.5, abs=0.05)
