"""Random signs from a count alone: the same alone and among others, on every device, and after a restart."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["hashed_signs"]

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def hashed_signs(like: Tensor, *, seeds: Tensor, count: Tensor, draw: int, first: int = 0) -> Tensor:
    """±1 in the shape (M, B, k) of ``like``: the draw number ``draw`` of step number ``count`` for seeds (M,).

    A bit of SplitMix64 (Steele, Lea & Flood 2014) of where an entry is: a step that is captured as a CUDA graph gets
    new signs at each replay because ``count`` is a tensor, and there is no generator whose state a checkpoint would
    need. ``first`` is the place of the first sample in its batch.

    >>> like, seeds, count = torch.empty(2, 3, 4), torch.tensor([0, 1]), torch.tensor(5)
    >>> both = hashed_signs(like, seeds=seeds, count=count, draw=0)
    >>> late = hashed_signs(like[1:, 2:], seeds=seeds[1:], count=count, draw=0, first=2)
    >>> torch.equal(both[1, 2], late[0, 0]), sorted(set(both.flatten().tolist()))
    (True, [-1.0, 1.0])
    """
    members, samples, outputs = like.shape
    step = _mixed(_mixed(seeds) + count * 64 + draw).view(members, 1, 1)
    places = torch.arange(first * outputs, (first + samples) * outputs, device=like.device)
    mixed = _mixed(step + places.view(1, samples, outputs))
    return torch.where(mixed < 0, -1.0, 1.0).to(like.dtype)


def _mixed(values: Tensor) -> Tensor:
    values = (values + 1) * _GOLDEN
    values = (values ^ _shifted(values, 30)) * _FIRST
    values = (values ^ _shifted(values, 27)) * _SECOND
    return values ^ _shifted(values, 31)


def _shifted(values: Tensor, by: int) -> Tensor:
    """A shift to the right that brings in zeros; torch's own repeats the sign."""
    return torch.bitwise_and(torch.bitwise_right_shift(values, by), 2 ** (64 - by) - 1)
