"""Recorded steps that are several simpler ones: what is known of those is known of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from undertow.adversary.certificates.recorded_graph import Recorded

__all__ = ["rewritten"]

_ATEN = torch.ops.aten
_PRODUCTS = {"addmm": _ATEN.mm.default, "baddbmm": _ATEN.bmm.default}
Depends = Callable[[Any], bool]


def rewritten(step: Recorded, depends: Depends) -> list[Recorded]:
    """The steps that stand for one: the last gives its result.

    ``depends`` says of an argument whether it depends on the input.
    """
    of = _REWRITTEN.get(step.name)
    try:
        return [step] if of is None else of(step, depends)
    except (RuntimeError, TypeError, ValueError, IndexError):  # called in a way that is not known here
        return [step]


class _Steps:
    """Steps that are taken one by one on what was recorded."""

    def __init__(self) -> None:
        self.taken: list[Recorded] = []

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Tensor:
        result = function(*args, **kwargs)
        first: Tensor = result[0] if isinstance(result, tuple) else result
        name = function._schema.name.split("::")[1]
        self.taken.append(Recorded(name, function, args, kwargs, (first,), False))
        return first

    def ending(self, *results: Any) -> list[Recorded]:
        """All of them, the last with these results."""
        return [*self.taken[:-1], replace(self.taken[-1], results=results)]


def _product_and_sum(step: Recorded, depends: Depends) -> list[Recorded]:
    """β·c + α·(a·b), of which both factors depend on the input: attention scores and their mask."""
    offset, one, other = step.args
    if not (depends(one) and depends(other)):
        return [step]
    then = _Steps()
    product = then(_PRODUCTS[step.name], one, other)
    if "alpha" in step.kwargs:
        product = then(_ATEN.mul.Tensor, product, step.kwargs["alpha"])
    beta = {"alpha": step.kwargs["beta"]} if "beta" in step.kwargs else {}
    then(_ATEN.add.Tensor, product, offset, **beta)
    return then.ending(*step.results)


def _quotient(step: Recorded, depends: Depends) -> list[Recorded]:
    """a/b = a·(1/b)."""
    if not depends(step.args[1]) or step.kwargs.get("rounding_mode") is not None:
        return [step]
    then = _Steps()
    then(_ATEN.mul.Tensor, then(_ATEN.reciprocal.default, step.args[1]), step.args[0])
    return then.ending(*step.results)


def _variance(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """Σ(v − mean)²/(n − correction), and its root."""
    value, *rest = step.args
    if rest and isinstance(rest[0], bool):  # the oldest form: over everything, or not
        return [step]
    axes = list(rest[0] or range(value.ndim)) if rest else list(range(value.ndim))
    correction = step.kwargs.get("correction")
    free = math.prod(value.shape[axis] for axis in axes) - (1 if correction is None else correction)
    if free <= 0:
        return [step]
    then, keep = _Steps(), bool(step.kwargs.get("keepdim", False))
    centred = then(_ATEN.sub.Tensor, value, then(_ATEN.mean.dim, value, axes, True))
    total = then(_ATEN.sum.dim_IntList, then(_ATEN.pow.Tensor_Scalar, centred, 2), axes, keep)
    found = then(_ATEN.div.Tensor, total, float(free))
    if step.name == "std":
        then(_ATEN.sqrt.default, found)
    return then.ending(*step.results)


def _length(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """‖v‖₂ along axes."""
    value, *rest = step.args
    if rest and rest[0] != 2:
        return [step]
    then = _Steps()
    axes = list(rest[1]) if len(rest) > 1 and rest[1] is not None else list(range(value.ndim))
    keep = len(rest) > 2 and rest[2]
    then(
        _ATEN.sqrt.default,
        then(_ATEN.sum.dim_IntList, then(_ATEN.pow.Tensor_Scalar, value, 2), axes, bool(keep)),
    )
    return then.ending(*step.results)


def _group_norm(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """LayerNorm of each group of channels, then weights and biases of channels."""
    value, weight, bias, _, _, _, groups, eps = step.args
    return _of_groups(step, value, weight, bias, groups, eps)


def _instance_norm(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """The same of each channel: what a normalisation by the batch's own statistics is to one sample."""
    value, weight, bias, _, _, training, _, eps = step.args
    if not training or len(value) > 1 or value.ndim < 3:
        return [step]
    return _of_groups(step, value, weight, bias, value.shape[1], eps)


