"""Networks made of cluster centres: the feature-averaging paper's f_robust, and those that average (Li et al. 2025)."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.core.errors import InputError
from undertow.core.losses import Loss
from undertow.core.sections import Count
from undertow.models.initialisation import empty_linear
from undertow.models.model_section import ModelSection

if TYPE_CHECKING:
    from undertow.data.data_section import DataSection
    from undertow.data.dataset import Dataset

__all__ = ["THRESHOLD", "GroupedModel", "grouped_network"]

THRESHOLD = 1 - 1 / math.sqrt(2)
"""The share of ‖μ‖² that f_robust's biases take away: the largest that costs no robustness (`grouped_radius`)."""


class GroupedModel(ModelSection):
    """One neuron for each group of clusters, constructed from their centres and not drawn; data "d-binary" only.

    Groups of one are f_robust; see :func:`grouped_network`.
    """

    name: Literal["grouped-centres"]
    group: Count = 1
    threshold: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.2928932188134524

    def build(
        self,
        dataset: Dataset,
        *,
        loss: Loss,  # noqa: ARG002
        dtype: torch.dtype,
        generator: torch.Generator,  # noqa: ARG002
    ) -> nn.Module:
        return grouped_network(
            dataset.details["centres"],
            dataset.details["cluster_sign"],
            group=self.group,
            threshold=self.threshold,
            dtype=dtype,
        )

    def check(self, data: DataSection, loss: Loss) -> None:
        if data.name != "d-binary" or loss == "cross-entropy":
            raise ValueError("grouped-centres is one logit of the data d-binary: choose the loss logistic")


def grouped_network(
    centres: Tensor,
    signs: Tensor,
    *,
    group: int = 1,
    threshold: float = THRESHOLD,
    dtype: torch.dtype = torch.float32,
) -> nn.Sequential:
    """Σ_{G ⊂ J₊} ReLU(⟨w_G, x⟩ − β‖μ‖²) − Σ_{G ⊂ J₋} ReLU(⟨w_G, x⟩ − β‖μ‖²) with w_G = Σ_{j ∈ G} μ_j.

    Each class is cut into groups of ``group`` clusters (the last may be smaller). Groups of one are the
    papers' f_robust, in which every neuron deals with one cluster; one group for each class is the
    feature-averaging solution. β is ``threshold``. Weights are divided by ‖μ‖², which changes no decision and makes
    f(μ_j) = ±(1 − β). Children are called flatten, hidden, activation, output, as in ``two_layer``.

    >>> net = grouped_network(2 * torch.eye(4), torch.tensor([1, 1, -1, -1]))
    >>> [round(value, 3) for value in net(2 * torch.eye(4)).flatten().tolist()]
    [0.707, 0.707, -0.707, -0.707]
    """
    if group < 1:
        raise InputError(f"group = {group}: a neuron deals with at least one cluster.")
    if not 0 <= threshold < 1:
        raise InputError(
            f"threshold = {threshold} must lie in [0, 1): at 1 a neuron is off at its own centre."
        )
    rows, heads = [], []
    for sign in (1, -1):
        members = torch.nonzero(signs == sign).flatten()
        for start in range(0, len(members), group):
            rows.append(centres.double()[members[start : start + group]].sum(0))
            heads.append(float(sign))
    length = centres.double().square().sum(1).mean()
    inputs, width = centres.shape[1], len(rows)
    hidden = empty_linear(inputs, width, bias=True, dtype=dtype)
    output = empty_linear(width, 1, bias=False, dtype=dtype)
    with torch.no_grad():
        hidden.weight.copy_(torch.stack(rows) / length)
        hidden.bias.fill_(-threshold)
        output.weight.copy_(torch.tensor([heads]))
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), hidden=hidden, activation=nn.ReLU(), output=output)
    )
