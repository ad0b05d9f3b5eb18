"""Scores of classes from what a network gives: one logit, k logits, or a difference of sums of logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from undertow.core.errors import InputError, ModelError

__all__ = ["READOUTS", "Groups", "readout_matrix"]

READOUTS = ("auto", "logit", "classes")


@dataclass(frozen=True)
class Groups:
    """The binary read-out Σ_{j∈J+} s_j − Σ_{j∈J−} s_j of a k-class network; label 1 is J+."""

    positive: tuple[int, ...]
    negative: tuple[int, ...]

    def weights(self, outputs: int) -> Tensor:
        chosen = (*self.positive, *self.negative)
        if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= j < outputs for j in chosen):
            raise InputError(
                f"Groups({self.positive}, {self.negative}) must name each of the {outputs} outputs at most "
                f"once, with indices 0 … {outputs - 1}"
            )
        row = torch.zeros(outputs)
        row[list(self.positive)] = 1.0
        row[list(self.negative)] = -1.0
        return row


def readout_matrix(readout: str | Groups, outputs: int) -> Tensor | None:
    """Scores (0, f) for one logit f, the identity (None) for k classes, (0, Σ_{J+} − Σ_{J−}) for groups."""
    if isinstance(readout, Groups):
        row = readout.weights(outputs)
        return torch.stack([torch.zeros_like(row), row])
    if readout == "logit" and outputs != 1:
        raise ModelError(
            f"readout='logit' needs one output, but the network gives {outputs}: use 'classes' or Groups"
        )
    if readout == "classes" and outputs == 1:
        raise ModelError(
            "readout='classes' needs two outputs or more, but the network gives one: use 'logit'"
        )
    return torch.tensor([[0.0], [1.0]]) if outputs == 1 else None
