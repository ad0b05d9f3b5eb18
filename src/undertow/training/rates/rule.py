"""What a rate rule is: how long each step is, and whether an epoch is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from undertow.core.sections import Section

if TYPE_CHECKING:  # a rule's settings are read by configurations, which need no torch
    from torch import Tensor

__all__ = ["Horizon", "RateRule", "RateState"]

RateState = dict[str, "Tensor"]


@dataclass(frozen=True)
class Horizon:
    """The training that a rule is for.

    ``ignorance`` is the log of the loss of a network whose outputs are all equal: log log k for k classes.
    """

    epochs: int
    steps_per_epoch: int
    ignorance: float


class RateRule(Section, ABC):
    """How long each step is, for many networks at once, each with its own rate.

    ``state`` is all that a rule remembers, tensors (M,) in float64 on the networks' device. What is called in
    every step (``rates``, ``frame``, ``hopeless``) asks nothing of the host, so that a GPU can replay it.
    A rule that may take an epoch back is ``revocable``: ``judge`` then decides after each pass over the data.
    """

    revocable: ClassVar[bool] = False
    name: str

    @property
    def most_tries(self) -> int:
        """How many tries of one epoch may fail, one after the other, before a network is given up."""
        return 1

    def start(self, base: Tensor, horizon: Horizon) -> RateState:  # noqa: ARG002
        """What it remembers before the first step; ``base`` are the recipes' learning rates (M,)."""
        return {}

    @abstractmethod
    def rates(self, base: Tensor, count: Tensor, state: Mapping[str, Tensor], horizon: Horizon) -> Tensor:
        """The rates (M,) of update number ``count``, a tensor that counts from 0."""

    def frame(self, state: Mapping[str, Tensor]) -> Tensor | None:  # noqa: ARG002
        """Log of what each loss is divided by before its gradient is taken, (M,); None for 1."""
        return None

    def allowed(self, state: Mapping[str, Tensor]) -> Tensor | None:  # noqa: ARG002
        """The largest log-loss (M,) with which ``judge`` keeps an epoch; None where that is not what decides."""
        return None

    def hopeless(self, log_loss: Tensor, state: Mapping[str, Tensor]) -> Tensor:  # noqa: ARG002
        """Which networks (M,) bool should end their epoch at once, given the log of the batch's loss."""
        return log_loss.isnan()

    def judge(self, log_loss: Tensor, state: Mapping[str, Tensor]) -> tuple[Tensor, RateState]:
        """Which networks keep their epoch, (M,) bool, and what the rule remembers then.

        ``log_loss`` (M,) is of the whole training set after the epoch. A network that met a hopeless batch comes
        with NaN.
        """
        return ~log_loss.isnan(), dict(state)
