"""Gradient descent on many networks as one batch, with losses in the log domain."""

from undertow.losses import Loss, log_loss_gradient, log_mean_loss, loss_gradient, mean_loss
from undertow.training.divergence import MemberState
from undertow.training.recipe import Recipe
from undertow.training.trainer import Trainer

__all__ = [
    "Loss",
    "MemberState",
    "Recipe",
    "Trainer",
    "log_loss_gradient",
    "log_mean_loss",
    "loss_gradient",
    "mean_loss",
]
