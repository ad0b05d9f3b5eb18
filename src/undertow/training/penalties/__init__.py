"""Penalties by name: what training may add to the loss."""

from undertow.training.penalties.collaboration_penalty import CollaborationPenalty
from undertow.training.penalties.energy_penalty import EnergyPenalty
from undertow.training.penalties.jacobian_penalty import JacobianPenalty
from undertow.training.penalties.penalty import Penalty, Vectors

__all__ = ["PENALTIES", "CollaborationPenalty", "EnergyPenalty", "JacobianPenalty", "Penalty", "Vectors"]

PENALTIES: tuple[type[Penalty], ...] = (JacobianPenalty, EnergyPenalty, CollaborationPenalty)
"""A new penalty is a file in this folder and a line here."""
