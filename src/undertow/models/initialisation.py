"""How the weights of a layer are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol, TypeVar, Union

import torch
from pydantic import Field
from torch import Tensor, nn

from undertow.core.errors import ConfigError
from undertow.core.sections import NonNegative, Real, Section

__all__ = [
    "INITIALISATIONS",
    "FanIn",
    "Gaussian",
    "GlorotUniform",
    "He",
    "HeInit",
    "InitSection",
    "Initialisation",
    "Scaled",
    "allocated",
    "draw_linear",
    "draw_normal",
    "draw_truncated_he",
    "draw_uniform",
    "empty_linear",
]

Layer = TypeVar("Layer", bound=nn.Module)


class Initialisation(Protocol):
    """Standard deviations of the Gaussian weights and biases of a layer with ``inputs`` and ``width``."""

    def weight_std(self, *, inputs: int, width: int) -> float: ...

    def bias_std(self, *, inputs: int, width: int) -> float: ...


@dataclass(frozen=True)
class Scaled:
    """W_ij ~ N(0, 1/m^(1+2q)), m the width (Wang, Min & Ruan 2024, Assumption 5.1); biases 0.

    q = 0 is the lazy scale, larger q a smaller start.

    >>> Scaled(q=0.5).weight_std(inputs=784, width=100)
    0.01
    """

    q: float

    def __post_init__(self) -> None:
        _require(math.isfinite(self.q), "q", self.q, "a finite number")

    def weight_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return math.pow(width, -(0.5 + self.q))

    def bias_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return 0.0


@dataclass(frozen=True)
class Gaussian:
    """W_ij ~ N(0, std²), b_i ~ N(0, bias_std²), whatever the shape of the layer.

    The stable-rank report calls its five scales standard deviations; the authors' code uses the same
    numbers as variances. ``of_variance`` says which of the two is meant.

    >>> Gaussian.of_variance(0.25)
    Gaussian(std=0.5, bias=0.0)
    """

    std: float
    bias: float = 0.0

    def __post_init__(self) -> None:
        _require(0 <= self.std < math.inf, "std", self.std, "a finite number, not negative")
        _require(0 <= self.bias < math.inf, "bias", self.bias, "a finite number, not negative")

    @classmethod
    def of_variance(cls, variance: float, *, bias: float = 0.0) -> Gaussian:
        """The same from variances: W_ij ~ N(0, variance), b_i ~ N(0, bias)."""
        _require(0 <= variance < math.inf, "variance", variance, "a finite number, not negative")
        _require(0 <= bias < math.inf, "bias", bias, "a finite number, not negative")
        return cls(std=math.sqrt(variance), bias=math.sqrt(bias))

    def weight_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return self.std

    def bias_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return self.bias


@dataclass(frozen=True)
class He:
    """W_ij ~ N(0, 2/inputs) (He et al. 2015), biases 0.

    >>> He().weight_std(inputs=200, width=10)
    0.1
    """

    def weight_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return math.sqrt(2 / inputs)

    def bias_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return 0.0


@dataclass(frozen=True)
class GlorotUniform:
    """W_ij uniform in ±√(6/(inputs + width)) (Glorot & Bengio 2010), biases 0: the start of Frei et al. (2023).

    >>> round(GlorotUniform().weight_std(inputs=50, width=50), 9)      # √(2/100)
    0.141421356
    """

    uniform: ClassVar[bool] = True

    def weight_std(self, *, inputs: int, width: int) -> float:
        return math.sqrt(2 / (inputs + width))

    def bias_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return 0.0


@dataclass(frozen=True)
class FanIn:
    """W_ij ~ N(0, gain²/inputs), b_i ~ N(0, bias²/inputs).

    With gain = bias = 1/√3 these are the variances of PyTorch's default start, which is uniform. ``gain`` is the scale
    α of a start in studies of lazy and of late learning.

    >>> FanIn(gain=2.0).weight_std(inputs=100, width=10)
    0.2
    """

    gain: float
    bias: float = 0.0

    def __post_init__(self) -> None:
        _require(0 <= self.gain < math.inf, "gain", self.gain, "a finite number, not negative")
        _require(0 <= self.bias < math.inf, "bias", self.bias, "a finite number, not negative")

    def weight_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return self.gain / math.sqrt(inputs)

    def bias_std(self, *, inputs: int, width: int) -> float:  # noqa: ARG002
        return self.bias / math.sqrt(inputs)


class GaussianInit(Section):
    """W_ij ~ N(0, std²), b_i ~ N(0, bias²)."""

    name: Literal["gaussian"]
    std: NonNegative
    bias: NonNegative = 0.0

    def build(self) -> Initialisation:
        return Gaussian(self.std, bias=self.bias)


class VarianceInit(Section):
    """W_ij ~ N(0, variance): the same numbers read as the stable-rank report's code reads them."""

    name: Literal["gaussian-variance"]
    variance: NonNegative

    def build(self) -> Initialisation:
        return Gaussian.of_variance(self.variance)


