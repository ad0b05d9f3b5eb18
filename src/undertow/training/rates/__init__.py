"""Rate rules by name: how the length of a step is decided."""

from undertow.training.rates.constant import Constant
from undertow.training.rates.loss_based import LossBased
from undertow.training.rates.power_decay import Power
from undertow.training.rates.rule import Horizon, RateRule, RateState
from undertow.training.rates.scheduled import Scheduled

__all__ = ["RATE_RULES", "Constant", "Horizon", "LossBased", "Power", "RateRule", "RateState", "Scheduled"]

RATE_RULES: tuple[type[RateRule], ...] = (
    Constant,
    Scheduled,
    LossBased,
    Power,
)
"""A new rule is a file in this folder and a line here."""
