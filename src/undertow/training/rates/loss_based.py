"""Rates that grow as the loss falls, with epochs that are taken back (Lyu & Li 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from undertow.core.sections import Count, Positive
from undertow.training.rates.rule import Horizon, RateRule, RateState

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LossBased"]


class LossBased(RateRule):
    """Steps minimise α·L_batch/frame, frame being the training loss after the last epoch kept: η = α/frame.

    α starts at the recipe's learning rate (0.1 in the paper). After every epoch the loss of the whole training set is
    compared with the frame. If it did not rise, the epoch is kept: α grows by 2^(1/5) and the loss is the new
    frame. Otherwise the network goes back to where the epoch began, α shrinks by 2^(1/10), and the epoch is
    done again in another order. A batch with L_batch/frame above ``ceiling`` ends the epoch at once, in the same way.

    Losses are logarithms throughout, so that η may pass the largest float: the step is
    α exp(log L_batch − log frame) ∇log L_batch, all of order one.

    Whether an epoch is kept is one comparison of two nearly equal numbers. In float64 a run can be repeated by
    another program; in float32 one comparison that rounding decides, and the two go different ways.

    Args:
        growth: What α is multiplied by after an epoch that is kept.
        retreat: What α is divided by after one that is not.
        ceiling: The largest L_batch/frame that an epoch survives.
        frame_at_start: The first frame; without one, the loss of a network that knows nothing (log k for k classes).
        patience: How many tries of one epoch may fail before the network is given up.

    >>> import torch
    >>> rule, state = LossBased(), {"alpha": torch.tensor([0.1, 0.1]), "log_frame": torch.tensor([0.0, 0.0])}
    >>> kept, state = rule.judge(torch.tensor([-1.0, 0.5]), state)
    >>> kept.tolist(), [round(a, 4) for a in state["alpha"].tolist()], state["log_frame"].tolist()
    ([True, False], [0.1149, 0.0933], [-1.0, 0.0])
    """

    revocable: ClassVar[bool] = True
    name: Literal["loss-based"] = "loss-based"
    growth: Positive = 2.0**0.2
    retreat: Positive = 2.0**0.1
    ceiling: Positive = 600.0
    frame_at_start: Positive | None = None
    patience: Count = 500

    @property
    def most_tries(self) -> int:
        return self.patience

    def start(self, base: Tensor, horizon: Horizon) -> RateState:
        first = horizon.ignorance if self.frame_at_start is None else math.log(self.frame_at_start)
        return {"alpha": base.clone(), "log_frame": base * 0 + first}

    def rates(
        self,
        base: Tensor,  # noqa: ARG002
        count: Tensor,  # noqa: ARG002
        state: Mapping[str, Tensor],
        horizon: Horizon,  # noqa: ARG002
    ) -> Tensor:
        return state["alpha"]

    def frame(self, state: Mapping[str, Tensor]) -> Tensor | None:
        return state["log_frame"]

    def allowed(self, state: Mapping[str, Tensor]) -> Tensor | None:
        return state["log_frame"]

    def hopeless(self, log_loss: Tensor, state: Mapping[str, Tensor]) -> Tensor:
        return ~(log_loss - state["log_frame"] <= math.log(self.ceiling))  # a comparison with NaN is false

    def judge(self, log_loss: Tensor, state: Mapping[str, Tensor]) -> tuple[Tensor, RateState]:
        alpha, frame = state["alpha"], state["log_frame"]
        kept = (log_loss <= frame) & log_loss.isfinite()
        return kept, {
            "alpha": (alpha * self.growth).where(kept, alpha / self.retreat),
            "log_frame": log_loss.where(kept, frame),
        }