def _of_groups(
    step: Recorded, value: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float
) -> list[Recorded]:
    then = _Steps()
    grouped = then(_ATEN.reshape.default, value, [len(value), groups, -1])
    rows = then(_ATEN.native_layer_norm.default, grouped, list(grouped.shape[2:]), None, None, eps)
    found = then(_ATEN.reshape.default, rows, list(value.shape))
    column = [1, -1, *[1] * (value.ndim - 2)]
    if weight is not None:
        found = then(_ATEN.mul.Tensor, found, weight.reshape(column))
    if bias is not None:
        then(_ATEN.add.Tensor, found, bias.reshape(column))
    return then.ending(*step.results)


def _log_softmax(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """v_i − v_1 − log Σ_j exp(v_j − v_1): of a difference of two only v_i − v_k is left."""
    value, axis = step.args[:2]
    then = _Steps()
    apart = then(_ATEN.sub.Tensor, value, then(_ATEN.slice.Tensor, value, axis, 0, 1))
    total = then(_ATEN.sum.dim_IntList, then(_ATEN.exp.default, apart), [axis], True)
    then(_ATEN.sub.Tensor, apart, then(_ATEN.log.default, total))
    return then.ending(*step.results)


def _log_sum(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """log Σ exp(v)."""
    value, axes, keep = (*step.args, False)[:3]
    then = _Steps()
    then(_ATEN.log.default, then(_ATEN.sum.dim_IntList, then(_ATEN.exp.default, value), list(axes), keep))
    return then.ending(*step.results)


def _log_sigmoid(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """log σ(v) = −softplus(−v)."""
    then = _Steps()
    then(_ATEN.neg.default, then(_ATEN.softplus.default, then(_ATEN.neg.default, step.args[0])))
    return then.ending(*step.results)


def _mish(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """v·tanh(softplus(v))."""
    then, (value, *_) = _Steps(), step.args
    then(_ATEN.mul.Tensor, value, then(_ATEN.tanh.default, then(_ATEN.softplus.default, value)))
    return then.ending(*step.results)


def _gated(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """The first half along an axis, times σ of the second."""
    value, axis = (*step.args, -1)[:2]
    then, half = _Steps(), value.shape[axis] // 2
    gate = then(_ATEN.sigmoid.default, then(_ATEN.slice.Tensor, value, axis, half, 2 * half))
    then(_ATEN.mul.Tensor, then(_ATEN.slice.Tensor, value, axis, 0, half), gate)
    return then.ending(*step.results)


def _larger(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """max(a, b) = b + relu(a − b), and min(a, b) = b − relu(b − a)."""
    if len(step.args) < 2 or not isinstance(step.args[1], Tensor):
        return [step]
    one, other = step.args[:2]
    then, largest = _Steps(), step.name in ("maximum", "max")
    apart = then(_ATEN.sub.Tensor, *((one, other) if largest else (other, one)))
    then(_ATEN.add.Tensor if largest else _ATEN.sub.Tensor, other, then(_ATEN.relu.default, apart))
    return then.ending(*step.results)


def _sum_with_product(step: Recorded, depends: Depends) -> list[Recorded]:
    """c + factor·a·b."""
    offset, one, other = step.args
    then = _Steps()
    product = then(_ATEN.mul.Tensor, one, other) if depends(one) or depends(other) else one * other
    then(_ATEN.add.Tensor, offset, product, alpha=step.kwargs.get("value", 1))
    return then.ending(*step.results)


def _between_two(step: Recorded, depends: Depends) -> list[Recorded]:
    """a + w·(b − a)."""
    one, other, weight = step.args
    then = _Steps()
    if isinstance(weight, Tensor) and depends(weight):
        return [step]
    apart = then(_ATEN.sub.Tensor, other, one)
    scale = _ATEN.mul.Tensor if isinstance(weight, Tensor) else _ATEN.mul.Scalar
    then(_ATEN.add.Tensor, one, then(scale, apart, weight))
    return then.ending(*step.results)


def _finite(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """A network's numbers as they are: in exact arithmetic none is NaN or infinite."""
    then = _Steps()
    then(
        _ATEN.neg.default, then(_ATEN.neg.default, step.args[0])
    )  # of masked scores, which have −∞, there is none
    return then.ending(*step.results)


def _written_over(step: Recorded, depends: Depends) -> list[Recorded]:
    """What is written over a tensor, in the shape of that."""
    target, value = step.args[:2]
    then = _Steps()
    if depends(value):
        then(_ATEN.expand.default, value, list(target.shape))
    else:
        everywhere = torch.ones_like(target, dtype=torch.bool)
        then(_ATEN.where.self, everywhere, torch.as_tensor(value).to(target), target)
    return then.ending(*step.results)


def _row_written(step: Recorded, depends: Depends) -> list[Recorded]:
    """A row that is written into a tensor, between what is before and behind it."""
    target, row, axis, place = step.args
    then, place = _Steps(), place % target.shape[axis]
    part = then(_ATEN.unsqueeze.default, row, axis) if depends(row) else row.unsqueeze(axis)
    return _between(then, step, part, axis, place, place + 1)


def _slice_written(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    target, part, *rest = step.args
    defaults: list[Any] = [0, None, None, 1]
    axis, start, stop, stride = rest + defaults[len(rest) :]
    start, stop, stride = slice(start, stop, stride).indices(target.shape[axis])
    return _between(_Steps(), step, part, axis, start, stop) if stride == 1 else [step]


def _between(then: _Steps, step: Recorded, part: Tensor, axis: int, start: int, stop: int) -> list[Recorded]:
    target = step.args[0]
    before = then(_ATEN.slice.Tensor, target, axis, 0, start)
    behind = then(_ATEN.slice.Tensor, target, axis, stop, target.shape[axis])
    then(_ATEN.cat.default, [each for each in (before, part, behind) if each.numel()], axis)
    return then.ending(*step.results)


def _smallest(step: Recorded, depends: Depends) -> list[Recorded]:  # noqa: ARG001
    """−max(−v) along axes."""
    then = _Steps()
    then(_ATEN.neg.default, then(_ATEN.amax.default, then(_ATEN.neg.default, step.args[0]), *step.args[1:]))
    return then.ending(*step.results)


_REWRITTEN: dict[str, Callable[[Recorded, Depends], list[Recorded]]] = {
    "addmm": _product_and_sum,
    "baddbmm": _product_and_sum,
    "div": _quotient,
    "var": _variance,
    "std": _variance,
    "linalg_vector_norm": _length,
    "native_group_norm": _group_norm,
    "native_batch_norm": _instance_norm,
    "_log_softmax": _log_softmax,
    "logsumexp": _log_sum,
    "log_sigmoid_forward": _log_sigmoid,
    "mish": _mish,
    "glu": _gated,
    "maximum": _larger,
    "minimum": _larger,
    "max": _larger,
    "min": _larger,
    "amin": _smallest,
    "addcmul": _sum_with_product,
    "lerp": _between_two,
    "nan_to_num": _finite,
    "copy": _written_over,
    "fill": _written_over,
    "select_scatter": _row_written,
    "slice_scatter": _slice_written,
}
