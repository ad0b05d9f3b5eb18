"""Networks and samples whose curvature can be measured, and the sentence that says what to do with others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError, ModelError
from undertow.core.grouped_products import GroupedProducts
from undertow.core.members import first_unlike
from undertow.core.plain_words import in_plain_words
from undertow.core.unwrapping import unwrapped
from undertow.jacobian.preconditions import refuse_train_mode

__all__ = ["check_members", "check_samples", "differentiable", "kinks_of", "working_dtype"]

_KINKS = {
    "Relu": "ReLU",
    "LeakyRelu": "leaky ReLU",
    "PreluKernel": "PReLU",
    "RreluWithNoise": "RReLU",
    "Hardtanh": "hard tanh",
    "Threshold": "threshold",
    "MaxPool": "maximum",
    "AdaptiveMaxPool": "maximum",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Amax": "maximum",
    "Max": "maximum",
    "Min": "minimum",
    "Clamp": "clamp",
    "Abs": "absolute value",
}


def differentiable(net: nn.Module) -> nn.Module:
    """The network itself: the backward pass of a compiled one cannot be differentiated."""
    if not isinstance(net, nn.Module):
        raise InputError(f"net must be a torch.nn.Module with parameters, not {type(net).__name__}.")
    return unwrapped(net)


def check_members(networks: Sequence[nn.Module]) -> None:
    """Refuse no networks, networks of several architectures, and layers that train."""
    if not networks:
        raise InputError("pass at least one network.")
    place = first_unlike(networks)
    if place is not None:
        raise InputError(f"network {place} has another architecture than network 0: measure them one by one.")
    for net in networks:
        refuse_train_mode(net)


def working_dtype(net: nn.Module, x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """The precision of the products: ``dtype``, or that of the network and of x; float32 for half precision."""
    if dtype is not None:
        if dtype not in (torch.float32, torch.float64):
            raise InputError(f"dtype must be torch.float32 or torch.float64, not {dtype}.")
        return dtype
    found = {parameter.dtype for parameter in net.parameters() if parameter.is_floating_point()}
    found |= {x.dtype} if x.is_floating_point() else set()
    if found & {torch.float16, torch.bfloat16}:
        found = {torch.float32, *found} - {torch.float16, torch.bfloat16}
    if len(found) != 1 or not found <= {torch.float32, torch.float64}:
        words = " and ".join(sorted(map(str, found)))
        raise InputError(
            f"the network and x hold {words}: pass dtype=torch.float32 or dtype=torch.float64 to measure in that "
            "precision."
        )
    return found.pop()


def check_samples(net: nn.Module, x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    """Outputs on a few samples; refuses wrong shapes, randomness, and what depends on other samples or on places."""
    if x.dim() < 1 or len(x) == 0:
        raise InputError("x must be a tensor of shape (N, …) with at least one sample.")
    if y.dim() < 1 or len(y) != len(x):
        raise InputError(
            f"x holds {len(x)} samples and y has shape {tuple(y.shape)}: pass one label per sample."
        )
    place = next((p.device for p in net.parameters() if p.device != x.device), None)
    if place is not None:
        raise InputError(f"x is on {x.device} but the network is on {place}: move one of them.")
    few = x[:4].to(dtype) if x.is_floating_point() else x[:4]
    state = {
        name: tensor.detach().to(dtype) if tensor.is_floating_point() else tensor.clone()
        for name, tensor in (*net.named_parameters(), *net.named_buffers())
    }

    def call(samples: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(net, state, (samples.clone(),))
        return found

    with torch.no_grad(), GroupedProducts():
        with in_plain_words(x):
            outputs = call(few)
        if not isinstance(outputs, Tensor):
            raise ModelError(
                f"the network returns {type(outputs).__name__}, not one tensor: wrap it in a module that picks one."
            )
        if outputs.dim() < 1 or len(outputs) != len(few):
            raise ModelError(
                f"for {len(few)} samples the network returns shape {tuple(outputs.shape)}: its first axis must be "
                "the samples."
            )
        if bool(outputs.isfinite().all()):
            size = float(outputs.abs().max()) if outputs.numel() else 0.0
            slack = 1e-4 * size
            if not torch.allclose(call(few), outputs, rtol=1e-3, atol=slack):
                raise ModelError(
                    "two passes over the same input differ: the network is random; call net.eval() first."
                )
            if len(few) > 1 and not torch.allclose(call(few[:1]), outputs[:1], rtol=1e-3, atol=slack):
                raise ModelError(
                    "a sample's output depends on the other samples of the batch, so the loss is no sum over samples: "
                    "use running statistics (net.eval()), or a normalisation within the sample."
                )
            if not torch.allclose(call(few.flip(0)).flip(0), outputs, rtol=1e-3, atol=slack):
                raise ModelError(
                    "the network treats a sample by its place in the batch, as with a buffer of one row per sample, so "
                    "what it gives depends on where samples are cut: let it take such rows as an argument, and pass "
                    "them as extras={'name': rows}."
                )
    return outputs


def kinks_of(net: nn.Module, x: Tensor) -> tuple[str, ...]:
    """Words for the operations between parameters and output that have a kink, in alphabetical order.

    >>> kinks_of(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2))
    ('ReLU',)
    """
    frozen = {name: p.detach().requires_grad_() for name, p in net.named_parameters()}
    if x.is_floating_point() and frozen:
        x = x.to(next(iter(frozen.values())).dtype)
    with torch.enable_grad():
        outputs: Tensor = torch.func.functional_call(net, frozen, (x[:1].clone(),))
    seen, found = set(), set()
    waiting = [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        name = node.name().split("Backward")[0].rstrip("0123456789D")
        found |= {word for start, word in _KINKS.items() if name == start or name.startswith(f"{start}Pool")}
        found |= {"maximum"} if "MaxPool" in name else set()
        waiting += [each for each, _ in node.next_functions]
    return tuple(sorted(found))
