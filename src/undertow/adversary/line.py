"""How far a two-layer network's decision survives along one given direction: exact, no search."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["first_crossing"]


def first_crossing(hidden: Tensor, slopes: Tensor, head: Tensor) -> Tensor:
    """The smallest t ≥ 0 with Σ_r a_r ReLU(h_r + t g_r) ≤ 0; inf where there is none. 0 at an error or a tie.

    ``hidden`` h and ``slopes`` g have shape (…, m), ``head`` a (…, m) or (m,), signed so that a positive sum is
    correct. Between the m places where a neuron switches the sum is linear, so its first zero follows from its values
    at these places and its slope behind the last.

    >>> first_crossing(torch.tensor([[3.0, -1.0]]), torch.tensor([[-1.0, 1.0]]), torch.tensor([1.0, -1.0]))
    tensor([2.])
    """
    switches = torch.where(slopes != 0, -hidden / slopes, math.inf)
    switches = torch.where(switches > 0, switches, math.inf)
    reached = torch.where(switches.isfinite(), switches, 0.0)
    last = reached.amax(-1, keepdim=True) + 1.0
    # Neurons that never switch are looked at just behind the last switch, which adds nothing new.
    places = torch.where(switches.isfinite(), switches, last).sort(-1).values
    places = torch.cat([torch.zeros_like(last), places, last], -1)
    values = _sums(hidden, slopes, head, places)
    # At the switch of the last neuron that was on the sum is 0 up to rounding, and stays 0 behind it: a tie.
    rounding = 64 * torch.finfo(values.dtype).eps * (head.abs() * hidden.abs()).sum(-1, keepdim=True)
    crossed = values <= rounding
    index = crossed.to(torch.int64).argmax(-1, keepdim=True)
    before = (index - 1).clamp(min=0)
    left, right = places.gather(-1, before), places.gather(-1, index)
    high, low = values.gather(-1, before), values.gather(-1, index)
    inside = left + (right - left) * (high / (high - low).clamp(min=1e-300)).clamp(max=1.0)
    # Behind the last switch the sum goes on with its last slope.
    end = values[..., -1:]
    rate = (head * slopes * (hidden + last * slopes > 0)).sum(-1, keepdim=True)
    beyond = torch.where(rate < 0, last - end / rate, math.inf)
    found = torch.where(crossed.any(-1, keepdim=True), torch.where(index > 0, inside, 0.0), beyond)
    return found.squeeze(-1)


def _sums(hidden: Tensor, slopes: Tensor, head: Tensor, places: Tensor) -> Tensor:
    """Σ_r a_r ReLU(h_r + t g_r) at each of the places t (…, T): shape (…, T)."""
    moved = hidden.unsqueeze(-2) + places.unsqueeze(-1) * slopes.unsqueeze(-2)
    return (moved.relu() * head.unsqueeze(-2)).sum(-1)
