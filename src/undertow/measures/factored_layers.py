"""Layers whose gradients are slopes times inputs: those that are plain and, tried at a few points, turn out to be.

What a layer is does not say so yet. Its weights may be used a second time elsewhere, the samples need not be on the
first axis of what it is given, and what all points share is given to it once. A hook may change what it takes or gives:
inputs are seen after such changes, and outputs before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from undertow.core.called_with import called_with
from undertow.core.pulled_back import gradients_of, pulled_back
from undertow.core.scoring import as_rows
from undertow.measures.gradient_factors import GradientFactor, factor_of_layer
from undertow.measures.kink_slopes import count_calls

__all__ = ["factored_layers", "layer_factors", "own_parameters"]

_TRIED = 3  # points
_CLOSE = 1e-8


def factored_layers(net: nn.Module, x: Tensor, weights: Mapping[str, Tensor]) -> dict[str, nn.Module]:
    """Layers by name: the gradients by those of the ``weights`` that each holds follow from its slopes and inputs.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    >>> list(factored_layers(net, torch.eye(2).double(), dict(net.named_parameters())))
    ['0', '2']
    """
    calls = count_calls(net, x[:1])
    # A layer that shares a parameter with another one has only a part of its gradient.
    uses = Counter(id(p) for _, p in net.named_parameters(remove_duplicate=False))
    layers = {
        name: module
        for name, module in net.named_modules()
        if calls.get(name) == 1
        and _is_plain(module)
        and own_parameters(name, module, weights)
        and all(uses[id(p)] == 1 for p in module.parameters())
    }
    if not layers:
        return {}
    # Always as many: a layer that is given something of a single row, whatever the points, would look like one of them.
    few = x[torch.linspace(0, len(x) - 1, _TRIED).round().long().to(x.device)]
    leaves = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
    with torch.enable_grad():
        scores = as_rows(called_with(net, leaves, few), len(few))
    mixture = torch.randn(scores.shape[1], generator=torch.Generator().manual_seed(0), dtype=scores.dtype)
    slopes = mixture.to(scores.device).expand_as(scores)
    found = dict(_each_factor(net, layers, few, slopes, weights))
    one_by_one = [_gradients(score, mixture.to(scores.device), leaves) for score in scores]
    return {
        name: module
        for name, module in layers.items()
        if name in found and _agree(found[name], [_as_rows(name, module, each) for each in one_by_one])
    }


def layer_factors(
    net: nn.Module, layers: Mapping[str, nn.Module], x: Tensor, slopes: Tensor, weights: Mapping[str, Tensor]
) -> dict[str, GradientFactor]:
    """Factors of the gradients of Σ_k slopes_nk s_k(x_n), for every point n, by each layer's own among the weights."""
    return dict(_each_factor(net, layers, x, slopes, weights))


def own_parameters(name: str, module: nn.Module, weights: Mapping[str, Tensor]) -> list[str]:
    """Which of the weights are the module's own, by their full names."""
    full = [f"{name}.{key}".lstrip(".") for key, _ in module.named_parameters(recurse=False)]
    return [each for each in full if each in weights]


def _each_factor(
    net: nn.Module, layers: Mapping[str, nn.Module], x: Tensor, slopes: Tensor, weights: Mapping[str, Tensor]
) -> Iterator[tuple[str, GradientFactor]]:
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., Tensor]:
        def hook(module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:  # noqa: ARG001
            outputs[name] = output if output.requires_grad else output.requires_grad_()
            inputs[name] = given[0].detach()
            return outputs[name].clone()  # what follows may work in place

        return hook

    with torch.enable_grad(), ExitStack() as stack:
        for name, module in layers.items():
            # Before hooks of others: what these do to an output belongs to the rest of the network.
            stack.callback(module.register_forward_hook(keep(name), prepend=True).remove)
        scores = as_rows(net(x), len(x))
        names = list(outputs)
        # Without a plain layer, where all parameters are the root's own, the rest of the gradient is everything.
        found = pulled_back([scores], [outputs[n] for n in names], [slopes]) if names else []
    for name, delta in zip(names, found, strict=True):
        fewest = 4 if isinstance(layers[name], nn.Conv2d) else 2  # axes of a batch
        if inputs[name].dim() >= fewest and len(inputs[name]) == len(x):
            known = torch.zeros_like(outputs[name]) if delta is None else delta.detach()
            yield (
                name,
                factor_of_layer(layers[name], inputs[name], known, _parts(name, layers[name], weights)),
            )


def _parts(name: str, module: nn.Module, weights: Mapping[str, Tensor]) -> tuple[bool, bool]:
    """Whether the layer's weight counts, and whether its bias does."""
    own = own_parameters(name, module, weights)
    return f"{name}.weight".lstrip(".") in own, f"{name}.bias".lstrip(".") in own


def _gradients(score: Tensor, mixture: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = gradients_of((score * mixture).sum(), list(leaves.values()), retain_graph=True)
    return dict(zip(leaves, found, strict=True))


def _as_rows(name: str, module: nn.Module, gradients: Mapping[str, Tensor]) -> Tensor:
    """The gradient as a factor has it: a row for each output, the bias behind the weights."""
    own = [gradients[each] for each in own_parameters(name, module, gradients)]
    return torch.cat([each.reshape(len(each), -1) for each in own], dim=1)


def _agree(factor: GradientFactor, gradients: list[Tensor]) -> bool:
    """Whether the products are the gradients, relative to what their factors could make."""
    for slopes, inputs, wanted in zip(factor.slopes, factor.inputs, gradients, strict=True):
        product = torch.einsum("ta,tb->ab", slopes, inputs)
        if product.numel() != wanted.numel():
            return False
        size = max(float(slopes.norm() * inputs.norm()), float(wanted.norm()))
        if not float((product.reshape(wanted.shape) - wanted).norm()) <= _CLOSE * size:
            return False
    return True


def _is_plain(module: nn.Module) -> bool:
    """Whether the module is a matrix product or a convolution as factors are written for."""
    if "forward" in vars(module):
        return False
    if type(module) is nn.Linear:
        plain = True
    else:
        plain = type(module) is nn.Conv2d and module.groups == 1 and module.padding_mode == "zeros"
    return plain and {name for name, _ in module.named_parameters()} <= {"weight", "bias"}
