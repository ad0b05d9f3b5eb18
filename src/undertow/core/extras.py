"""What a network takes beside its samples: masks, positions, switches."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from undertow.core.errors import InputError

__all__ = ["arguments_beside_x", "rows_of_extras"]


def arguments_beside_x(net: nn.Module) -> tuple[list[str], bool]:
    """The names of what ``net.forward`` takes behind its first argument, and whether it takes any others.

    >>> arguments_beside_x(nn.LSTM(1, 1))
    (['hx'], False)
    """
    try:
        arguments = list(inspect.signature(net.forward).parameters.values())
    except (TypeError, ValueError):  # compiled by TorchScript, or written in C
        return [], True
    named = [each.name for each in arguments if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return named[1:], any(each.kind is each.VAR_KEYWORD for each in arguments)


def rows_of_extras(extras: Mapping[str, Any] | None, x: Tensor) -> dict[str, Any]:
    """What a network takes beside x, on its device and in its dtype; refused where it lacks a row for each sample."""
    found: dict[str, Any] = {}
    for name, extra in (extras or {}).items():
        if isinstance(extra, Tensor):
            if extra.shape[:1] != x.shape[:1]:
                raise InputError(
                    f"extras[{name!r}] has shape {tuple(extra.shape)}, but there are {len(x)} samples: give it one "
                    "row for each, or pass what is the same for all of them inside a module of your own."
                )
            extra = extra.detach().to(x.device)
            if extra.is_floating_point() and x.is_floating_point():
                extra = extra.to(x.dtype)
        found[str(name)] = extra
    return found
