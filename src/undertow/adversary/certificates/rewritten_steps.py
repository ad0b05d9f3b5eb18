"""Recorded steps that are several simpler ones: what is known of those is known of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from undertow.adversary.certificates.recorded_graph import Recorded

__all__ = ["rewritten"]

_ATEN = torch.ops.aten
_PRODUCTS = {"addmm": _ATEN.mm.default, "baddbmm": _ATEN.bmm.default}


def rewritten(step: Recorded, depends: Callable[[Any], bool]) -> list[Recorded]:
    """The steps that stand for one, which is the last of them or all of them.

    ``depends`` says of an argument whether it depends on the input.
    """
    if step.name in _PRODUCTS and depends(step.args[1]) and depends(step.args[2]):
        return _product_and_sum(step)
    return [step]


def _product_and_sum(step: Recorded) -> list[Recorded]:
    """β·c + α·(a·b), of which both factors depend on the input: attention scores and their mask."""
    product = _called(_PRODUCTS[step.name], step.args[1], step.args[2])
    steps, alpha = [product], step.kwargs.get("alpha", 1)
    if alpha != 1:
        steps.append(_called(_ATEN.mul.Tensor, product.results[0], alpha))
    given = (steps[-1].results[0], step.args[0])
    beta = {"alpha": step.kwargs["beta"]} if "beta" in step.kwargs else {}
    return [*steps, Recorded("add", _ATEN.add.Tensor, given, beta, step.results, False)]


def _called(function: Any, *args: Any) -> Recorded:
    result: Tensor = function(*args)
    return Recorded(function._schema.name.split("::")[1], function, args, {}, (result,), False)
