"""The networks the papers train, built on the CPU from a seeded generator."""

from undertow.models.activations import PolynomialReLU, activation
from undertow.models.initialisation import Gaussian, He, Initialisation, Scaled
from undertow.models.mlp import mlp
from undertow.models.two_layer import two_layer

__all__ = ["Gaussian", "He", "Initialisation", "PolynomialReLU", "Scaled", "activation", "mlp", "two_layer"]
