"""Epochs that may be taken back: what is kept from before, and how often each network has tried."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.training.directions import per_member
from undertow.training.rates import Horizon, RateRule

__all__ = ["Attempts"]

_BEFORE = "before."


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
        self._idle = torch.zeros_like(self.lost)

    def begin_try(self, out: Tensor) -> None:
        """Note who takes no part in the next try: networks that wait, and those ``out`` of training, (M,) bool."""
        self._idle.copy_(self.waiting | out)

    def look(self, log_loss: Tensor) -> Tensor:
        """Note which networks this batch is hopeless for; which take the step on it, (M,) bool."""
        self.lost.logical_or_(self._rule.hopeless(log_loss, self.state))
        return ~self.over

    @property
    def over(self) -> Tensor:
        """Which networks take no further step in this try, (M,) bool."""
        return self.lost | self._idle

    @property
    def waiting(self) -> Tensor:
        """Which networks have come to their end, (M,) bool."""
        return (self.epochs >= self._horizon.epochs) | (self.failed >= self._rule.most_tries) | self.reached

    @property
    def reached(self) -> Tensor:
        """Which networks have kept an epoch with the loss that training was to end at, (M,) bool."""
        return (self.log_loss <= self._stop) & (self.epochs > 0)

    def frame_out_of_reach(self, index: int) -> str:
        """A sentence with what to try where no epoch was kept yet and the first had to begin by falling, or nothing."""
        allowed = self._rule.allowed(self.state)
        if allowed is None or bool(self.epochs[index] > 0) or not bool(allowed[index] < self.log_loss[index]):
            return ""
        first, begin = (math.log10(math.e) * float(each[index]) for each in (allowed, self.log_loss))
        return (
            f" Its loss was 10^{begin:.3g} before the first epoch, which is kept only where it ends below "
            f"10^{first:.3g}: a frame_at_start above the loss lets it begin."
        )

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
        self.begin_try(out)
        return kept

    def completed(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A state from between two tries, with what may have to be put back: what is there."""
        before = {f"{_BEFORE}{name}": state[name] for name in self._before if name in state}
        return {**before, **state}

    def tensors(self, *, between_tries: bool = False) -> dict[str, Tensor]:
        """All of this that a checkpoint needs, by name; ``between_tries`` it need not say what to go back to."""
        kept = {} if between_tries else self._before
        return {
            "attempts.epochs": self.epochs,
            "attempts.tries": self.tries,
            "attempts.failed": self.failed,
            "attempts.lost": self.lost,
            "attempts.log_loss": self.log_loss,
            "attempts.log_time": self.log_time,
            **{f"rate.{name}": tensor for name, tensor in self.state.items()},
            **{f"{_BEFORE}{name}": tensor for name, tensor in kept.items()},
        }
