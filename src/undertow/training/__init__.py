"""Gradient descent on many networks as one batch: gradient, direction, rate, and whether the step is kept.

Names are imported on first use: configurations name optimisers and rate rules, and are read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.core.losses import Loss as Loss
    from undertow.core.losses import log_loss_gradient as log_loss_gradient
    from undertow.core.losses import log_mean_loss as log_mean_loss
    from undertow.core.losses import loss_gradient as loss_gradient
    from undertow.core.losses import mean_loss as mean_loss
    from undertow.training.divergence import MemberState as MemberState
    from undertow.training.penalties import CollaborationPenalty as CollaborationPenalty
    from undertow.training.penalties import EnergyPenalty as EnergyPenalty
    from undertow.training.penalties import JacobianPenalty as JacobianPenalty
    from undertow.training.rates import Constant as Constant
    from undertow.training.rates import LossBased as LossBased
    from undertow.training.rates import Scheduled as Scheduled
    from undertow.training.recipe import Recipe as Recipe
    from undertow.training.recipe import TrainingSection as TrainingSection
    from undertow.training.taken import StepTaken as StepTaken
    from undertow.training.trainer import Trainer as Trainer

_WHERE = {
    "Loss": "undertow.core.losses",
    "log_loss_gradient": "undertow.core.losses",
    "log_mean_loss": "undertow.core.losses",
    "loss_gradient": "undertow.core.losses",
    "mean_loss": "undertow.core.losses",
    "MemberState": "undertow.training.divergence",
    "CollaborationPenalty": "undertow.training.penalties",
    "EnergyPenalty": "undertow.training.penalties",
    "JacobianPenalty": "undertow.training.penalties",
    "Constant": "undertow.training.rates",
    "LossBased": "undertow.training.rates",
    "Scheduled": "undertow.training.rates",
    "Recipe": "undertow.training.recipe",
    "TrainingSection": "undertow.training.recipe",
    "StepTaken": "undertow.training.taken",
    "Trainer": "undertow.training.trainer",
}

__all__ = [
    "CollaborationPenalty",
    "Constant",
    "EnergyPenalty",
    "JacobianPenalty",
    "Loss",
    "LossBased",
    "MemberState",
    "Recipe",
    "Scheduled",
    "StepTaken",
    "Trainer",
    "TrainingSection",
    "log_loss_gradient",
    "log_mean_loss",
    "loss_gradient",
    "mean_loss",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'undertow.training' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
