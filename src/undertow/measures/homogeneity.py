"""The order of homogeneity of a network in its parameters: f(cθ) = c^L f(θ), measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from undertow.core.activations import activation_of
from undertow.core.called_with import called_with
from undertow.core.scoring import as_rows, chosen_parameters, double_copy
from undertow.core.shown import Shown

__all__ = ["HomogeneityResult", "homogeneity", "homogeneity_of", "homogeneity_order"]

_FACTORS = (
    0.5,
    2.0,
    3.0,
)  # at which f(cθ) is compared with c^L f(θ), or at 1/c where f(cθ) is no number any more
# Between 2^k and 2^(k+1) the order of a network that is only nearly homogeneous is read: the first k at which both ends
# are numbers. Thirty layers have 2^750 at k = 25, and no room for that where their weights are large already.
_FAR = (24, 20, 16, 12, 8, 4, 2, 1, 0, -1)
_SMALLEST, _LARGEST = 1e-280, 1e300  # scores between which nothing is lost at either end of float64
_POINTS = 32
_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
_CLOSE = 1e-6


@dataclass(frozen=True)
class HomogeneityResult(Shown):
    """How f(cθ) grows with c, and what that means for margins divided by a power of the norm."""

    order: float
    """L where f(cθ) = c^L f(θ), 0 where scores do not depend on the scale and negative where they shrink with it.
    Otherwise the power of c that f(cθ) grows with as c → ∞, NaN where there is none."""
    deviation: float
    """The largest ‖f(cθ) − c^L f(θ)‖/‖c^L f(θ)‖ over the factors c that were tried, norms over points and scores."""
    sentence: str

    @property
    def homogeneous(self) -> bool:
        return self.deviation <= _CLOSE


def homogeneity(net: nn.Module, x: Tensor, *, parameters: Sequence[str] = ()) -> HomogeneityResult:
    """L with f(cθ) = c^L f(θ) for all c > 0 (Lyu & Li 2020, §2), measured at several c in float64.

    Only the parameters whose names begin as given are scaled, by default all. A network is evaluated on at most
    32 of the points x, spread over them.

    A network with biases beyond the first layer, or with BatchNorm, is not homogeneous. What is left of the order is
    the power of c that f(cθ) grows with as c → ∞, since there the terms of lower order vanish.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False))
    >>> homogeneity(net, torch.eye(2)).order
    2.0
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> found = homogeneity(net, torch.eye(2))
    >>> found.order, found.homogeneous
    (2.0, False)
    >>> homogeneity(nn.Sequential(nn.Linear(2, 3, bias=False), nn.LayerNorm(3, eps=0, bias=False)), torch.eye(2)).order
    1.0
    """
    return homogeneity_of(double_copy(net), x.double(), parameters=parameters)


def homogeneity_of(net: nn.Module, x: Tensor, *, parameters: Sequence[str] = ()) -> HomogeneityResult:
    """The same of a network that is already a copy in float64."""
    scaled = _scaling(net, x, parameters)
    here = scaled(1.0)
    largest = _largest(here)
    if not 0 < largest < math.inf:
        word = "zero" if largest == 0 else "not finite"
        return HomogeneityResult(
            math.nan, math.inf, f"The scores are {word} at the points asked, so no order can be measured."
        )
    order = _order(scaled)
    deviation = math.inf
    if math.isfinite(order):
        here = here / largest
        gaps = [torch.linalg.vector_norm(_compared(scaled, c, order, largest) - here) for c in _FACTORS]
        deviation = float(torch.stack(gaps).max() / torch.linalg.vector_norm(here))
        deviation = math.inf if math.isnan(deviation) else deviation
        if order <= 0 and deviation > _CLOSE:  # what levels off, or dies out, is of no order
            order, deviation = math.nan, math.inf
    return HomogeneityResult(order, deviation, _sentence(net, order, deviation))


def homogeneity_order(net: nn.Module, x: Tensor, *, parameters: Sequence[str] = ()) -> float:
    """L alone, of a network in float64; NaN where it is not positive.

    >>> homogeneity_order(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double(), torch.eye(2).double())
    2.0
    """
    order = _order(_scaling(net, x, parameters))
    return order if order > 0 else math.nan


def _scaling(net: nn.Module, x: Tensor, parameters: Sequence[str]) -> Callable[[float], Tensor]:
    """c ↦ f(cθ) on at most 32 of the points."""
    chosen = chosen_parameters(net, parameters)
    points = x[:: max(1, -(-len(x) // _POINTS))]

    def scaled(factor: float) -> Tensor:
        weights = {name: parameter * factor for name, parameter in chosen.items()}
        with torch.no_grad():
            return as_rows(called_with(net, weights, points), len(points)).double()

    return scaled


def _order(scaled: Callable[[float], Tensor]) -> float:
    """d log‖f(cθ)‖/d log c for large c, as a whole number where it is one within a thousandth."""
    for power in _FAR:
        slope = _power(scaled(2.0**power), scaled(2.0 ** (power + 1)))
        if slope is not None:
            break
    else:
        return math.nan
    nearest = round(slope)
    return float(nearest) if abs(slope - nearest) < 1e-3 else slope


def _power(small: Tensor, large: Tensor) -> float | None:
    """log₂ of the ratio of two sizes; None where one of them is near an end of float64."""
    sizes = _largest(small), _largest(large)
    if not all(_SMALLEST < size < _LARGEST for size in sizes):
        return None
    # Norms relative to the largest score: the square of one may be infinite.
    norms = [float(torch.linalg.vector_norm(f / size)) for f, size in zip((small, large), sizes, strict=True)]
    return math.log2(sizes[1] / sizes[0]) + math.log2(norms[1] / norms[0])


def _compared(scaled: Callable[[float], Tensor], factor: float, order: float, unit: float) -> Tensor:
    """f(cθ)/c^L in a unit; at 1/c where f(cθ) is near an end of float64."""
    found = scaled(factor)
    if not _SMALLEST < _largest(found) < _LARGEST:
        factor = 1 / factor
        found = scaled(factor)
    relative: Tensor = found / unit / factor**order
    return relative


def _largest(scores: Tensor) -> float:
    """The largest |score|; infinite where one is not finite."""
    size = float(scores.abs().max()) if scores.numel() else 0.0
    return size if math.isfinite(size) else math.inf


def _sentence(net: nn.Module, order: float, deviation: float) -> str:
    if deviation <= _CLOSE:
        return f"f(cθ) = c^{order:g} f(θ) to {deviation:.1g}.{_caveat(net, order)}"
    causes = _causes(net)
    why = f" ({'; '.join(causes)})" if causes else ""
    if math.isnan(order):
        return (
            f"The network is not homogeneous{why}, and f(cθ) does not grow with a power of c: margins, support set and "
            "loss stand, what is divided by a power of the norm is left out."
        )
    return (
        f"The network is not homogeneous{why}: f(cθ) differs from c^{order:g} f(θ) by up to {deviation:.2g} of it "
        f"between c = 1/2 and 3. Margins, support set and loss stand; what is divided by ρ^{order:g} depends on the "
        "scale of the weights, and compares networks only where their norms are large."
    )


def _caveat(net: nn.Module, order: float) -> str:
    """What a network that is homogeneous may still not be."""
    if order <= 0:
        return (
            " Larger weights make no larger margins, so that there is no margin problem to be near a KKT point of: "
            "name the parameters whose scale counts."
        )
    fresh = _fresh_norms(net)
    return fresh and (
        f" So it is while BatchNorm has seen no data ({fresh}: means of 0 and variances of 1); afterwards the network "
        "is not homogeneous: measure it trained."
    )


def _fresh_norms(net: nn.Module) -> str:
    """BatchNorms whose statistics are those that they were made with."""
    return ", ".join(
        name
        for name, module in net.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
        and module.running_mean is not None
        and module.running_var is not None
        and not bool(module.running_mean.any())
        and bool((module.running_var == 1).all())
    )


def _causes(net: nn.Module) -> list[str]:
    """What commonly makes a network not homogeneous, as far as its modules show it."""
    owners = [
        (name, module) for name, module in net.named_modules() if any(True for _ in module.parameters(False))
    ]
    # A norm's own weight and bias scale what comes after it alike: only the ε beside its variance does not scale.
    shifted = [name for name, module in net.named_modules() if isinstance(module, _NORMS) and module.eps != 0]
    norms = [name for name, module in owners if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    biased = [
        f"{name}.bias".lstrip(".")
        for name, module in owners[1:]
        if getattr(module, "bias", None) is not None
        and not isinstance(module, (*_NORMS, nn.modules.batchnorm._BatchNorm))
    ]
    curved = [
        f"{name} ({activation.name})".lstrip()
        for name, module in net.named_modules()
        if (activation := activation_of(module)) is not None and not activation.homogeneous
    ]
    found = {
        "biases beyond the first layer": biased,
        "BatchNorm": norms,
        "activations that bend": curved,
        "norms with an ε": shifted,
    }
    return [
        f"{what}: {', '.join(names[:3])}{', …' * (len(names) > 3)}" for what, names in found.items() if names
    ]
