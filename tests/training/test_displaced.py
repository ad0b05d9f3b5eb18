"""Weights somewhere else for a moment come back, whatever happens there."""

from __future__ import annotations

import pytest
import torch

from undertow.training.displaced import displaced


def test_weights_come_back_exactly_after_an_error_within() -> None:
    weights = {"a": torch.tensor([1.0, 1e-30]), "b": torch.tensor([3.0])}
    with pytest.raises(ZeroDivisionError), displaced(weights, by={"a": torch.tensor([1e9, 1.0])}):
        raise ZeroDivisionError
    assert weights["a"].equal(torch.tensor([1.0, 1e-30]))


def test_weights_come_back_where_a_later_shift_does_not_fit() -> None:
    weights = {"a": torch.ones(2), "b": torch.ones(3)}
    shifts = {"a": torch.ones(2), "b": torch.ones(4)}
    with pytest.raises(RuntimeError), displaced(weights, by=shifts):
        pass
    assert weights["a"].tolist() == [1.0, 1.0]
    assert weights["b"].tolist() == [1.0, 1.0, 1.0]
