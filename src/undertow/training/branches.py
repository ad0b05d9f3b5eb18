"""Compiled convolutional networks of one architecture as one: each is a branch of the captured step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.members import over_members, side_by_side
from undertow.training.ensemble import Ensemble
from undertow.training.mapped import MappedNetworks

__all__ = ["BranchedNetworks"]


class BranchedNetworks(Ensemble):
    """M networks, each stepped as it would be alone, by one compiled function of one network.

    The products of one small network fill a part of a GPU, and a product of several stacked ones is no better cut among
    its processors: kernels of branches, chosen for one network, share it instead. So a network's steps are the same
    bit for bit however many are trained beside it. Without a graph that is being captured they run in turn.
    """

    room_without_gradients = MappedNetworks.room_without_gradients

    def __init__(
        self,
        networks: Sequence[nn.Module],
        *,
        frozen: Sequence[str],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__(networks, frozen=frozen, dtype=dtype, device=device)
        self._apply = over_members(self._template, one_by_one=True)
        one = MappedNetworks(networks[:1], frozen=frozen, dtype=dtype, device=device, faster=True)
        self._one = [one.on(_own(self.weights, index)) for index in range(self.size)]

    def floats_per_sample(self, sample: Tensor) -> int:
        return self.size * self._one[0].floats_per_sample(sample)

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        return torch.cat([one.logits(x) for one in self._one])

    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, list[Any]]:
        samples = torch.split(x, 1) if own else [x] * self.size
        calls = [partial(one.forward, each, own=own) for one, each in zip(self._one, samples, strict=True)]
        found = side_by_side(calls, like=x)
        return torch.cat([logits for logits, _ in found]), [kept for _, kept in found]

    def backward(self, kept: list[Any], slopes: Tensor, *, onto: Mapping[str, Tensor]) -> None:
        each = zip(self._one, kept, torch.split(slopes, 1), range(self.size), strict=True)
        calls = [partial(one.backward, own, rows, onto=_own(onto, index)) for one, own, rows, index in each]
        side_by_side(calls, like=slopes)


def _own(stacked: Mapping[str, Tensor], index: int) -> dict[str, Tensor]:
    """One member's tensors, (1, …), on the stacked ones themselves."""
    return {name: tensor[index : index + 1] for name, tensor in stacked.items()}
