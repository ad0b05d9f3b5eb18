"""Networks attacked on *raw* inputs, by probes that see inputs as the network does.

A measure is told how long one raw unit is for the network: ``unit`` is 1 where the two agree, 2 where pixels in
[0, 1] were scaled to [-1, 1]. An offset does not matter to a ball. Inputs that were divided by their own norms have
no such number: robust accuracy then goes back to the raw inputs (``normalise="unit-norm"``); the radii of the bound on
the adversarial risk are relative to ‖x‖ = 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn

from undertow.adversary.classifier import Classifier

__all__ = ["in_raw_units", "taken_for_logits"]


def in_raw_units(
    networks: Sequence[nn.Module], x: Tensor, *, unit: float, dtype: torch.dtype
) -> tuple[Classifier, Tensor]:
    """The networks as functions of x/unit, and x/unit."""
    copies = [deepcopy(net).to(dtype) for net in networks]
    return Classifier(copies, std=1 / unit), x.to(dtype) / unit


@contextmanager
def taken_for_logits() -> Iterator[None]:
    """Without the warning about scores that are all in [0, 1]: near their start logits are, as probabilities are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the network seems to return probabilities")
        yield
