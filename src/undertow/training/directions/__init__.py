"""Directions by name: the optimisers that a recipe or a configuration file can ask for."""

from undertow.core.errors import ConfigError, nearest
from undertow.training.directions.adam import Adam
from undertow.training.directions.adamw import AdamW
from undertow.training.directions.coordinate_descent import CoordinateDescent
from undertow.training.directions.direction import Direction, Memory, move, per_member
from undertow.training.directions.gradient_descent import GradientDescent
from undertow.training.directions.heavy_ball import HeavyBall
from undertow.training.directions.muon import Muon
from undertow.training.directions.nesterov import Nesterov
from undertow.training.directions.normalised_descent import NormalisedDescent
from undertow.training.directions.sam import Sam
from undertow.training.directions.sign_descent import SignDescent
from undertow.training.directions.spectral import SpectralDescent
from undertow.training.directions.steady_descent import SteadyDescent

__all__ = [
    "DIRECTIONS",
    "Adam",
    "AdamW",
    "CoordinateDescent",
    "Direction",
    "GradientDescent",
    "HeavyBall",
    "Memory",
    "Muon",
    "Nesterov",
    "NormalisedDescent",
    "Sam",
    "SignDescent",
    "SpectralDescent",
    "SteadyDescent",
    "find_direction",
    "move",
    "names_of",
    "per_member",
]

DIRECTIONS: tuple[type[Direction], ...] = (
    GradientDescent,
    HeavyBall,
    Nesterov,
    Adam,
    AdamW,
    Sam,
    NormalisedDescent,
    SignDescent,
    CoordinateDescent,
    SpectralDescent,
    SteadyDescent,
    Muon,
)
"""A new optimiser is a file in this folder and a line here."""


def names_of(kind: type[Direction]) -> tuple[str, ...]:
    """What configurations call it; gradient descent has two names."""
    return tuple(kind.model_fields["name"].annotation.__args__)  # type: ignore[union-attr]


def find_direction(name: str) -> Direction:
    """The direction of that name, with its default settings.

    >>> find_direction("adamw")
    AdamW(name='adamw', beta1=0.9, beta2=0.999, epsilon=1e-08, weight_decay=0.01)
    >>> find_direction("adma")
    Traceback (most recent call last):
    undertow.core.errors.ConfigError: optimizer = 'adma' is unknown: did you mean 'adam'?
    """
    named = {each: kind for kind in DIRECTIONS for each in names_of(kind)}
    if name not in named:
        raise ConfigError(f"optimizer = {name!r} is unknown: {nearest(str(name), named)}")
    return named[name](name=name)
