"""Networks of one architecture, held as one: every parameter carries a leading member axis."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from undertow.core.errors import ModelError, nearest
from undertow.core.members import first_unlike, over_members

__all__ = ["Ensemble"]


class Ensemble(ABC):
    """M networks that share an architecture, evaluated and differentiated together.

    ``weights`` maps each parameter's name to a tensor (M, …); optimisers change these tensors in place.
    ``trained`` are the names that are not frozen. Subclasses say how logits and gradients are computed.
    """

    batch_statistics = False
    """Whether a step normalises by its batch, which then must not be cut in parts; it may come to an end."""
    room_without_gradients = 1
    """How many times more samples a pass can take that keeps nothing for gradients."""

    def __init__(
        self,
        networks: Sequence[nn.Module],
        *,
        frozen: Sequence[str],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        _check_alike(networks)
        names = [name for name, _ in networks[0].named_parameters()]
        for name in frozen:
            if name not in names:
                raise ModelError(
                    f"frozen names {name!r}, which the network does not have: {nearest(name, names)}"
                )
        self.trained = tuple(name for name in names if name not in set(frozen))
        self.size = len(networks)
        self.dtype, self.device = dtype, device
        self.weights = _stack([dict(network.named_parameters()) for network in networks], dtype, device)
        self.buffers = _stack([dict(network.named_buffers()) for network in networks], dtype, device)
        self._template = copy.deepcopy(networks[0]).to(dtype=dtype, device=device).requires_grad_(True)
        self._apply = over_members(self._template)

    @abstractmethod
    def forward(self, x: Tensor, *, own: bool) -> tuple[Tensor, Any]:
        """Logits (M, B, k) of samples (B, …), or with ``own`` of each member's samples (M, B, …).

        The second value is what ``backward`` needs.
        """

    @abstractmethod
    def backward(self, kept: Any, slopes: Tensor, *, onto: Mapping[str, Tensor]) -> None:
        """Add each trained parameter's gradient to ``onto[name]`` (M, …), given that of the logits (M, B, k).

        ``onto`` may be the weights themselves: slopes times -η then make this a step of gradient descent,
        without a gradient ever being stored. ``slopes`` may be overwritten.
        """

    @abstractmethod
    def floats_per_sample(self, sample: Tensor) -> int:
        """How many values one sample, given as (1, …), occupies on its way through all members."""

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Logits (M, B, k) of samples (B, …)."""
        return self.forward(x, own=False)[0]

    def logits_in_parts(self, x: Tensor, largest: int) -> Tensor:
        """Logits (M, N, k) of many samples (N, …), of which ``largest`` have room at once with gradients."""
        parts = torch.split(x, largest * self.room_without_gradients)
        return torch.cat([self.logits(part) for part in parts], dim=1) if len(parts) > 1 else self.logits(x)

    def outputs(self, weights: Mapping[str, Tensor], x: Tensor, *, own: bool) -> Tensor:
        """Logits (M, B, k) as a function that autograd differentiates, of weights (M, …) and of the samples."""
        logits = self._apply(weights, self.buffers, x, own)
        if logits.dim() != 3:
            raise ModelError(
                f"The network turns {x.shape[1 if own else 0]} samples into shape {tuple(logits.shape[1:])}: "
                "training wants logits of shape (N, k), with k = 1 for one logit."
            )
        return logits

    def network(self, index: int, *, shared: bool = False) -> nn.Module:
        """One member in eval mode: a copy, or with ``shared`` a module on the stacked weights themselves."""
        return copy.deepcopy(self._template, self._in_place(index, shared=shared)).eval()

    def state(self, index: int) -> dict[str, Tensor]:
        """What ``network(index).state_dict()`` is, copied, without a module being made for it."""
        own = self._in_place(index, shared=False)
        return {
            name: own.get(id(tensor), tensor).detach()
            for name, tensor in self._template.state_dict(keep_vars=True).items()
        }

    def _in_place(self, index: int, *, shared: bool) -> dict[int, Tensor]:
        """What a member has in place of each of the template's tensors, by their ids, also where they are tied."""
        own: dict[int, Tensor] = {}
        for name, parameter in self._template.named_parameters():
            weight = self.weights[name][index].detach()
            own[id(parameter)] = nn.Parameter(
                weight if shared else weight.clone(), requires_grad=parameter.requires_grad
            )
        for name, buffer in self._template.named_buffers():
            values = self.buffers[name][index].detach()
            own[id(buffer)] = values if shared else values.clone()
        return own


def _stack(members: list[dict[str, Any]], dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    def place(tensor: Tensor) -> Tensor:
        return tensor.detach().to(device=device, dtype=dtype if tensor.is_floating_point() else tensor.dtype)

    return {name: torch.stack([place(member[name]) for member in members]) for name in members[0]}


def _check_alike(networks: Sequence[nn.Module]) -> None:
    if next(networks[0].parameters(), None) is None:
        raise ModelError("The network has no parameters: there is nothing to train.")
    index = first_unlike(networks)
    if index is not None:
        raise ModelError(
            f"Networks that train together share one architecture, and member {index} differs from "
            f"member 0: train it apart.\nmember 0: {networks[0]}\nmember {index}: {networks[index]}"
        )
