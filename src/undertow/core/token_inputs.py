"""Inputs of token ids, which have no derivative: where in a network they become vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from undertow.core.errors import InputError

__all__ = ["LookUp", "embedding_of", "last_tokens"]

_NO_DERIVATIVE = (
    "x has dtype {dtype}, which has no derivative: pass x.float(). (Where x are token ids, no nn.Embedding of the "
    "network looks them up: measure the part behind its own look-up.)"
)


class LookUp(NamedTuple):
    """Where a network's tokens become vectors: the name of an embedding, and which of its calls in a pass."""

    name: str
    call: int


def embedding_of(net: nn.Module, tokens: Tensor, extras: dict[str, Any]) -> tuple[LookUp, Tensor]:
    """The embedding that looks ``tokens`` up, which may be a decoder's too, and the vectors (N, length, width).

    >>> net = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(6, 1))
    >>> found, vectors = embedding_of(net, torch.tensor([[0, 1, 2]]), {})
    >>> found, vectors.shape
    (LookUp(name='0', call=0), torch.Size([1, 3, 2]))
    """
    found: dict[str, list[tuple[int, Tensor]]] = {}
    calls: Counter[str] = Counter()

    def note(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(_module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            looked_up = args[0] if args else None
            calls[name] += 1
            if (
                isinstance(looked_up, Tensor)
                and isinstance(output, Tensor)
                and looked_up.numel() == tokens.numel()
                and len(looked_up) == len(tokens)
                and torch.equal(looked_up.reshape(tokens.shape), tokens)
            ):
                found.setdefault(name, []).append((calls[name] - 1, output.detach()))

        return hook

    looking_up = {
        name: module
        for name, module in net.named_modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) or "Embedding" in type(module).__name__
    }
    if not looking_up:
        raise InputError(_NO_DERIVATIVE.format(dtype=tokens.dtype))
    hooks = [module.register_forward_hook(note(name)) for name, module in looking_up.items()]
    try:
        with torch.no_grad():
            net(tokens, **extras)
    finally:
        for hook in hooks:
            hook.remove()
    # A module that only wraps the embedding (scaled, or with positions added) sees the same tokens: the inner one is
    # where they become vectors. It finishes first.
    for name, outputs in found.items():
        if len(outputs) == 1:
            ((call, vectors),) = outputs
            return LookUp(name, call), vectors
    if found:
        name = next(iter(found))
        raise InputError(
            f"{name!r} looks the tokens up {len(found[name])} times, so they enter in several places: pass "
            "vectors to a module of your own that takes those, and measure that."
        )
    raise InputError(_NO_DERIVATIVE.format(dtype=tokens.dtype))


def last_tokens(logits: Tensor, mask: Tensor | None) -> Tensor:
    """The logits of each sample's last token that the mask admits: (N, length, k) to (N, k).

    >>> last_tokens(torch.arange(6.0).reshape(2, 3, 1), torch.tensor([[1, 1, 0], [0, 1, 1]]))
    tensor([[1.],
            [5.]])
    """
    length = logits.shape[1]
    if mask is None or mask.shape != logits.shape[:2]:
        return logits[:, -1]
    places = torch.arange(length, device=logits.device)
    last = torch.where(mask.to(logits.device) != 0, places, 0).amax(1)
    return logits[torch.arange(len(logits), device=logits.device), last]