class ScaledInit(Section):
    """W_ij ~ N(0, 1/m^(1+2q)) (Wang, Min & Ruan 2024)."""

    name: Literal["scaled"]
    q: Real

    def build(self) -> Initialisation:
        return Scaled(self.q)


class HeInit(Section):
    """W_ij ~ N(0, 2/inputs)."""

    name: Literal["he"] = "he"

    def build(self) -> Initialisation:
        return He()


class GlorotInit(Section):
    """W_ij uniform in ±√(6/(inputs + width))."""

    name: Literal["glorot-uniform"]

    def build(self) -> Initialisation:
        return GlorotUniform()


class FanInInit(Section):
    """W_ij ~ N(0, gain²/inputs), b_i ~ N(0, bias²/inputs)."""

    name: Literal["fan-in"]
    gain: NonNegative = 1.0
    bias: NonNegative = 0.0

    def build(self) -> Initialisation:
        return FanIn(self.gain, bias=self.bias)


INITIALISATIONS = (GaussianInit, VarianceInit, ScaledInit, HeInit, GlorotInit, FanInInit)
"""A new initialisation is a class with its section above and a line here."""

if TYPE_CHECKING:
    InitSection = GaussianInit | VarianceInit | ScaledInit | HeInit | GlorotInit | FanInInit
else:
    InitSection = Annotated[Union[INITIALISATIONS], Field(discriminator="name")]  # noqa: UP007


def draw_normal(shape: tuple[int, ...], *, std: float, generator: torch.Generator) -> Tensor:
    """Independent N(0, std²) entries, float64 on the CPU: every precision and device rounds the same draw."""
    if generator.device.type != "cpu":
        raise ConfigError(
            "Weights are drawn on the CPU, so that they are the same on every device: pass "
            "torch.Generator().manual_seed(seed) and move the network afterwards."
        )
    return torch.randn(shape, generator=generator, dtype=torch.float64) * std


_TRUNCATED_STD = 0.8796256610342398  # of a standard normal variable that is cut off at ±2


def draw_truncated_he(shape: tuple[int, ...], *, generator: torch.Generator) -> Tensor:
    """He-normal weights truncated at two standard deviations, for (outputs, inputs, …): their variance is 2/inputs.

    Draws beyond ±2 are drawn again, and what is left is scaled up to the variance that it lost, as TensorFlow's
    ``he_normal`` does. Float64 on the CPU.

    >>> weight = draw_truncated_he((500, 200), generator=torch.Generator().manual_seed(0))
    >>> bool(abs(weight.std() / 0.1 - 1) < 0.01), bool(weight.abs().max() <= 0.2 / 0.8796)
    (True, True)
    """
    drawn = draw_normal(shape, std=1.0, generator=generator)
    while len(outside := torch.nonzero(drawn.abs().flatten() > 2).flatten()):
        drawn.view(-1)[outside] = draw_normal((len(outside),), std=1.0, generator=generator)
    return drawn * (math.sqrt(2 / math.prod(shape[1:])) / _TRUNCATED_STD)


def draw_uniform(shape: tuple[int, ...], *, std: float, generator: torch.Generator) -> Tensor:
    """Independent entries, uniform in ±√3·std, float64 on the CPU."""
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1) * (math.sqrt(3) * std)


def empty_linear(inputs: int, outputs: int, *, bias: bool, dtype: torch.dtype) -> nn.Linear:
    """A linear layer whose weights are yet to be set; takes nothing from the global random state."""
    return allocated(nn.Linear(inputs, outputs, bias=bias, dtype=dtype, device="meta"))


def allocated(module: Layer) -> Layer:
    """A module made on the device "meta" with memory for its parameters, on the CPU; what is in it is not defined.

    ``to_empty`` does the same, and loads a computer algebra system for it, which takes half a second.
    """
    for each in module.modules():
        for name, parameter in each.named_parameters(recurse=False):
            empty = torch.empty(parameter.shape, dtype=parameter.dtype)
            each.register_parameter(name, nn.Parameter(empty, requires_grad=parameter.requires_grad))
    return module


def draw_linear(
    inputs: int,
    outputs: int,
    *,
    init: Initialisation,
    bias: bool,
    dtype: torch.dtype,
    generator: torch.Generator,
) -> nn.Linear:
    """A linear layer with weights, and then biases, drawn from ``init``."""
    layer = empty_linear(inputs, outputs, bias=bias, dtype=dtype)
    with torch.no_grad():
        weight_std = init.weight_std(inputs=inputs, width=outputs)
        draw = draw_uniform if getattr(init, "uniform", False) else draw_normal
        layer.weight.copy_(draw((outputs, inputs), std=weight_std, generator=generator))
        if bias:
            bias_std = init.bias_std(inputs=inputs, width=outputs)
            layer.bias.copy_(draw_normal((outputs,), std=bias_std, generator=generator))
    return layer


def _require(holds: bool, name: str, value: float, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"{name} = {value!r} is not {wanted}.")
