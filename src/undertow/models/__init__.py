"""The networks the papers train, built on the CPU from a seeded generator."""

from undertow.models.initialisation import Gaussian, He, Initialisation, Scaled
from undertow.models.mlp import mlp
from undertow.models.nearest import NearestNeighbour
from undertow.models.polynomial_relu import PolynomialReLU, activation
from undertow.models.prelu import prelu_network
from undertow.models.resnet import resnet
from undertow.models.two_layer import two_layer

__all__ = [
    "Gaussian",
    "He",
    "Initialisation",
    "NearestNeighbour",
    "PolynomialReLU",
    "Scaled",
    "activation",
    "mlp",
    "prelu_network",
    "resnet",
    "two_layer",
]
