"""Penalties by name: what training may add to the loss."""

from undertow.training.penalties.jacobian_penalty import JacobianPenalty
from undertow.training.penalties.penalty import Penalty, Signs

__all__ = ["PENALTIES", "JacobianPenalty", "Penalty", "Signs"]

PENALTIES: tuple[type[Penalty], ...] = (JacobianPenalty,)
"""A new penalty is a file in this folder and a line here."""
