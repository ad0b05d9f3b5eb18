"""Epochs that may be taken back: what is kept from before, and how often each network has tried."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.training.directions import per_member
from undertow.training.rates import Horizon, RateRule

__all__ = ["Attempts"]


class Attempts:
    """Every pass over the data is a try; each network keeps it or goes back, and counts for itself.

    ``changing`` are the tensors (M, …) that training changes: weights, buffers, the optimiser's memory. Copies
    from before the try are put back where the rule does not keep it. Nothing draws from a generator: the order of
    a try follows from (seed, epochs kept, tries of this epoch).

    A network with all its epochs, one whose log-loss is at most ``stop``, and one with too many failed tries of an
    epoch wait for the others. ``log_loss`` is that of the last epoch kept, ``log_time`` the log of Σ η over its steps.
    """

    def __init__(
        self,
        rule: RateRule,
        base: Tensor,
        horizon: Horizon,
        changing: Mapping[str, Tensor],
        *,
        stop: float | None = None,
    ) -> None:
        self._rule, self._horizon = rule, horizon
        self._changing = changing
        self.state = rule.start(base, horizon)
        self._before = {name: tensor.clone() for name, tensor in changing.items()}
        self.epochs, self.tries, self.failed = (
            torch.zeros(len(base), dtype=torch.int64, device=base.device) for _ in range(3)
        )
        self.lost = torch.zeros(len(base), dtype=torch.bool, device=base.device)
        self._stop = -math.inf if stop is None else stop
        self.log_loss, self.log_time = (
            torch.full((len(base),), limit, dtype=torch.float64, device=base.device)
            for limit in (math.inf, -math.inf)
        )

    def look(self, log_loss: Tensor) -> Tensor:
        """Note which networks this batch is hopeless for; which take the step on it, (M,) bool."""
        self.lost.logical_or_(self._rule.hopeless(log_loss, self.state) & ~self.waiting)
        return ~self.lost & ~self.waiting

    @property
    def waiting(self) -> Tensor:
        """Which networks have come to their end, (M,) bool."""
        return (self.epochs >= self._horizon.epochs) | (self.failed >= self._rule.most_tries) | self.reached

    @property
    def reached(self) -> Tensor:
        """Which networks have kept an epoch with the loss that training was to end at, (M,) bool."""
        return (self.log_loss <= self._stop) & (self.epochs > 0)

    def settle(self, log_loss: Tensor, out: Tensor, log_rates: Tensor) -> Tensor:
        """Keep the try or take it back, given each network's loss after it; which were kept, (M,) bool.

        ``log_rates`` are the logs of the effective rates of its steps.

        Networks that are ``out`` of training, (M,) bool, neither keep nor lose anything.
        """
        trying = ~self.waiting & ~out
        kept, state = self._rule.judge(log_loss.masked_fill(self.lost, torch.nan), self.state)
        kept = kept & trying
        for name, tensor in state.items():
            self.state[name].copy_(tensor.where(trying, self.state[name]))
        for name, now in self._changing.items():
            before = self._before[name]
            before.copy_(now.where(per_member(kept, now), before))
            now.copy_(before)
        longer = torch.logaddexp(self.log_time, log_rates + math.log(self._horizon.steps_per_epoch))
        self.log_time.copy_(longer.where(kept, self.log_time))
        self.log_loss.copy_(log_loss.where(kept, self.log_loss))
        self.epochs.add_(kept)
        self.tries.add_(trying)
        self.failed.copy_(torch.where(kept, 0, self.failed + (trying & ~kept)))
        self.lost.zero_()
        return kept

    def tensors(self) -> dict[str, Tensor]:
        """All of this that a checkpoint needs, by name."""
        return {
            "attempts.epochs": self.epochs,
            "attempts.tries": self.tries,
            "attempts.failed": self.failed,
            "attempts.lost": self.lost,
            "attempts.log_loss": self.log_loss,
            "attempts.log_time": self.log_time,
            **{f"rate.{name}": tensor for name, tensor in self.state.items()},
            **{f"before.{name}": tensor for name, tensor in self._before.items()},
        }
