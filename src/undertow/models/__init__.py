"""The networks the papers train, built on the CPU from a seeded generator."""

from undertow.models.cnn import CnnModel, cnn
from undertow.models.diagonal import DiagonalModel, DiagonalNetwork
from undertow.models.grouped_centres import GroupedModel
from undertow.models.imagenet_resnet import ImageNetResNetModel, imagenet_resnet
from undertow.models.initialisation import Gaussian, He, Initialisation, Scaled
from undertow.models.matrix_product import MatrixProduct, MatrixProductModel
from undertow.models.mlp import MlpModel, mlp
from undertow.models.model_section import ModelSection
from undertow.models.nearest import NearestModel, NearestNeighbour
from undertow.models.polynomial_relu import PolynomialReLU, activation
from undertow.models.prelu import PreluModel, prelu_network
from undertow.models.resnet import ResNetModel, resnet
from undertow.models.sloped_two_layer import SlopedTwoLayerModel
from undertow.models.transformer import Transformer, TransformerModel
from undertow.models.two_layer import TwoLayerModel, two_layer
from undertow.models.vgg import Vgg11Model, Vgg16Model, vgg
from undertow.models.vit import VisionTransformerModel, vision_transformer

__all__ = [
    "MODELS",
    "CnnModel",
    "DiagonalModel",
    "DiagonalNetwork",
    "Gaussian",
    "GroupedModel",
    "He",
    "ImageNetResNetModel",
    "Initialisation",
    "MatrixProduct",
    "MatrixProductModel",
    "MlpModel",
    "ModelSection",
    "NearestModel",
    "NearestNeighbour",
    "PolynomialReLU",
    "PreluModel",
    "ResNetModel",
    "Scaled",
    "SlopedTwoLayerModel",
    "Transformer",
    "TransformerModel",
    "TwoLayerModel",
    "Vgg11Model",
    "Vgg16Model",
    "VisionTransformerModel",
    "activation",
    "cnn",
    "imagenet_resnet",
    "mlp",
    "prelu_network",
    "resnet",
    "two_layer",
    "vgg",
    "vision_transformer",
]

MODELS: tuple[type[ModelSection], ...] = (
    TwoLayerModel,
    SlopedTwoLayerModel,
    MlpModel,
    MatrixProductModel,
    DiagonalModel,
    GroupedModel,
    PreluModel,
    NearestModel,
    ResNetModel,
    CnnModel,
    Vgg11Model,
    Vgg16Model,
    ImageNetResNetModel,
    VisionTransformerModel,
    TransformerModel,
)
"""A new model is a file in this folder and a line here: what the section ``model`` of a configuration can be."""
