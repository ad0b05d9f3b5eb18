"""Recorded steps as operations, one after the other; LayerNorm and softmax as the several that they are."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from undertow.adversary.certificates.activation_curves import curve_of
from undertow.adversary.certificates.aten_rules import (
    ENTRYWISE,
    JOINT,
    KEEPING_ORDER,
    LINEAR,
    REARRANGING,
    Template,
    adaptive_members,
    clamp_ends,
    convolution_windows,
    fast_forward,
    fast_transposed,
    matrix_of,
    pooling_windows,
    window_members,
)
from undertow.adversary.certificates.map_checks import checked_map
from undertow.adversary.certificates.operations import (
    AffineMap,
    CurveOf,
    InputValue,
    LargestOf,
    Operation,
    ProductOf,
)
from undertow.adversary.certificates.recorded_graph import Recorded, UnreadableError

__all__ = ["GraphBuilder"]

_BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
_SOFTMAX = ("_softmax", "_safe_softmax")
_DIFFERENCES = 64  # entries of a softmax up to which all their differences are formed


class GraphBuilder:
    """Holds what has been read: ``operations``, and in ``depends`` which of them a recorded tensor is.

    ``unread`` says why a tensor could not be read; that matters where the scores depend on it.
    """

    def __init__(self, start: Tensor) -> None:
        self.device = start.device
        self.operations: list[Operation] = [InputValue(tuple(start.shape))]
        self.depends: dict[int, int] = {id(start): 0}
        self.unread: dict[int, str] = {}

    def add(self, step: Recorded) -> None:
        given = tree_flatten((step.args, step.kwargs))[0]
        reason = next((self.unread[id(part)] for part in given if id(part) in self.unread), None)
        several = step.several and step.name in REARRANGING
        for item, result in enumerate(step.results):
            if reason is None and (several or item == 0):
                try:
                    template = Template(step, self.depends, item)
                    self.depends[id(result)] = self._read(template, tuple(result.shape))
                    continue
                except UnreadableError as unreadable:
                    reason = str(unreadable)
            self.unread[id(result)] = reason or f"{step.name} gives more than one result, which is used"

    def output(self, result: Tensor) -> int:
        """Which operation the scores are."""
        if id(result) in self.unread:
            raise UnreadableError(self.unread[id(result)])
        if id(result) not in self.depends:
            raise UnreadableError("its scores do not depend on the input, or in a way that was not recorded")
        return self.depends[id(result)]

    def _read(self, template: Template, shape: tuple[int, ...]) -> int:
        name, depending = template.name, template.depending()
        single = len(template.places) == 1
        if (
            (name in JOINT and not (name == "where" and 0 in depending))
            or (name in LINEAR and depending == [0])
            or (name in ("mul", "mm", "bmm", "mv", "dot") and single)
            or (name in ("addmm", "baddbmm", "addmv") and not {1, 2} <= set(depending))
        ):
            return self._affine(template, shape)
        if name in _BATCH_NORMS and depending == [0]:
            return self._batch_norm(template)
        if name in ("max_pool2d_with_indices", "max_pool3d_with_indices"):
            return self._pooling(template, shape)
        if name in ("adaptive_max_pool2d", "adaptive_max_pool3d"):
            return self._largest(template, adaptive_members(template.shapes[0], shape), shape)
        if name == "amax" or (name == "max" and depending == [0]):
            return self._amax(template, shape)
        if name in _SOFTMAX:
            return self._softmax(template)
        if name == "native_layer_norm" and depending == [0]:
            return self._layer_norm(template)
        if name == "bmm" or (name == "mul" and template.inputs[0] != template.inputs[1]):
            return self._product(template.inputs, shape, matrices=name == "bmm")
        return self._activation(template, shape)

    def _append(self, operation: Operation) -> int:
        self.operations.append(operation)
        return len(self.operations) - 1

    def _affine(self, template: Template, shape: tuple[int, ...]) -> int:
        zeros = [torch.zeros(part, dtype=torch.float64, device=self.device) for part in template.shapes]
        offset = template(*zeros)
        if not bool(offset.isfinite().all()):
            raise UnreadableError(f"{template.name} adds what is not finite")
        if template.name == "div" and template.argument(2) is not None:
            raise UnreadableError("a division that rounds has no linear bounds")
        windows = convolution_windows(template)
        read = AffineMap(
            shape=shape,
            inputs=template.inputs,
            apply=template,
            absolute=template.absolute,
            input_shapes=template.shapes,
            offset=offset if bool((offset != 0).any()) else None,
            transposed=fast_transposed(template),
            transposed_absolute=fast_transposed(template, torch.abs),
            fast_values=fast_forward(template, shape),
            fast_sizes=fast_forward(template, shape, torch.abs),
            rearranges=template.name in REARRANGING,
            matrix=matrix_of(template),
            kernel=None if windows is None else template.argument(1),
            windows=windows,
            keeps_order=template.name in KEEPING_ORDER,
            entrywise=template.name in ENTRYWISE and set(template.shapes) == {shape},
            kind=template.kind,
            constants=template.constants,
        )
        return self._append(checked_map(read, self.device))

    def _made(
        self,
        at: int,
        apply: Callable[[Tensor], Tensor],
        absolute: Callable[[Tensor], Tensor],
        *,
        kind: tuple[object, ...],
        constants: tuple[Tensor, ...] = (),
        entrywise: bool = False,
    ) -> int:
        """An affine map that is a part of a recorded operation."""
        shape = self.operations[at].shape
        offset = apply(torch.zeros(shape, dtype=torch.float64, device=self.device))
        return self._append(
            AffineMap(
                shape=tuple(offset.shape),
                inputs=(at,),
                apply=apply,
                absolute=absolute,
                input_shapes=(shape,),
                offset=offset if bool((offset != 0).any()) else None,
                entrywise=entrywise,
                kind=kind,
                constants=constants,
            )
        )

    def _batch_norm(self, template: Template) -> int:
        """(v − mean)/√(variance + ε)·weight + bias, with the running statistics."""
        weight, bias, mean, variance = (template.argument(position) for position in range(1, 5))
        training = template.argument(5) if template.name != "_native_batch_norm_legit_no_training" else False
        if training or mean is None or variance is None:
            raise UnreadableError("a normalisation by the batch's own statistics mixes its samples")
        eps = template.leaves[-1] if isinstance(template.leaves[-1], float) else 1e-5
        scale = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
        shift = (0.0 if bias is None else bias) - mean * scale
        axes = (-1, *(1,) * (len(template.shapes[0]) - 2))
        scale, shift = scale.reshape(axes), shift.reshape(axes)
        return self._made(
            template.inputs[0],
            lambda v: v * scale + shift,
            lambda m: m * scale.abs() + shift.abs(),
            kind=("batch norm",),
            constants=(scale, shift),
            entrywise=True,
        )

    def _largest(self, template: Template, members: Tensor, shape: tuple[int, ...]) -> int:
        entries = math.prod(template.shapes[0])
        return self._append(LargestOf(shape, template.inputs, members.to(self.device), entries))

    def _pooling(self, template: Template, shape: tuple[int, ...]) -> int:
        windows = pooling_windows(template)
        members = window_members(windows, template.shapes[0], shape)
        if len(windows.size) != 2:
            return self._largest(template, members, shape)
        entries = math.prod(template.shapes[0])
        return self._append(LargestOf(shape, template.inputs, members.to(self.device), entries, windows))

    def _amax(self, template: Template, shape: tuple[int, ...]) -> int:
        inputs = template.shapes[0]
        named = template.argument(1)
        named = [named] if isinstance(named, int) else named or range(len(inputs))
        axes = sorted({axis % len(inputs) for axis in named})
        numbers = torch.arange(torch.Size(inputs).numel()).reshape(inputs)
        rest = [axis for axis in range(len(inputs)) if axis not in axes]
        ordered = numbers.permute(*rest, *axes)
        return self._largest(template, ordered.reshape(torch.Size(shape).numel(), -1), shape)

    def _curve(self, at: int, name: str) -> int:
        curve = curve_of(name)
        assert curve is not None
        return self._append(CurveOf(self.operations[at].shape, (at,), curve, kind=(name,)))

    def _product(self, inputs: tuple[int, ...], shape: tuple[int, ...], *, matrices: bool) -> int:
        if not matrices:  # broadcast both factors first, so that the product is entry by entry
            inputs = tuple(
                at if self.operations[at].shape == shape else self._broadcast(at, shape) for at in inputs
            )
        return self._append(ProductOf(shape, inputs, matrices))

    def _broadcast(self, at: int, shape: tuple[int, ...]) -> int:
        return self._made(
            at, lambda v: v.expand(shape) + 0.0, lambda m: m.expand(shape) + 0.0, kind=("broadcast", shape)
        )

    def _softmax(self, template: Template) -> int:
        """1/Σ_j exp(v_j − v_i), which does not overflow; of very many entries exp(v)/Σ exp(v), with fewer terms."""
        axis, shape = template.argument(1), template.shapes[0]
        place = axis % len(shape)
        if shape[place] <= _DIFFERENCES:
            apart = self._made(
                template.inputs[0],
                lambda v: v.unsqueeze(place) - v.unsqueeze(place + 1),
                lambda m: m.unsqueeze(place) + m.unsqueeze(place + 1),
                kind=("differences", place),
            )
            grown = self._curve(apart, "exp")
            total = self._made(
                grown, lambda v: v.sum(place + 1), lambda m: m.sum(place + 1), kind=("sum", place + 1)
            )
            return self._curve(total, "reciprocal")

        def summed(v: Tensor) -> Tensor:
            return v.sum(axis, keepdim=True)

        grown = self._curve(template.inputs[0], "exp")
        inverse = self._curve(self._made(grown, summed, summed, kind=("sum", axis)), "reciprocal")
        return self._product((grown, inverse), shape, matrices=False)

    def _layer_norm(self, template: Template) -> int:
        """(v − mean)/√(variance + ε)·weight + bias over the last axes."""
        width, shape = len(template.argument(1)), template.shapes[0]
        weight, bias, eps = (template.argument(position) for position in (2, 3, 4))
        axes = tuple(range(-width, 0))
        centred = self._made(
            template.inputs[0],
            lambda v: v - v.mean(axes, keepdim=True),
            lambda m: m + m.mean(axes, keepdim=True),
            kind=("centred", axes),
        )
        squared = self._curve(centred, "square")
        variance = self._made(
            squared,
            lambda v: v.mean(axes, keepdim=True) + eps,
            lambda m: m.mean(axes, keepdim=True) + eps,
            kind=("mean", axes, eps),
        )
        # the mean of squares is at least 0 however loose its bounds are
        floor = curve_of("clamp", (eps, torch.inf))
        assert floor is not None
        floored = self._append(
            CurveOf(self.operations[variance].shape, (variance,), floor, kind=("clamp", eps))
        )
        product = self._product((centred, self._curve(floored, "rsqrt")), shape, matrices=False)
        one = torch.ones((), dtype=torch.float64, device=self.device)
        scale, shift = one if weight is None else weight, 0 * one if bias is None else bias
        return self._made(
            product,
            lambda v: v * scale + shift,
            lambda m: m * scale.abs() + shift.abs(),
            kind=("scaled",),
            constants=(scale, shift),
        )

    def _activation(self, template: Template, shape: tuple[int, ...]) -> int:
        name = template.name
        slopes = template.argument(1) if name == "_prelu_kernel" and template.depending() == [0] else None
        arguments = tuple(leaf for leaf in template.leaves if isinstance(leaf, int | float | str))
        if name in ("clamp", "clamp_min", "clamp_max"):
            name, arguments = "clamp", clamp_ends(template)
        if name == "pow" and arguments == (2,):
            name = "square"
        if name == "mul" and len(set(template.inputs)) == 1:
            name = "square"
        curve = curve_of(name, arguments, slopes)
        if curve is None or len(set(template.inputs)) != 1:
            raise UnreadableError(f"the operation {template.name} has no known linear bounds")
        constants = () if slopes is None else (slopes,)
        return self._append(CurveOf(shape, template.inputs[:1], curve, (name, arguments), constants))
