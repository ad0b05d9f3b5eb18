"""Norms of many samples' Jacobians, and how well they are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from undertow.core.shown import Shown
from undertow.core.status import Status

__all__ = ["JacobianNorms", "joined"]

_PER_SAMPLE = ("value", "error", "steps", "risk", "converged")


@dataclass(frozen=True)
class JacobianNorms(Shown):
    """‖J(x_i)‖₂ for every sample, and how well it is known.

    ``value`` and ``error`` are float64 tensors (N,). What ``error`` promises:

    - always: rounding, measured by repeating the products with every result perturbed
      (:mod:`undertow.jacobian.rounding`). Samples for which it would be too large in float32 are computed in float64.
    - ``exact``: nothing else (a ReLU whose input is zero to rounding may fall on either side).
    - ``krylov``: ``value`` is a lower bound up to rounding, and the true norm is at most ``value + error``
      unless the sample's random start nearly missed the top direction, which has at most the probability
      in ``risk``. ``error`` is the larger of that random-start bound and the residual ‖Jᵀu − σv‖, plus
      rounding. By default all N bounds hold together with 99 %. After a warm start the residual alone is within
      rtol, so some singular value lies that close. That it is the largest is inherited from the call that gave
      the vectors; ``error`` is what the start's fresh randomness proves by itself, a few per cent.
    - ``power``: nothing; ``error`` is infinite.

    ``status`` is the worst over the samples, ``converged`` tells them apart, ``steps`` is what each took.
    """

    value: Tensor
    error: Tensor
    steps: Tensor
    risk: Tensor
    converged: Tensor
    status: Status
    method: str
    vectors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.value)

    def part(self, samples: slice, *, good: Status) -> JacobianNorms:
        """Some of the samples; ``good`` is the status where all of those converged."""
        tensors: dict[str, Any] = {name: getattr(self, name)[samples] for name in _PER_SAMPLE}
        vectors = None if self.vectors is None else self.vectors[samples]
        part = replace(self, **tensors, vectors=vectors)
        if self.status is Status.HEURISTIC:
            return part
        good = Status.EXACT if self.method == "exact" else good
        return part.with_status(good, otherwise=self.status)

    def with_status(self, good: Status, *, otherwise: Status) -> JacobianNorms:
        """``good`` where every sample converged."""
        return replace(self, status=good if bool(self.converged.all()) else otherwise)

    def replaced(
        self, index: Tensor, others: Callable[[Tensor], JacobianNorms], *, good: Status
    ) -> JacobianNorms:
        """These norms with ``others`` in the place of the samples ``index``; ``good`` where all converged."""
        if len(index) == 0:
            return self.with_status(good, otherwise=Status.MAX_STEPS)
        better = others(index)
        tensors: dict[str, Any] = {}
        for name in (*_PER_SAMPLE, "vectors"):
            own, new = getattr(self, name), getattr(better, name)
            tensors[name] = None if own is None else own.index_copy(0, index, new.to(own))
        rest = torch.ones_like(self.converged).index_fill_(0, index, False)
        kept = good if bool(self.converged[rest].all()) else Status.MAX_STEPS
        return replace(self, **tensors, status=Status.worst((kept, better.status)))

    def among(self, index: Tensor, count: int) -> JacobianNorms:
        """These as the samples ``index`` of ``count``, of which nothing else is known."""
        nothing = {"value": math.nan, "error": math.inf, "steps": 0, "risk": 1.0, "converged": False}
        tensors: dict[str, Any] = {}
        for name in (*_PER_SAMPLE, "vectors"):
            own = getattr(self, name)
            if own is not None:
                every = torch.full((count, *own.shape[1:]), nothing.get(name, 0.0)).to(own)
                tensors[name] = every.index_copy(0, index, own)
        return replace(self, **tensors)

    def expanded(self, count: int) -> JacobianNorms:
        """One sample's norm as that of ``count`` samples that all have the same Jacobian."""
        tensors: dict[str, Any] = {name: getattr(self, name).expand(count).clone() for name in _PER_SAMPLE}
        vectors = None if self.vectors is None else self.vectors.expand(count, -1).clone()
        return replace(self, **tensors, vectors=vectors)


def joined(parts: Sequence[JacobianNorms]) -> JacobianNorms:
    """The samples of several results as one."""
    if len(parts) == 1:
        return parts[0]
    tensors: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in _PER_SAMPLE
    }
    kept = [part.vectors for part in parts if part.vectors is not None]
    worst = Status.worst(part.status for part in parts)
    return replace(parts[0], **tensors, vectors=torch.cat(kept) if kept else None, status=worst)
